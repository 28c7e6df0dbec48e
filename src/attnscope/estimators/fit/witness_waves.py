"""Random waves in the score of the witness reading, for witnesses that no hyperplane separates.

    u = g.(x, |x|^2, cos(W^T x + phase)),   W, phase as in attention.random_waves

The path starts from g = 0 with the ridges WAVE_RIDGES from strong to weak, on the first folds, and
continues on the rest if it is better there. (A start from the models without waves ends at a higher
loss: they lie in another basin.) The waves are kept if the held-out loss falls by
RIVAL_GAIN_STANDARD_ERRORS standard errors. They are tried last, after the reading is chosen
(readings.py): that choice is about kinds of tokens, and the score without waves answers it in a
tenth of the time.

They are tried if something is left to explain and N tokens times waves are at most MAX_WAVE_NUMBERS.
"""

from __future__ import annotations

from attnscope.estimators.fit.attention import WAVE_COUNT, random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import EXPLAINED_ENTROPY_SHARE, Fold, Options
from attnscope.estimators.fit.mixture import constant_loss
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.witness import (
    WitnessFit,
    blank_model,
    try_rival,
    with_label_noise,
)

__all__ = ["fit_all_bags"]

# ridges of the gate; corel_dogs is best at 30, birds at 3
WAVE_RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0)
# tokens times waves: L-BFGS reads them about six hundred times, in five seconds of one core
MAX_WAVE_NUMBERS = 5e6


def fit_all_bags(
    data: Data, folds: list[Fold], found: WitnessFit, options: Options
) -> Selected:
    """The witness reading fitted on all bags, with waves if they help."""
    entropy = constant_loss(data)
    left = data.average(found.losses) > EXPLAINED_ENTROPY_SHARE * entropy
    small = len(data.tokens) * WAVE_COUNT <= MAX_WAVE_NUMBERS
    free = options.gate == "auto" and options.alpha_gate is None
    if left and small and free and not options.clock.over:
        blank = random_waves(blank_model(data, norm=True), data, options.seed)
        begun = [blank] * len(folds)
        rival = try_rival(data, folds, found, begun, WAVE_RIDGES, "waves", options)
        found = rival if rival is found else with_label_noise(data, rival)
    return found.on_all_bags(data, folds)
