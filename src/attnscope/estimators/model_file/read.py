"""Models in .npz files without pickle: arrays by name, parameters as one JSON string.
Reading runs no code from the file.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.base import BagEstimator
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.fit.data import Scaling
from attnscope.estimators.fit.em import TokenModel
from attnscope.estimators.fit.forest import Forest, ForestPool
from attnscope.estimators.fit.mixture import FeatureMap, Fitted
from attnscope.estimators.fit.pooled import MeanPool
from attnscope.estimators.fit.ridge import Values
from attnscope.estimators.fit.summaries import SummaryPool
from attnscope.estimators.model_file.members import check_answer, check_members
from attnscope.estimators.model_file.v1 import upgrade_v1
from attnscope.estimators.model_file.write import (
    ARRAY_NAMES,
    FORMAT_VERSION,
    POOL_READS,
    write_model,
)
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.numerics.border.array_files import Unreadable, read_arrays

__all__ = ["load_model", "save_model", "write_model"]

# format 1 is that of 0.1.0 (v1.py), 2 has no witness reading, 3 no shares of baselines; their members
# mean the same. No release wrote format 4
READABLE_FORMATS = (1, 2, 3, FORMAT_VERSION)
MODEL_CLASSES = {
    kind.__name__: kind for kind in (SingleLocationRegressor, SingleLocationClassifier)
}


def save_model(model: BagEstimator, path: Any) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    model.save(path)


def load_model(path: Any) -> Any:
    """The model written by `save_model`: a SingleLocationRegressor or SingleLocationClassifier
    ready to predict.

    Args:
        path: the .npz file; nothing in it is unpickled.

    >>> import attnscope as at
    >>> import tempfile
    >>> from pathlib import Path
    >>> task = at.SingleLocation(dim=5, length=4, noise=0.1)
    >>> bags, y, _ = task.sample(100, seed=0)
    >>> model = at.SingleLocationRegressor().fit(bags, y)
    >>> path = Path(tempfile.mkdtemp()) / "model.npz"
    >>> model.save(path)
    >>> bool((at.load_model(path).predict(bags) == model.predict(bags)).all())
    True
    """
    try:
        arrays = read_arrays(path)
        head = json.loads(str(arrays.pop("head")))
        if head["format"] not in READABLE_FORMATS:
            raise bad(
                "format",
                "load_model",
                " or ".join(map(str, READABLE_FORMATS)),
                head["format"],
                "the version of attnscope that wrote the file",
            )
        if head["format"] == 1:
            head, arrays = upgrade_v1(head, arrays)
        check_members(arrays, path)
        model = _build_model(head, arrays)
        parts = [
            _build_model(own, _plus_arrays(i, arrays))
            for i, own in enumerate(head.get("plus", []))
        ]
        if parts:
            model.plus_models_ = parts
        for made in (model, *parts):
            check_answer(made, path)
        return model
    except (
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,  # a head of lists within lists
        OSError,
        json.JSONDecodeError,
    ) as error:
        raise bad(
            "path",
            "load_model",
            "a file written by save_model",
            f"{type(error).__name__} in {path}",
        ) from None
    except Unreadable as error:
        must = "a file written by save_model"
        raise bad("path", "load_model", must, f"{error} in {path}") from None
    except AttnscopeError:
        raise
    except ValueError:
        raise bad(
            "path",
            "load_model",
            "a file written by save_model",
            f"unreadable contents in {path}",
        ) from None


def _plus_arrays(i: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the i-th model of cv+."""
    name = f"plus{i}."
    return {k.removeprefix(name): a for k, a in arrays.items() if k.startswith(name)}


def _build_model(head: dict, arrays: dict[str, np.ndarray]) -> Any:
    model = MODEL_CLASSES[head["kind"]](**head["params"])
    mean = arrays["scaling.mean"]
    scale = arrays["scaling.scale"]
    model.scaling_ = Scaling(
        mean, scale, float(arrays["scaling.label_mean"]), float(arrays["scaling.label_scale"])
    )
    model.fitted_ = _fitted_from_arrays("fitted", arrays)
    model.other_heads_ = [
        _fitted_from_arrays(f"head{i}", arrays) for i in range(1, int(model.heads))
    ]
    for name, reads in POOL_READS.items():
        if f"{name}.gate" in arrays:
            bounds = (arrays[f"{name}.low"], arrays[f"{name}.high"])
            pool = MeanPool(_fitted_from_arrays(name, arrays), *bounds, reads=reads)
            setattr(model, f"{name}_", pool)
    if "summary_pool.centres" in arrays:
        members: Any = [arrays[f"summary_pool.{k}"] for k in SummaryPool._fields]
        model.summary_pool_ = SummaryPool(*members)
    if "forest_pool.root" in arrays:
        members = [arrays[f"forest_pool.{k}"] for k in Forest._fields]
        model.forest_pool_ = ForestPool(Forest(*members))
    for name in ARRAY_NAMES:
        if name in arrays:
            setattr(model, name, arrays[name])
    for name, value in head["facts"].items():
        setattr(model, name, value)
    model.n_features_in_ = len(mean)
    return model


def _fitted_from_arrays(name: str, arrays: dict[str, np.ndarray]) -> Fitted:
    def part(kind: Any, prefix: str) -> Any:
        # a field with a default may be missing: None is not written, nor was what came later
        found = {
            field: arrays[f"{name}.{prefix}.{field}"]
            for field in kind._fields
            if field not in kind._field_defaults or f"{name}.{prefix}.{field}" in arrays
        }
        return kind(**{k: a.item() if a.ndim == 0 else a for k, a in found.items()})

    tokens = part(TokenModel, "tokens") if f"{name}.tokens.mean" in arrays else None
    family = int(arrays[f"{name}.family"])
    combine = int(arrays[f"{name}.combine"])
    return Fitted(
        tokens,
        arrays[f"{name}.gate"],
        part(FeatureMap, "features"),
        part(Values, "values"),
        family,
        combine,
    )
