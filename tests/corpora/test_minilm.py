"""The MiniLM forward pass against a plain-loop one on random weights, and against stored states of
torch (tools/make_minilm_fixture.py).
"""

import math

import numpy as np
import pytest
from helpers.paths import DATA
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.corpora import minilm, sentences
from attnscope.corpora.installed import NotInstalled
from attnscope.corpora.text import bags_of_layer

DIM = 12
WIDE = 20
HEADS = 3
LAYERS = 2
VOCABULARY = 15
FIXTURE = DATA / "minilm_fixture.npz"


def random_weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, DIM),
        "embeddings.position_embeddings.weight": (10, DIM),
        "embeddings.token_type_embeddings.weight": (2, DIM),
        "embeddings.LayerNorm.weight": (DIM,),
        "embeddings.LayerNorm.bias": (DIM,),
    }
    for i in range(LAYERS):
        name = f"encoder.layer.{i}."
        for part, rows, columns in (
            *((f"attention.self.{p}", DIM, DIM) for p in ("query", "key", "value")),
            ("attention.output.dense", DIM, DIM),
            ("intermediate.dense", WIDE, DIM),
            ("output.dense", DIM, WIDE),
        ):
            shapes |= {f"{name}{part}.weight": (rows, columns), f"{name}{part}.bias": (rows,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{name}{part}.weight": (DIM,), f"{name}{part}.bias": (DIM,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def plain_forward(w: dict[str, np.ndarray], ids: list[int]) -> list[list[list[float]]]:
    """The same mathematics for one text, number by number."""

    def affine(x, name):
        weight = w[name + ".weight"]
        bias = w[name + ".bias"]
        return [
            bias[i] + sum(weight[i, j] * x[j] for j in range(len(x)))
            for i in range(len(bias))
        ]

    def norm(x, name):
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((t - mean) ** 2 for t in x) / len(x) + 1e-12)
        return [
            (t - mean) / spread * a + b
            for t, a, b in zip(x, w[name + ".weight"], w[name + ".bias"])
        ]

    def gelu(x):
        return x * math.erfc(-x / math.sqrt(2)) / 2

    def attend(rows, name):
        q, k, v = (
            [affine(x, f"{name}attention.self.{part}") for x in rows]
            for part in ("query", "key", "value")
        )
        size = DIM // HEADS
        out = []
        for t in range(len(rows)):
            joined = []
            for h in range(HEADS):
                part = range(h * size, (h + 1) * size)
                weight = [
                    math.exp(sum(q[t][j] * row[j] for j in part) / math.sqrt(size))
                    for row in k
                ]
                joined += [
                    sum(a * row[j] for a, row in zip(weight, v)) / sum(weight) for j in part
                ]
            out.append(affine(joined, name + "attention.output.dense"))
        return out

    name = "embeddings."
    tables = [
        w[name + part + "_embeddings.weight"] for part in ("word", "position", "token_type")
    ]
    rows = [
        norm(
            [sum(x) for x in zip(tables[0][i], tables[1][t], tables[2][0])],
            name + "LayerNorm",
        )
        for t, i in enumerate(ids)
    ]
    layers = [rows]
    for i in range(LAYERS):
        name = f"encoder.layer.{i}."
        added = [[a + b for a, b in zip(*pair)] for pair in zip(rows, attend(rows, name))]
        rows = [norm(x, name + "attention.output.LayerNorm") for x in added]
        wide = [[gelu(t) for t in affine(x, name + "intermediate.dense")] for x in rows]
        added = [
            [a + b for a, b in zip(x, affine(y, name + "output.dense"))]
            for x, y in zip(rows, wide)
        ]
        rows = [norm(x, name + "output.LayerNorm") for x in added]
        layers.append(rows)
    return layers


@pytest.mark.parametrize("seed", [0, 1])
def test_forward_equals_plain_loops_with_and_without_padding(seed):
    weights = random_weights(seed)
    texts = [[3, 1, 4], [1, 5, 9, 2, 6, 5], [8]]
    ids, mask = minilm._pad_ids([np.array(t) for t in texts])
    out = minilm.forward(weights, ids, mask, LAYERS, HEADS)
    assert out.shape == (LAYERS + 1, 3, 6, DIM) and np.isfinite(out).all()
    for i, text in enumerate(texts):
        # float64 rounding: measured 4e-15 of states of size 5
        assert np.allclose(
            out[:, i, : len(text)], plain_forward(weights, text), rtol=0, atol=EXACT
        )


def test_float32_weights_give_float32_states():
    weights = {name: w.astype(np.float32) for name, w in random_weights(2).items()}
    ids, mask = minilm._pad_ids([np.array([1, 2, 3])])
    assert minilm.forward(weights, ids, mask, LAYERS, HEADS).dtype == np.float32


def test_batches_hold_every_text_once_and_stay_small():
    lengths = [int(n) for n in np.random.default_rng(0).integers(2, 400, size=200)] + [3000]
    groups = minilm._length_batches(lengths)
    assert sorted(i for group in groups for i in group) == list(range(201))
    assert all(
        len(g) == 1 or len(g) * max(lengths[i] for i in g) <= minilm.BATCH_TOKENS
        for g in groups
    )
    assert len(groups) < 2 * sum(lengths) / minilm.BATCH_TOKENS + 2


# -- with the wheel --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel():
    try:
        minilm.minilm_path()
    except NotInstalled as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def stored():
    with np.load(FIXTURE) as held:
        return dict(held)


def test_states_equal_those_of_torch(wheel, stored):
    """float32 here against float64 there: measured 2.3e-6 of states up to 10.5;
    the texts of unlike lengths run in one batch.
    """
    found = at.token_states(stored["texts"].tolist())
    for i, states in enumerate(found.states):
        assert np.array_equal(
            minilm.encode(stored["texts"].tolist()).ids[i], stored[f"ids_{i}"]
        )
        assert states.dtype == np.float32 and states.shape[::2] == (7, 384)
        assert np.abs(states[:, :, :: stored["every"]] - stored[f"states_{i}"]).max() < 1e-5


def test_asked_layers_and_static_rows(wheel):
    text = ["The cat saw the cat."]
    every = at.token_states(text).states[0]
    some = at.token_states(text, layers=["static", 3, 0]).states[0]
    assert np.array_equal(some[2], every[0]) and np.array_equal(some[1], every[3])
    # "cat" twice
    assert np.array_equal(some[0, 2], some[0, 5]) and not np.array_equal(
        every[0, 2], every[0, 5]
    )
    assert at.token_states(text, layers="static").states[0].shape == (1, 8, 384)


def test_words_of_the_lists_are_single_pieces(wheel):
    known = minilm._load_tokenizer().get_vocab()
    words = [
        *sentences.KIND_ADJECTIVES,
        *sentences.UNKIND_ADJECTIVES,
        *sentences.ANIMALS,
        *(city.lower() for city in sentences.CITIES),
    ]
    words += [
        w for kind in sentences.ANTONYMS for pair in at.antonym_pairs(kind) for w in pair
    ]
    assert not [w for w in words if w not in known]


@pytest.mark.parametrize("special", [False, True])
def test_text_bags_point_at_the_deciding_word(wheel, special):
    for split in sentences.SPLITS:
        some = at.draw_sentences(20, split, seed=2)
        bags = at.text_bags(some, "static", special)
        assert [words[i] for words, i in zip(bags.words, bags.location)] == some.word
        assert [len(b) for b in bags.bags] == [len(w) for w in bags.words]
        assert (bags.words[0][0] == "[CLS]") == special


def test_text_bags_of_states_at_hand_are_the_same(wheel):
    some = at.draw_sentences(10, seed=3)
    states = at.token_states(some.texts, layers=[0, 2])
    for a, b in zip(bags_of_layer(some, states, 1).bags, at.text_bags(some, 2).bags):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("texts", "layers", "message"),
    [
        ("a text", [0], "texts of token_states must be a list of strings"),
        (
            None,
            [0],
            "texts of token_states must be a list of strings, got an object of type NoneType",
        ),
        ([1, 2], [0], "texts of token_states must be a list of strings"),
        ([], [0], "texts of token_states must be at least one text"),
        (["word " * 600], [0], "of at most 512 word pieces, got 602 in text 0"),
        (["a"], [7], 'layers of token_states must be a list of "static" and integers 0 .. 6'),
        (["a"], ["last"], "layers of token_states must be"),
        (["a"], [], "layers of token_states must be"),
        (["a"], None, "layers of token_states must be"),
    ],
)
def test_token_states_refuse(wheel, texts, layers, message):
    with pytest.raises(at.AttnscopeError, match=message):
        at.token_states(texts, layers)


@pytest.mark.parametrize("given", [["x"], "x", None, ("x", 1, "x", (0, 1)), []])
def test_text_bags_of_plain_texts_are_refused_with_or_without_the_wheel(given):
    with pytest.raises(
        at.AttnscopeError, match="sentences of text_bags must be Sentences"
    ) as no:
        at.text_bags(given)
    assert not isinstance(no.value, NotInstalled)  # first what no wheel would mend
