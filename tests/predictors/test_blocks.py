"""Transformer blocks and their baselines: maps against plain re-writings, diagnostics on planted
weights, training, exact companions.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and all seeds are fixed.
"""

from dataclasses import replace

import numpy as np
import pytest
from helpers.tolerances import EXACT, FORMULA, INTEGRAL, SIX_DIGITS, THREE_DIGITS
from scipy.integrate import quad
from scipy.special import expit, softmax

from attnscope.dynamics.networks.blocks import cosine, simplified_risk, train_block
from attnscope.dynamics.networks.length_curves import at_length, length_curve
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.blocks.compared_models import (
    DenseNet,
    GatedRecurrent,
    SimplifiedAttention,
)
from attnscope.predictors.blocks.transformer import EPS, TransformerBlock
from attnscope.predictors.full_attention import FullAttention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope.theory.risks.layer_norm import informative_weight, layer_norm_floor

Z = 5.0
D, L = 8, 5
BLOCKS = [
    TransformerBlock(D),
    TransformerBlock(D, heads=2, hidden=3),
    TransformerBlock(D, norm=None, hidden=0),
]
ATTENTION = [*BLOCKS, SimplifiedAttention(D), SimplifiedAttention(D, "erf")]
ALL = [*ATTENTION, DenseNet(D, L, 4), GatedRecurrent(D, 4)]
name = lambda model: repr(model)


def shaken(model, seed=0):
    """Parameters away from the start: no bias is 0 and no gain 1."""
    rng = np.random.default_rng(seed)
    return {
        key: x + 0.3 * rng.standard_normal(x.shape) for key, x in model.init(seed).items()
    }


def tokens(n=6, length=L, dim=D, seed=1):
    return np.random.default_rng(seed).standard_normal((n, length, dim))


# -- the maps --------------------------------------------------------------------------------------


def normed(x, gain, bias):
    return (
        gain * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
        + bias
    )


def plain_block(model, p, x):
    """One sequence, all rows and in the textbook order (queries, keys, values, then mixing);
    the register's row is read last.
    """
    rows = np.concatenate([p["register"][None], x])
    a = normed(rows, p["gain1"], p["bias1"]) if model.norm else rows
    update = np.zeros_like(rows)
    for h in range(model.heads):
        q, k, v = (a @ p[part][h].T for part in ("query", "key", "value"))
        weights = softmax(model.temperature * q @ k.T / np.sqrt(q.shape[1]), axis=1)
        update += weights @ v @ p["output"][h].T
    rows = rows + update
    if model.hidden:
        inner = (normed(rows, p["gain2"], p["bias2"]) if model.norm else rows) @ p[
            "first"
        ].T + p["first_bias"]
        gelu = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
        rows = rows + gelu @ p["second"].T + p["second_bias"]
    return rows[0] @ p["readout"] + p["readout_bias"]


@pytest.mark.parametrize("model", [*BLOCKS, TransformerBlock(D, temperature=1.7)], ids=name)
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


@pytest.mark.parametrize("model", ALL, ids=name)
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


def test_temperature_multiplies_the_query():
    model, x = BLOCKS[0], tokens()
    p = shaken(model)
    scaled = p | {"query": 2.5 * p["query"]}
    assert replace(model, temperature=2.5).predict(p, x) == pytest.approx(
        model.predict(scaled, x), rel=EXACT
    )


# -- diagnostics on planted weights ----------------------------------------------------------------


def planted(model, task, gain=3.0):
    """A one-head block written by hand: the register's query picks key k*,
    values along v* are read out.
    """
    p = {key: np.zeros_like(x) for key, x in model.init(0).items()}
    d = model.dim
    p["register"] = np.random.default_rng(5).standard_normal(d)
    a = p["register"]
    if model.norm:
        p["gain1"] = np.ones(d)
        a = normed(a, 1.0, 0.0)
    p["query"][0] = np.outer(np.eye(d)[0], a) / (a @ a)  # the query is e_1
    p["key"][0] = gain * np.sqrt(d) * np.outer(np.eye(d)[0], task.key)
    p["value"][0] = np.outer(np.eye(d)[1], task.value)
    p["output"][0], p["readout"] = np.eye(d), np.eye(d)[1]
    p["readout_bias"] = np.asarray(-p["register"][1])
    return p


def centred_task(dim=16, **numbers):
    """k* and v* without mean: layer norm hides no part of them."""
    key, value = np.zeros((2, dim))
    key[:2], value[2:4] = (0.5**0.5, -(0.5**0.5)), (0.5**0.5, -(0.5**0.5))
    return SingleLocation(dim, 6, key=key, value=value, **numbers)


