"""Exact companions of blocks: simplified risk, weight of the informative token, layer norm's floor.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and all seeds are fixed.
"""

import numpy as np
import pytest
from helpers.small_blocks import D, L, shaken
from helpers.tolerances import EXACT, INTEGRAL, THREE_DIGITS
from scipy.integrate import quad
from scipy.special import expit

from attnscope.dynamics.networks.blocks import simplified_risk
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.blocks.compared_models import (
    SimplifiedAttention,
)
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope.theory.risks.layer_norm import informative_weight, layer_norm_floor

Z = 5.0


@pytest.mark.parametrize("kind", ["softmax", "erf"])
@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_simplified_risk_against_samples(kind, angle):
    key, value = np.zeros((2, D))
    key[0], value[:2] = 1, (angle, np.sqrt(1 - angle**2))
    task = SingleLocation(D, L, key=key, value=value, noise=0.3)
    model = SimplifiedAttention(D, kind, inverse_temperature=1.5)
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
        TransformerBlock(D, heads=2, hidden=0, norm=norm, inverse_temperature=2.0),
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


@pytest.mark.parametrize("inverse_temperature", [3.0, 10.0, 30.0, 90.0, 300.0])
def test_informative_weight_of_steep_logits_is_within_its_error(inverse_temperature):
    # without norm, one token: E logistic(S_J - S_0) with S_J normal, by a rule that is split where
    # the logistic turns
    task, model = (
        SingleLocation(dim=8, length=1, gamma=1.0, signal=0.5),
        TransformerBlock(dim=8, norm=None, inverse_temperature=inverse_temperature),
    )
    for seed in range(8):
        p = model.init(seed)
        k = p["key"][0].T @ (p["query"][0] @ p["register"]) * inverse_temperature / np.sqrt(8)
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
