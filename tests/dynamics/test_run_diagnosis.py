"""What a trajectory says of itself: the outcome in words, location accuracy and share by counting."""

import numpy as np
import pytest

from attnscope.dynamics.diagnose import attention_share, location_accuracy
from attnscope.dynamics.train import train
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.predictions import attention_weights
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps

PAPER = SingleLocation(400, 10)


def said(predictor, start="sphere", task=PAPER, **options):
    return "\n".join(train(task, predictor, start, **options).diagnose())


def test_diagnosis_of_the_good_and_of_the_swapped_runs():
    text = said(Erf(0.1), runs=30)
    assert "runs end at the oracle: |kappa| 0.983, |nu| 1.000, excess risk 0.1137." in text
    assert (
        "with the roles swapped: k points along v* (|eta| 1.000) and v along k* (|theta| 0.630, "
        "predicted 0.630)" in text
    )
    assert "Attention does not concentrate on the true position: |kappa| 0.000" in text
    assert "unstable" not in text and "saddle" not in text and "critical" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"predictor": Erf(0.9), "runs": 5, "steps": 30_000, "step_size": 1e-3},
            "0.9 is above the critical one, 0.8924",
        ),
        (
            {"predictor": Erf(0.9), "runs": 5, "steps": 30_000, "step_size": 1e-3},
            "is spread over the others",
        ),
        (
            {"predictor": Erf(0.9), "runs": 5, "steps": 30_000, "step_size": 1e-3},
            "worse than 0.5 of predicting the mean",
        ),
        (
            {"predictor": Erf(0.1), "runs": 30, "step_size": 8e-3},
            "times the largest Hessian eigenvalue",
        ),
        (
            {"predictor": Erf(0.1), "runs": 5, "step_size": 2e-2},
            "the risk of a typical run rises",
        ),
        (
            {
                "predictor": Erf(0.1),
                "start": Overlaps(1e-7, 0, 0, 1e-7, 0),
                "runs": 1,
                "steps": 1000,
            },
            "A saddle holds the runs: gradient norm 2.2e-06, but a direction of curvature -0.77 "
            "leads down",
        ),
        (
            {
                "predictor": Erf(0.1),
                "start": Overlaps(1e-7, 0, 0, 1e-7, 0),
                "runs": 1,
                "steps": 1000,
            },
            "The value direction is not learned: |nu| 0.000",
        ),
        (
            {
                "predictor": Erf(0.3),
                "start": Overlaps(0.8, 0, 0, 1, 0),
                "runs": 1,
                "steps": 1000,
                "step_size": 1e-4,
            },
            "A flat region holds the runs: gradient norm 1.6e-09, no descending direction",
        ),
        (
            {"predictor": Erf(0.1), "start": "manifold", "runs": 2, "steps": 1000},
            "The runs still move: gradient norm",
        ),
    ],
)
def test_diagnosis_names_the_failure(options, words):
    assert words in said(**options)


def test_location_accuracy_and_share_by_counting():
    task = SingleLocation(8, 5, signal=2.0)
    k = 0.7 * task.key + np.sqrt(0.51) * task.value
    batch = task.sample(100_000, seed=5)
    for predictor in (Erf(0.5), Softmax(0.5)):
        scores = batch.tokens @ k
        accuracy = location_accuracy(task, predictor, 0.7)
        hits = np.mean(scores.argmax(axis=1) == batch.location)
        # false alarm 6e-5
        assert abs(hits - accuracy) < 4 * np.sqrt(accuracy * (1 - accuracy) / 1e5)
        weights = np.abs(attention_weights(predictor, k, batch.tokens))
        share = np.take_along_axis(weights, batch.location[:, None], 1)[:, 0] / weights.sum(
            axis=1
        )
        assert abs(
            share.mean() - attention_share(task, predictor, 0.7)
        ) < 4 * share.std() * np.sqrt(1 / 1e5 + 1 / 2e4)
    assert location_accuracy(task, Erf(0.5), -0.7) == location_accuracy(task, Erf(0.5), 0.7)
    assert location_accuracy(task, Softmax(0.5), -0.7) < 0.2
    assert location_accuracy(SingleLocation(8, 1), Erf(0.5), 0.0) == pytest.approx(1)