@pytest.mark.parametrize("norm", ["layer", None])
def test_planted_directions_are_found(norm):
    task, model = centred_task(), TransformerBlock(16, hidden=0, norm=norm)
    p = planted(model, task)
    background = tokens(400, 6, 16)
    key, value = model.directions(p, background)
    if norm is None:
        # the gradient of a linear logit, whatever the tokens
        assert key[0] == pytest.approx(3 * task.key, abs=EXACT)
        assert cosine(value, task.value)[0] == pytest.approx(1, abs=EXACT)
    else:
        # averages of 2400 tokens scatter by (d/2400)^(1/2)/d in direction: 1 - cos of 1e-3 at most
        assert cosine(key, task.key)[0] > 0.999 and cosine(value, task.value)[0] > 0.99
    # what was planted is also what the block does: it finds X_J.v*
    batch = task.sample(2000, seed=3)
    assert (
        np.mean((model.predict(p, batch.tokens) - batch.target) ** 2)
        < 0.4 * task.linear_risk().value
    )


def test_layer_norm_hides_the_mean_of_the_key():
    """A key along (1, .., 1) leaves no trace; a key with a mean is found up to |P k*|."""
    model = TransformerBlock(16, hidden=0)
    dim = 16
    flat = SingleLocation(dim, 6, key=np.ones(dim) / 4)
    p = planted(model, flat)
    assert np.abs(model.directions(p, tokens(50, 6, dim)).key).max() < 1e-12
    key = np.zeros(dim)
    key[0] = 1
    tilted = SingleLocation(dim, 6, key=key)
    found = cosine(model.directions(planted(model, tilted), tokens(2000, 6, dim)).key, key)[0]
    assert found == pytest.approx(np.sqrt(1 - 1 / dim), abs=THREE_DIGITS)


def test_random_keys_have_squared_cosine_one_over_d():
    task, model = SingleLocation(16, 6), TransformerBlock(16, hidden=0, norm=None)
    keys = np.array(
        [model.directions(model.init(seed), tokens(1, 1, 16)).key[0] for seed in range(300)]
    )
    squares = 16 * cosine(keys, task.key) ** 2
    assert abs(squares.mean() - 1) < Z * squares.std() / np.sqrt(300)


def test_a_vanished_direction_has_cosine_zero():
    assert cosine(np.zeros((1, 4)), np.eye(4)[0])[0] == 0


@pytest.mark.parametrize("model", [BLOCKS[0], GatedRecurrent(D, 4)], ids=name)
def test_sensitivity_by_stein(model):
    task, p = SingleLocation(D, L), shaken(model)
    batch = task.sample(4000, seed=1)
    other = task.sample(40_000, seed=2)
    centred = other.tokens[np.arange(40_000), other.location] - task.signal * task.key
    products = (model.predict(p, other.tokens) - 1.0)[:, None] * centred / task.gamma**2
    slopes = np.array(
        [model.sensitivity(p, batch.tokens[i::20], batch.location[i::20]) for i in range(20)]
    )
    error = np.hypot(products.std(0) / 200, slopes.std(0, ddof=1) / np.sqrt(20))
    assert (np.abs(products.mean(0) - slopes.mean(0)) < Z * error).all()


# -- training --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_depends_on_its_seed_and_number_only():
    task, model = SingleLocation(D, L), TransformerBlock(D, hidden=4)
    two = train_block(
        task, model, steps=12, runs=2, seed=3, log_every=5, test_size=64, progress=False
    )
    one = train_block(
        task, model, steps=12, runs=1, seed=3, log_every=12, test_size=64, progress=False
    )
    assert two.step.tolist() == [0, 5, 10, 12] and one.step.tolist() == [0, 12]
    assert all(
        np.array_equal(one.parameters[0][key], two.parameters[0][key])
        for key in one.parameters[0]
    )
    assert not np.array_equal(two.parameters[0]["query"], two.parameters[1]["query"])
    assert np.array_equal(one.excess[0, -1], two.excess[0, -1])


