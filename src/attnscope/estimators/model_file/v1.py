"""Model files of version 0.1.0, format 1, converted to the current format.

What predicts is the same: scaling, gate, values, token model, other heads. The mean pool of format 1
has no bounds and no share of the prediction, so it is dropped. Its conformal scores count each bag
once. Facts that format 1 lacks get the value that means "absent".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.estimators.fit.stacking import BASELINES

__all__ = ["upgrade_v1"]

LATER_FACTS: dict[str, Any] = {
    **{f"{name}_share_": 0.0 for name in BASELINES},
    "components_": None,
    "component_losses_": {},
    "interval_": "cross",
}


def upgrade_v1(
    head: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Head and arrays of a file of format 1, in the current format."""
    kept = {name: a for name, a in arrays.items() if not name.startswith("mean_pool.")}
    if "conformal_scores_" in kept:
        kept["conformal_weights_"] = np.ones(len(kept["conformal_scores_"]))
    facts = LATER_FACTS | dict(head["facts"])
    if head["kind"] == "SingleLocationClassifier":
        facts |= {"assumption_": "single", "readings_": None}
    return head | {"facts": facts}, kept
