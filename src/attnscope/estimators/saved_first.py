"""Model files of version 0.1.0, format 1, as those of today.

What predicts is the same: scaling, gate, values, the law of the tokens, the other heads. Their mean
pool knew no bounds and took no share of the prediction: it is left out. Conformal scores counted
each bag once. What came later has the value that means "not there".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.estimators.fit.stacking import READERS

__all__ = ["from_first"]

LATER: dict[str, Any] = {
    **{f"{name}_share_": 0.0 for name in READERS},
    "components_": None,
    "component_losses_": {},
    "interval_": "cross",
}


def from_first(
    head: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Head and arrays of a file of format 1, as later formats have them."""
    kept = {name: a for name, a in arrays.items() if not name.startswith("mean_pool.")}
    if "conformal_scores_" in kept:
        kept["conformal_weights_"] = np.ones(len(kept["conformal_scores_"]))
    facts = LATER | dict(head["facts"])
    if head["kind"] == "SingleLocationClassifier":
        facts |= {"assumption_": "single", "readings_": None}
    return head | {"facts": facts}, kept
