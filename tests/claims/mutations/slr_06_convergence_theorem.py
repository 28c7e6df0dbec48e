"""What makes the sentences of slr-06 false."""

import numpy as np
from helpers.mutation import replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_one_setting", "_largest_step")

MUTATIONS = (
    *replaced("arrive", "large steps do as well", "STEP_SHARE", lambda _: (2.0, 18.0)),
    *replaced(
        "arrive", "a third of the predicted steps is enough", "PATIENCE", lambda _: 1 / 3
    ),
    *replaced(
        "share",
        "all runs end at +(k*, v*)",
        "_one_setting",
        lambda one: lambda *args: np.abs(one(*args)),
    ),
    *replaced(
        "step-limit",
        "the oracle repels above 1/max(f, g)",
        "_step_limit",
        lambda limit: lambda lam: limit(lam) / 2,
    ),
)

REBUILT = {
    "steps from kappa = 0.1 to 0.9": DROPPED,
}
