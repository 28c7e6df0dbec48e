"""Transformer blocks and their baselines: maps against plain re-writings, order, masks."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.small_blocks import BLOCKS, D, L, name, normed, shaken, tokens
from helpers.tolerances import EXACT, FORMULA, SIX_DIGITS
from scipy.special import expit, softmax

from attnscope.dynamics.networks.blocks import simplified_risk, train_block
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.attention import Softmax
from attnscope.predictors.blocks.compared_models import (
    DenseNet,
    GatedRecurrent,
    SimplifiedAttention,
)
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.predictors.full_attention import FullAttention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.layer_norm import informative_weight, layer_norm_floor

ATTENTION = [*BLOCKS, SimplifiedAttention(D), SimplifiedAttention(D, "erf")]
ALL = [*ATTENTION, DenseNet(D, L, 4), GatedRecurrent(D, 4)]


def plain_block(model, p, x):
    """One sequence, all rows and in the textbook order (queries, keys, values, then mixing);
    the register's row is read last.
    """
    rows = np.concatenate([p["register"][None], x])
    a = normed(rows, p["gain1"], p["bias1"]) if model.norm else rows
    update = np.zeros_like(rows)
    for h in range(model.heads):
        q, k, v = (a @ p[part][h].T for part in ("query", "key", "value"))
        weights = softmax(model.inverse_temperature * q @ k.T / np.sqrt(q.shape[1]), axis=1)
        update += weights @ v @ p["output"][h].T
    rows = rows + update
    if model.hidden:
        inner = (normed(rows, p["gain2"], p["bias2"]) if model.norm else rows) @ p[
            "first"
        ].T + p["first_bias"]
        gelu = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
        rows = rows + gelu @ p["second"].T + p["second_bias"]
    return rows[0] @ p["readout"] + p["readout_bias"]


@pytest.mark.parametrize(
    "model", [*BLOCKS, TransformerBlock(D, inverse_temperature=1.7)], ids=name
)
def test_block_is_the_textbook_block(model):
    p, x = shaken(model), tokens()
    assert model.predict(p, x) == pytest.approx(
        np.array([plain_block(model, p, row) for row in x]), rel=EXACT
    )


def test_block_without_norm_and_feed_forward_is_the_full_layer():
    model, x = BLOCKS[2], tokens()
    p = shaken(model)
    layer = FullAttention(
        p["query"][0].T,
        p["key"][0].T,
        p["value"][0].T,
        (p["readout"] @ p["output"][0])[None],
        D**-0.5,
    )
    with_register = np.concatenate(
        [np.broadcast_to(p["register"], (len(x), 1, D)), x], axis=1
    )
    expected = (
        layer.cls_row(with_register, p["register"])[:, 0]
        + p["readout"] @ p["register"]
        + p["readout_bias"]
    )
    assert model.predict(p, x) == pytest.approx(expected, rel=EXACT)


def test_recurrent_unit_is_the_plain_loop():
    model = ALL[-1]
    p, x, h = shaken(model), tokens(), np.zeros((6, 4))
    for l in range(L):
        part = lambda i, state, now=x[:, l]: (
            now @ p["input"][i].T + state @ p["recurrent"][i].T
        )
        keep = expit(part(0, h) + p["keep_bias"])
        forget = expit(part(1, h) + p["forget_bias"])
        h = keep * h + (1 - keep) * np.tanh(part(2, forget * h) + p["state_bias"])
    assert model.predict(p, x) == pytest.approx(
        h @ p["readout"] + p["readout_bias"], rel=EXACT
    )


# two heads with a feed-forward part and layer norm stand for the other blocks
DIFFERENTIATED = [
    pytest.param(model, marks=pytest.mark.slow) if model in (BLOCKS[0], BLOCKS[2]) else model
    for model in ALL
]


@pytest.mark.parametrize("model", DIFFERENTIATED, ids=name)
def test_gradients_against_differences(model):
    import jax

    p, x = shaken(model), tokens()
    rng = np.random.default_rng(2)
    move = {key: rng.standard_normal(value.shape) for key, value in p.items()}
    moved = lambda t: {key: p[key] + t * move[key] for key in p}
    loss = lambda q: float(np.mean(model.predict(q, x) ** 2))
    with x64():
        gradient = jax.jit(jax.grad(lambda q: (model.output(q, x) ** 2).mean()))(p)
        slope = sum(float(np.sum(np.asarray(gradient[key]) * move[key])) for key in p)
    assert slope == pytest.approx(
        (loss(moved(1e-5)) - loss(moved(-1e-5))) / 2e-5, rel=SIX_DIGITS
    )


@pytest.mark.parametrize("model", ATTENTION, ids=name)
def test_attention_does_not_see_the_order(model):
    p, x, order = shaken(model), tokens(), np.array([3, 0, 4, 1, 2])
    assert model.predict(p, x[:, order]) == pytest.approx(model.predict(p, x), rel=EXACT)
    if isinstance(model, TransformerBlock):
        assert model.attention(p, x[:, order]) == pytest.approx(
            model.attention(p, x)[:, :, order], rel=EXACT
        )


@pytest.mark.parametrize("model", ALL[-2:], ids=name)
def test_the_others_do_see_the_order(model):
    p, x = shaken(model), tokens()
    assert np.abs(model.predict(p, x[:, ::-1]) - model.predict(p, x)).min() > 1e-3


@pytest.mark.parametrize("model", [*ATTENTION, ALL[-1]], ids=name)
def test_masked_tokens_are_absent(model):
    p, x = shaken(model), tokens()
    mask = np.ones((6, L), bool)
    mask[:, [1, 3]] = False
    x[:, 1] = np.nan  # whatever stands there
    assert model.predict(p, x, mask) == pytest.approx(
        model.predict(p, x[:, [0, 2, 4]]), rel=EXACT
    )


def test_masked_tokens_have_no_weight_and_the_rest_is_the_registers():
    model, x, mask = BLOCKS[1], tokens(), np.ones((6, L), bool)
    mask[:, 2] = False
    p = shaken(model)
    w = model.attention(p, x, mask)
    assert w.shape == (6, 2, L) and (w[:, :, 2] == 0).all() and (w.sum(2) < 1).all()
    output, weights = model.observe(p, x)
    assert np.array_equal(weights, model.attention(p, x)) and output == pytest.approx(
        model.predict(p, x), rel=FORMULA
    )


def test_sizes_count_the_arrays_and_match():
    block = TransformerBlock(16, heads=4, hidden=20)
    for model in (*ALL, block):
        assert model.size == sum(x.size for x in model.init(0).values())
    for other in (DenseNet.matching(block, 10), GatedRecurrent.matching(block)):
        assert abs(other.size / block.size - 1) < 0.05
        near = [replace(other, hidden=other.hidden + step).size for step in (-1, 1)]
        assert all(abs(size - block.size) >= abs(other.size - block.size) for size in near)
    assert DenseNet.matching(SimplifiedAttention(4), 100).hidden == 1


def test_inverse_temperature_multiplies_the_query():
    model, x = BLOCKS[0], tokens()
    p = shaken(model)
    scaled = p | {"query": 2.5 * p["query"]}
    assert replace(model, inverse_temperature=2.5).predict(p, x) == pytest.approx(
        model.predict(scaled, x), rel=EXACT
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: TransformerBlock(8, heads=3),
            "heads of TransformerBlock must be a divisor of dim = 8, got 3",
        ),
        (
            lambda: TransformerBlock(8, norm="batch"),
            "norm of TransformerBlock must be 'layer' or None",
        ),
        (lambda: SimplifiedAttention(8, "tanh"), "kind of SimplifiedAttention"),
        (lambda: DenseNet(8, 5, 0), "hidden of DenseNet must be an integer >= 1"),
        (
            lambda: DenseNet(D, L, 2).predict(DenseNet(D, L, 2).init(), tokens(2, 7)),
            "sequences of 5 tokens, got 7 tokens",
        ),
        (
            lambda: BLOCKS[0].predict({}, tokens()),
            "parameters of TransformerBlock.predict must be a dict with the arrays register",
        ),
        (
            lambda: BLOCKS[0].predict(BLOCKS[0].init(), tokens(dim=4)),
            "tokens of TransformerBlock.predict",
        ),
        (
            lambda: BLOCKS[0].sensitivity(BLOCKS[0].init(), tokens(), np.full(6, L)),
            "location of TransformerBlock.sensitivity",
        ),
        (
            lambda: train_block(SingleLocation(9, L), BLOCKS[0]),
            "one for tokens of dimension 9, got dim=8",
        ),
        (
            lambda: train_block(SingleLocation(D, 6), DenseNet(D, L, 2)),
            "one for sequences of 6 tokens",
        ),
        (
            lambda: train_block(SingleLocation(D, L), Softmax(1.0)),
            "model of train_block must be a sequence model",
        ),
        (
            lambda: train_block(SingleLocation(D, L), BLOCKS[0], steps=0),
            "steps of train_block",
        ),
        (
            lambda: train_block(
                SingleLocation(D, L),
                SimplifiedAttention(D),
                40,
                step_size=1e30,
                progress=False,
            ),
            "keep the parameters finite",
        ),
        (
            lambda: simplified_risk(SingleLocation(D, L), BLOCKS[0], {}),
            "model of simplified_risk",
        ),
        (
            lambda: simplified_risk(
                SingleLocation(D, L),
                SimplifiedAttention(D),
                {"k": np.zeros(D), "v": np.ones(D)},
            ),
            "positive length",
        ),
        (
            lambda: informative_weight(SingleLocation(D, L), SimplifiedAttention(D), {}),
            "model of informative_weight",
        ),
        (lambda: layer_norm_floor(SingleLocation(3, L)), "of dimension >= 4, got dim=3"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(AttnscopeError, match=words.replace("(", r"\(")):
        call()
