"""Witnesses that no plane cuts off: random waves in the score of the witness reading.

    u = g.(x, |x|^2, cos(W^T x + phase)),   W, phase as in attention.random_waves

begun from g = 0 (from the plain score's models it ends higher: they lie in another basin), along
RIDGES from strong to weak, on the first folds, and on the rest if it leads there. Kept where the held-out loss falls by CAUTION
standard errors. It is tried last, once the reading is chosen (readings.py): what tokens of one side
tell there is a question about kinds of tokens, and the plain score answers it at a tenth of the
time.

Tried where something is left to explain and N tokens times waves are at most WORK numbers.
"""

from __future__ import annotations

import numpy as np

from attnscope.estimators.fit.attention import WAVES, random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options
from attnscope.estimators.fit.mixture import constant_output, output_losses
from attnscope.estimators.fit.rivals import NEARLY
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.witness import WitnessFit, allowing, blank_model, challenged

__all__ = ["finished"]

# of the gate; corel_dogs is best at 30, birds at 3
RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0)
# numbers, tokens times waves: L-BFGS reads them some six hundred times, five seconds of one core
WORK = 5e6


def finished(data: Data, folds: list[Fold], found: WitnessFit, options: Options) -> Selected:
    """The witness reading with waves where they help, on all bags."""
    entropy = np.average(output_losses(constant_output(data), data), weights=data.weight)
    left = np.average(found.losses, weights=data.weight) > NEARLY * entropy
    small = len(data.tokens) * WAVES <= WORK
    free = options.gate == "auto" and options.alpha_gate is None
    if left and small and free and not options.clock.over:
        blank = random_waves(blank_model(data, norm=True), data, options.seed)
        begun = [blank] * len(folds)
        rival = challenged(data, folds, found, begun, RIDGES, "waves", options)
        found = rival if rival is found else allowing(data, rival)
    return found.on_all_bags(data, folds)
