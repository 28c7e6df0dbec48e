"""Models in .npz files without pickle: arrays by name, parameters as one JSON string. Reading runs no code from the file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.face import Face, NotFittedYet
from attnscope.estimators.fit.data import Scaling
from attnscope.estimators.fit.em import TokenModel
from attnscope.estimators.fit.mixture import FeatureMap, Fitted
from attnscope.estimators.fit.pooled import MeanPool
from attnscope.estimators.fit.ridge import Values
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.files import whole_file

__all__ = ["load_model", "save_model", "write_model"]

FORMAT = 2  # raised when a reader of the old files could misread the new
KINDS = {kind.__name__: kind for kind in (SingleLocationRegressor, SingleLocationClassifier)}
PLAIN = ("cv_losses_", "cv_mean_pool_losses_", "conformal_scores_", "classes_")  # arrays kept as they are


def save_model(model: Face, path: Any) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    if not hasattr(model, "fitted_"):
        raise NotFittedYet(f"save of {type(model).__name__} needs a fitted model; try fit(bags, y) first.")
    with whole_file(path, f"{type(model).__name__}.save") as part:
        write_model(model, part)


def write_model(model: Face, path: Path) -> None:
    """Write a fitted model straight to a path, as one part of what `files.whole_file` guards."""
    arrays = {f"scaling.{k}": v for k, v in model.scaling_._asdict().items()}
    arrays |= _flat("fitted", model.fitted_)
    for i, head in enumerate(getattr(model, "other_heads_", []), start=1):
        arrays |= _flat(f"head{i}", head)
    if hasattr(model, "mean_pool_"):
        pool = model.mean_pool_
        arrays |= _flat("mean_pool", pool.model) | {"mean_pool.low": pool.low, "mean_pool.high": pool.high}
    arrays |= {name: getattr(model, name) for name in PLAIN if hasattr(model, name)}
    facts = {name: getattr(model, name) for name in ("stages_", "start_losses_", "mean_share_") if hasattr(model, name)}
    head = {"format": FORMAT, "kind": type(model).__name__, "params": _plain(model.get_params()), "facts": facts}
    contents: dict[str, Any] = {k: np.asarray(v) for k, v in arrays.items()}
    with open(path, "wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), **contents)


def load_model(path: Any) -> Any:
    """The model written by `save_model`: a SingleLocationRegressor or SingleLocationClassifier ready to predict."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(str(arrays.pop("head")))
        if head["format"] != FORMAT:
            raise bad(
                "format", "load_model", str(FORMAT), head["format"], "the version of attnscope that wrote the file"
            )
        return _build(head, arrays)
    except (KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, json.JSONDecodeError) as error:
        raise bad("path", "load_model", "a file written by save_model", f"{type(error).__name__} in {path}") from None
    except AttnscopeError:
        raise
    except ValueError:
        raise bad("path", "load_model", "a file written by save_model", f"unreadable contents in {path}") from None


def _build(head: dict, arrays: dict[str, np.ndarray]) -> Any:
    model = KINDS[head["kind"]](**head["params"])
    mean, scale = arrays["scaling.mean"], arrays["scaling.scale"]
    model.scaling_ = Scaling(mean, scale, float(arrays["scaling.label_mean"]), float(arrays["scaling.label_scale"]))
    model.fitted_ = _unflat("fitted", arrays)
    model.other_heads_ = [_unflat(f"head{i}", arrays) for i in range(1, int(model.heads))]
    if "mean_pool.gate" in arrays:
        model.mean_pool_ = MeanPool(_unflat("mean_pool", arrays), arrays["mean_pool.low"], arrays["mean_pool.high"])
    for name in PLAIN:
        if name in arrays:
            setattr(model, name, arrays[name])
    for name, value in head["facts"].items():
        setattr(model, name, value)
    model.n_features_in_ = len(mean)
    return model


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON values; a random generator cannot be saved and becomes None."""
    keep = (str, int, float, bool, type(None), list, tuple)
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
    return {k: v if isinstance(v, keep) else np.asarray(v).tolist() if k == "alpha" else None for k, v in plain.items()}


def _flat(name: str, fitted: Fitted) -> dict[str, Any]:
    out = {f"{name}.gate": fitted.gate, f"{name}.family": fitted.family, f"{name}.combine": fitted.combine}
    parts = {"features": fitted.features, "values": fitted.values, "tokens": fitted.tokens}
    for part, value in parts.items():
        if value is not None:
            out |= {f"{name}.{part}.{k}": v for k, v in value._asdict().items()}
    return out


def _unflat(name: str, arrays: dict[str, np.ndarray]) -> Fitted:
    def part(kind: Any, prefix: str) -> Any:
        fields = (arrays[f"{name}.{prefix}.{field}"] for field in kind._fields)
        return kind(*(a.item() if a.ndim == 0 else a for a in fields))

    tokens = part(TokenModel, "tokens") if f"{name}.tokens.mean" in arrays else None
    family, combine = int(arrays[f"{name}.family"]), int(arrays[f"{name}.combine"])
    return Fitted(tokens, arrays[f"{name}.gate"], part(FeatureMap, "features"), part(Values, "values"), family, combine)
