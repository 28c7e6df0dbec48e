"""Write a fitted model as one .npz file without pickle: arrays by name, parameters as one JSON string.
`read` reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.estimators.fit.mixture import Fitted
from attnscope.estimators.fit.stacking import BASELINES

__all__ = ["ARRAY_NAMES", "FORMAT_VERSION", "POOL_READS", "write_model"]

FORMAT_VERSION = 5  # increased when a reader of older files could misread the new ones
# attributes that are saved as JSON
FACT_NAMES = (
    "stages_",
    "start_losses_",
    *(f"{name}_share_" for name in BASELINES),
    "components_",
    "component_losses_",
    "assumption_",
    "readings_",
    "evidence_",
    "interval_",
)
# plain baselines with a `MeanPool`, and the tokens they read
POOL_READS = {"mean_pool": "mean", "instance_pool": "each"}
# attributes that are saved as arrays
ARRAY_NAMES = (
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
    """Write a fitted model directly to a path; callers make it atomic by `files.whole_file`."""
    head, arrays = _head_and_arrays(model)
    # the models of cv+, each in the same form
    parts = [_head_and_arrays(part) for part in getattr(model, "plus_models_", [])]
    for i, (_, own) in enumerate(parts):
        arrays |= {f"plus{i}.{name}": value for name, value in own.items()}
    if parts:
        head["plus"] = [own for own, _ in parts]
    contents: dict[str, Any] = {k: np.asarray(v) for k, v in arrays.items()}
    with open(path, "wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), **contents)


def _head_and_arrays(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The saved form of one model: its head, and arrays by name."""
    arrays = {f"scaling.{k}": v for k, v in model.scaling_._asdict().items()}
    arrays |= _fitted_arrays("fitted", model.fitted_)
    for i, head in enumerate(getattr(model, "other_heads_", []), start=1):
        arrays |= _fitted_arrays(f"head{i}", head)
    for name in POOL_READS:
        pool = getattr(model, f"{name}_", None)
        if pool is not None:
            arrays |= _fitted_arrays(name, pool.model)
            arrays |= {f"{name}.low": pool.low, f"{name}.high": pool.high}
    summaries = getattr(model, "summary_pool_", None)
    if summaries is not None:
        arrays |= {f"summary_pool.{k}": v for k, v in summaries._asdict().items()}
    trees = getattr(model, "forest_pool_", None)
    if trees is not None:
        arrays |= {f"forest_pool.{k}": v for k, v in trees.forest._asdict().items()}
    arrays |= {name: getattr(model, name) for name in ARRAY_NAMES if hasattr(model, name)}
    facts = {name: getattr(model, name) for name in FACT_NAMES if hasattr(model, name)}
    head = {
        "format": FORMAT_VERSION,
        "kind": type(model).__name__,
        "params": _json_parameters(model.get_params()),
        "facts": facts,
    }
    return head, arrays


def _json_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON values; a random generator cannot be saved and becomes None."""
    keep = (str, int, float, bool, type(None), list, tuple)
    params = params | {"class_weight": _weight_pairs(params["class_weight"])}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
    return {
        k: v if isinstance(v, keep) else np.asarray(v).tolist() if k == "alpha" else None
        for k, v in plain.items()
    }


def _weight_pairs(weights: Any) -> Any:
    """A mapping as pairs, because keys of JSON are strings."""
    if weights is None or isinstance(weights, str):
        return weights
    plain = lambda x: x.item() if isinstance(x, np.generic) else x
    return [[plain(name), float(factor)] for name, factor in dict(weights).items()]


def _fitted_arrays(name: str, fitted: Fitted) -> dict[str, Any]:
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