@pytest.mark.slow
def test_history_says_what_was_watched():
    task = SingleLocation(D, L, noise=0.5)
    run = train_block(
        task,
        TransformerBlock(D, heads=2),
        steps=4,
        runs=2,
        log_every=2,
        test_size=256,
        progress=False,
    )
    frame = run.to_frame()
    assert len(frame) == 6 and np.isfinite(frame.to_numpy()).all()
    assert {
        "key_alignment_1",
        "value_alignment_0",
        "concentration_0",
        "effective_rank_1",
        "sensitivity",
    } <= set(frame)
    assert run.watched["concentration"].shape == (2, 3, 2)
    s = np.linalg.svd(run.model.query_key(run.parameters[1])[0], compute_uv=False) ** 2
    assert run.watched["concentration"][1, -1, 0] == pytest.approx(s[0] / s.sum())
    # inner dimension
    assert (
        1
        <= run.watched["effective_rank"].min()
        <= run.watched["effective_rank"].max()
        <= D / 2
    )
    assert run.references["null"] == pytest.approx(task.gamma**2) and "median excess" in repr(
        run
    )
    dense = train_block(task, DenseNet(D, L, 2), steps=2, test_size=64, progress=False)
    assert set(dense.watched) == {"sensitivity"}


def test_excess_leaves_the_label_noise_out():
    quiet = SingleLocation(D, L)
    loud = SingleLocation(D, L, noise=3.0)
    runs = [
        train_block(t, SimplifiedAttention(D), steps=1, test_size=512, progress=False)
        for t in (quiet, loud)
    ]
    # same start; noise^2 would add 9
    assert runs[0].excess[0, 0] == pytest.approx(runs[1].excess[0, 0], rel=0.2)


def test_blocks_learn_what_linear_predictors_cannot():
    task = SingleLocation(D, L, signal=4.0)
    run = train_block(
        task, TransformerBlock(D), steps=250, step_size=1e-2, log_every=250, progress=False
    )
    assert run.excess[0, -1] + Z * run.error[0, -1] < task.linear_risk().excess / 3
    assert (
        run.watched["key_alignment"][0, -1, 0] > 0.8
        and run.watched["value_alignment"][0, -1, 0] > 0.8
    )


def test_float64_training_starts_like_float32():
    task, model = SingleLocation(D, L), SimplifiedAttention(D)
    single, double = (
        train_block(task, model, steps=1, dtype=t, test_size=64, progress=False)
        for t in ("float32", "float64")
    )
    assert np.array_equal(single.excess[0, 0], double.excess[0, 0])
    assert single.parameters[0]["k"] != pytest.approx(
        double.parameters[0]["k"], rel=EXACT
    )  # other draws, other rounding


# -- exact companions ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["softmax", "erf"])
@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_simplified_risk_against_samples(kind, angle):
    key, value = np.zeros((2, D))
    key[0], value[:2] = 1, (angle, np.sqrt(1 - angle**2))
    task = SingleLocation(D, L, key=key, value=value, noise=0.3)
    model = SimplifiedAttention(D, kind, temperature=1.5)
    p = {"k": 0.8 * key + 0.1, "v": 0.9 * value - 0.05}
    batch = task.sample(100_000, seed=4)
    loss = (model.predict(p, batch.tokens) - batch.target) ** 2
    exact = simplified_risk(task, model, p)
    assert abs(loss.mean() - exact.value) < Z * loss.std() / np.sqrt(len(loss)) + exact.error
    unit = {name: x / np.linalg.norm(x) for name, x in p.items()}
    same = risk(
        task,
        (Softmax if kind == "softmax" else Erf)(1.5),
        Overlaps.of(task, unit["k"], unit["v"]),
    )
    assert simplified_risk(task, model, unit).excess == pytest.approx(
        same.excess, rel=INTEGRAL
    )


@pytest.mark.parametrize("norm", ["layer", None])
def test_informative_weight_against_samples(norm):
    task, model = (
        SingleLocation(D, 7, signal=3.0),
        TransformerBlock(D, heads=2, hidden=0, norm=norm, temperature=2.0),
    )
    p = shaken(model, seed=3)
    p["key"] = p["key"] + 0.5 * task.key  # not blind to k*
    batch = task.sample(40_000, seed=5)
    w = model.attention(p, batch.tokens)[np.arange(40_000), :, batch.location]
    for head in range(2):
        exact = informative_weight(task, model, p, head=head)
        assert exact.error < 1e-6
        assert (
            abs(w[:, head].mean() - exact.value)
            < Z * w[:, head].std() / np.sqrt(len(w)) + exact.error
        )


