"""Training of blocks: seeds, history, label noise, precision, what they learn; lengths."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.small_blocks import D, L, shaken
from helpers.tolerances import EXACT

from attnscope.dynamics.networks.blocks import train_block
from attnscope.dynamics.networks.length_curves import at_length, length_curve
from attnscope.predictors.blocks.compared_models import (
    DenseNet,
    SimplifiedAttention,
)
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.layer_norm import informative_weight

Z = 5.0


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


@cache
def one_step(noise=0.0, dtype="float32"):
    """JAX compiles every run: what is the same is run once."""
    task = SingleLocation(D, L, noise=noise)
    return train_block(
        task, SimplifiedAttention(D), steps=1, dtype=dtype, test_size=512, progress=False
    )


@pytest.mark.slow
def test_excess_leaves_the_label_noise_out():
    runs = [one_step(), one_step(noise=3.0)]
    # same start; noise^2 would add 9
    assert runs[0].excess[0, 0] == pytest.approx(runs[1].excess[0, 0], rel=0.2)


@pytest.mark.slow  # claim beyond-13 trains them for longer
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


@pytest.mark.slow
def test_float64_training_starts_like_float32():
    single, double = one_step(), one_step(dtype="float64")
    assert np.array_equal(single.excess[0, 0], double.excess[0, 0])
    assert single.parameters[0]["k"] != pytest.approx(
        double.parameters[0]["k"], rel=EXACT
    )  # other draws, other rounding


@pytest.mark.slow
def test_length_curves_share_their_sequences():
    task, model = SingleLocation(D, L), TransformerBlock(D, hidden=0)
    p = shaken(model)
    curve = length_curve(task, model, p, (5, 9), samples=300)
    again = length_curve(
        task, lambda length: replace(model, inverse_temperature=1.0), p, (9,), samples=300
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
