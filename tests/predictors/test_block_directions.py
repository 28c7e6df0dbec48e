"""Diagnostics of blocks on planted weights: directions, cosines, sensitivity by Stein's lemma.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and all seeds are fixed.
"""

import numpy as np
import pytest
from helpers.small_blocks import BLOCKS, D, L, name, normed, shaken, tokens
from helpers.tolerances import EXACT, THREE_DIGITS

from attnscope.dynamics.networks.blocks import cosine
from attnscope.predictors.blocks.compared_models import (
    GatedRecurrent,
)
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation

Z = 5.0


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


@pytest.mark.slow
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