@pytest.mark.parametrize("temperature", [3.0, 10.0, 30.0, 90.0, 300.0])
def test_informative_weight_of_steep_logits_is_within_its_error(temperature):
    # without norm, one token: E logistic(S_J - S_0) with S_J normal, by a rule that is split where
    # the logistic turns
    task, model = (
        SingleLocation(dim=8, length=1, gamma=1.0, signal=0.5),
        TransformerBlock(dim=8, norm=None, temperature=temperature),
    )
    for seed in range(8):
        p = model.init(seed)
        k = p["key"][0].T @ (p["query"][0] @ p["register"]) * temperature / np.sqrt(8)
        mean = 0.5 * float(k @ task.key) - float(k @ p["register"])
        sd = float(np.linalg.norm(k))
        turns = np.clip((-mean + np.array([-40, -8, -2, 0, 2, 8, 40])) / sd, -12, 12)
        nodes, weights = np.polynomial.legendre.leggauss(40)
        edges = np.unique(np.concatenate([turns, np.linspace(-12, 12, 13)]))
        half = np.diff(edges)[:, None] / 2
        g = (edges[:-1, None] + half * (1 + nodes)).ravel()
        exact = np.sum(
            (half * weights).ravel() * np.exp(-g * g / 2) * expit(mean + sd * g)
        ) / np.sqrt(2 * np.pi)
        found = informative_weight(task, model, p)
        assert abs(found.value - exact) <= found.error
        assert found.error < 1e-7


def test_informative_weight_of_many_tokens():
    """Without scores, 1/(L + 1) at every length;
    with them it falls with the length, to the dilution law 1/L.
    """
    task, model = SingleLocation(D, L), TransformerBlock(D, hidden=0)
    p = shaken(model, seed=1)
    flat = p | {"key": 0 * p["key"]}
    for length in (1, 10, 10**6):
        assert informative_weight(task, model, flat, length).value == pytest.approx(
            1 / (length + 1), rel=INTEGRAL
        )
    many = [informative_weight(task, model, p, 10**n).value * 10**n for n in (7, 8)]
    assert many[1] == pytest.approx(many[0], rel=THREE_DIGITS)


def test_floor_is_the_error_of_the_posterior_mean():
    """The best predictor from the direction alone, by another integral and on full vectors,
    has this risk.
    """
    task = SingleLocation(6, 3, gamma=0.8, signal=2.0)
    n = 3000
    rng = np.random.default_rng(0)
    x = task.signal * task.key + task.gamma * rng.standard_normal((n, 6))
    centred = x - x.mean(axis=1, keepdims=True)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    guess = np.empty(n)
    for i in range(n):
        pull = task.signal * (unit[i] @ task.key) / task.gamma**2
        density = lambda r, pull=pull: r**4 * np.exp(pull * r - r * r / (2 * task.gamma**2))
        mean = quad(lambda r, f=density: r * f(r), 0, 12)[0] / quad(density, 0, 12)[0]
        guess[i] = task.signal * task.key.mean() * task.value.sum() + mean * (
            unit[i] @ task.value
        )
    loss = (x @ task.value - guess) ** 2
    floor = layer_norm_floor(task)
    assert abs(loss.mean() - floor.excess) < Z * np.hypot(
        loss.std() / np.sqrt(n), floor.error
    )
    worse = (x @ task.value - 1.3 * guess) ** 2
    assert worse.mean() > loss.mean()


def test_floor_where_layer_norm_hides_everything():
    dim = 16
    assert layer_norm_floor(
        SingleLocation(dim, 3, value=np.ones(dim) / 4)
    ).excess == pytest.approx(0.5, rel=EXACT)


def test_length_curves_share_their_sequences():
    task, model = SingleLocation(D, L), TransformerBlock(D, hidden=0)
    p = shaken(model)
    curve = length_curve(task, model, p, (5, 9), samples=300)
    again = length_curve(
        task, lambda length: replace(model, temperature=1.0), p, (9,), samples=300
    )
    assert curve.excess[1] == again.excess[0] and curve.samples.tolist() == [300, 300]
    plain = length_curve(
        task, SimplifiedAttention(D), {"k": p["register"], "v": p["register"]}, (5,)
    )
    assert curve.weight.shape == (2, 1) and plain.weight.shape == (1, 0)
    exact = [informative_weight(task, model, p, length).value for length in (5, 9)]
    assert (np.abs(curve.weight[:, 0] - exact) < Z * curve.weight_error[:, 0]).all()
    longer = at_length(SingleLocation(D, L, seed=4), 9)
    assert longer.length == 9 and np.array_equal(longer.key, SingleLocation(D, L, seed=4).key)


# -- refusals --------------------------------------------------------------------------------------


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
