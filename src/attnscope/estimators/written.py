"""A fitted model as one .npz file without pickle: arrays by name, parameters as one JSON string.
`saved` reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.estimators.fit.mixture import Fitted
from attnscope.estimators.fit.stacking import READERS

__all__ = ["FORMAT", "PLAIN", "POOLS", "write_model"]

FORMAT = 5  # raised when a reader of the old files could misread the new
# plain values, and arrays, kept as they are
FACTS = (
    "stages_",
    "start_losses_",
    *(f"{name}_share_" for name in READERS),
    "components_",
    "component_losses_",
    "assumption_",
    "readings_",
    "evidence_",
    "interval_",
)
# plainer models of one token, and what of a bag they read
POOLS = {"mean_pool": "mean", "instance_pool": "each"}
PLAIN = (
    "cv_losses_",
    "cv_mean_pool_losses_",
    "conformal_scores_",
    "conformal_weights_",
    "plus_scores_",
    "plus_weights_",
    "plus_fold_",
    "location_scores_",
    "location_weights_",
    "classes_",
    "feature_names_in_",
)


def write_model(model: Any, path: Path) -> None:
    """Write a fitted model straight to a path, as one part of what `files.whole_file` guards."""
    head, arrays = _contents(model)
    # the models of cv+, each as the whole is
    parts = [_contents(part) for part in getattr(model, "plus_models_", [])]
    for i, (_, own) in enumerate(parts):
        arrays |= {f"plus{i}.{name}": value for name, value in own.items()}
    if parts:
        head["plus"] = [own for own, _ in parts]
    contents: dict[str, Any] = {k: np.asarray(v) for k, v in arrays.items()}
    with open(path, "wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), **contents)


def _contents(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is written of one model: its head, and arrays by name."""
    arrays = {f"scaling.{k}": v for k, v in model.scaling_._asdict().items()}
    arrays |= _flat("fitted", model.fitted_)
    for i, head in enumerate(getattr(model, "other_heads_", []), start=1):
        arrays |= _flat(f"head{i}", head)
    for name in POOLS:
        pool = getattr(model, f"{name}_", None)
        if pool is not None:
            arrays |= _flat(name, pool.model)
            arrays |= {f"{name}.low": pool.low, f"{name}.high": pool.high}
    summaries = getattr(model, "summary_pool_", None)
    if summaries is not None:
        arrays |= {f"summary_pool.{k}": v for k, v in summaries._asdict().items()}
    trees = getattr(model, "forest_pool_", None)
    if trees is not None:
        arrays |= {f"forest_pool.{k}": v for k, v in trees.forest._asdict().items()}
    arrays |= {name: getattr(model, name) for name in PLAIN if hasattr(model, name)}
    facts = {name: getattr(model, name) for name in FACTS if hasattr(model, name)}
    head = {
        "format": FORMAT,
        "kind": type(model).__name__,
        "params": _plain(model.get_params()),
        "facts": facts,
    }
    return head, arrays


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON values; a random generator cannot be saved and becomes None."""
    keep = (str, int, float, bool, type(None), list, tuple)
    params = params | {"class_weight": _pairs(params["class_weight"])}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
    return {
        k: v if isinstance(v, keep) else np.asarray(v).tolist() if k == "alpha" else None
        for k, v in plain.items()
    }


def _pairs(weights: Any) -> Any:
    """A mapping as pairs: JSON's own keys are words only."""
    if weights is None or isinstance(weights, str):
        return weights
    plain = lambda x: x.item() if isinstance(x, np.generic) else x
    return [[plain(name), float(factor)] for name, factor in dict(weights).items()]


def _flat(name: str, fitted: Fitted) -> dict[str, Any]:
    out = {
        f"{name}.gate": fitted.gate,
        f"{name}.family": fitted.family,
        f"{name}.combine": fitted.combine,
    }
    parts = {"features": fitted.features, "values": fitted.values, "tokens": fitted.tokens}
    for part, value in parts.items():
        if value is not None:
            fields = value._asdict().items()
            out |= {f"{name}.{part}.{k}": v for k, v in fields if v is not None}
    return out
