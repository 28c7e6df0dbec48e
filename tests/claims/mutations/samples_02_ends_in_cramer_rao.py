"""What makes the sentences of samples-02 false."""

from dataclasses import replace

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("cramer_rao", "learning_curve", "_figure")


def slower(curve):
    """A curve that falls to the Bayes risk like 1/sqrt(alpha)."""

    def changed(task, alpha):
        found = curve(task, alpha)
        floor = task.bayes_risk().excess
        gap = (found.risk.excess - floor) * np.sqrt(np.maximum(alpha, 1.0))
        return replace(found, risk=replace(found.risk, excess=floor + gap))

    return changed


MUTATIONS = (
    *moved("curve", "LIMITS", entry=0),
    *replaced("curve", "the gap falls like 1/sqrt(alpha)", "learning_curve", slower),
    *moved("settles", "NEARLY_RATIOS", entry=0),
    *replaced("settles", "the gap falls like 1/sqrt(alpha)", "learning_curve", slower),
    *moved("limit", "LIMITS", entry=0),
    *moved("limit", "LIMITS", entry=1),
    *replaced(
        "limit",
        "the location is known: noise^2",
        "cramer_rao",
        lambda limit: (
            lambda task, *args, **more: replace(
                limit(task, *args, **more), value=task.noise**2
            )
        ),
    ),
)

REBUILT = {
    "alpha (risk - Bayes risk), strength 5, L = 3, noise^2 = 0.1": DROPPED,
    "alpha (risk - Bayes risk), strength 2, L = 2, noise^2 = 0.01": DROPPED,
}
