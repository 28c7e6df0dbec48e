"""Trajectories on disk, of one head or of several: one .npz file, no pickle. Arrays are stored
unchanged, the setup as JSON text in the array "setup".

A file is whole or absent (`files.whole_file`). A predictor with a user's function in it (a sigma, a
schedule) is stored by its description only, and must be given again to `load`.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.deprecated import new_names
from attnscope.errors import bad
from attnscope.files import check_place, whole_file
from attnscope.numerics.border.array_files import Unreadable, read_arrays
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.registry import named
from attnscope.tasks.base import recipe
from attnscope.theory.optima.optimal_sigma import OptimalSigma

__all__ = ["load", "save"]

FORMAT = 1  # raised whenever an older reader would misunderstand the file
# Kinds that only a function makes, so that the registry has no name for them
UNREGISTERED_KINDS: dict[str, type] = {"OptimalSigma": OptimalSigma}


def save(run: Any, path: str | os.PathLike[str]) -> None:
    """Write a trajectory; `path` gets the ending .npz if it has none."""
    target = _npz_path(path)
    check_place(target, "save")
    setup = run.setup
    about = {
        "format": FORMAT,
        **_task_words(setup.task),
        "predictor": _predictor_description(setup.predictor),
    }
    arrays: dict[str, Any] = dict(_task_arrays(setup.task))
    about["settings"] = {name: getattr(setup, name) for name in _setting_fields(type(run))}
    arrays |= {name: getattr(run, name) for name in _array_fields(type(run))}
    arrays |= {f"state.{name}": x for name, x in run.state.items()}
    if "excess" in vars(run):  # computed already: slow for some predictors
        arrays["excess"] = run.excess
    arrays["setup"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    with whole_file(target, "save") as part, open(part, "wb") as file:
        np.savez(file, **arrays)


def load(
    kind: type[Any],
    path: str | os.PathLike[str],
    predictor: Predictor | MultiHead | None = None,
) -> Any:
    """Read what `save` wrote of a `kind` of Runs (trajectory_base.py, which calls this, is not
    imported here).
    """
    about, arrays = _read_file(kind, path)
    task = _rebuild_task(about, _arrays_with_prefix(arrays, "task."))
    of = f"{kind.__name__}.load"
    known = (
        _rebuild_predictor(about["predictor"], of)
        if predictor is None
        else _matching_predictor(predictor, about["predictor"], of)
    )
    setup = kind.SETUP(task, known, **about["settings"])
    state = _arrays_with_prefix(arrays, "state.")
    run = kind(setup, **{name: arrays[name] for name in _array_fields(kind)}, state=state)
    if "excess" in arrays and predictor is None:
        vars(run)["excess"] = arrays["excess"]  # what the cached property would compute
    return run


def _array_fields(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in ("setup", "state")]


def _setting_fields(kind: type[Any]) -> list[str]:
    return [
        field.name for field in fields(kind.SETUP) if field.name not in ("task", "predictor")
    ]


def _read_file(
    kind: type[Any], path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = kind.__name__
    try:
        arrays = new_names(read_arrays(_npz_path(path)))
        about = json.loads(arrays.pop("setup").tobytes())
        complete = (
            about["format"] == FORMAT
            and _task_kind(about)
            and all(array in arrays for array in _array_fields(kind))
        )
    except FileNotFoundError:
        raise bad("path", f"{name}.load", "a file that exists", str(path)) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, Unreadable):
        complete = False
    if not complete:
        raise bad(
            "path",
            f"{name}.load",
            f"a file that {name}.save wrote (format {FORMAT})",
            str(path),
        )
    return about, arrays


def _npz_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if not target.name:  # "." and "/": the writer says that they are folders
        return target
    return target if target.suffix == ".npz" else target.with_name(target.name + ".npz")


def _arrays_with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)
    }


# -- tasks -----------------------------------------------------------------------------------------


def _task_words(task: Any) -> dict[str, Any]:
    """The task as JSON: its class, its numbers and words, and the tasks inside it."""
    kind = next(base.__name__ for base in type(task).__mro__ if named(base.__name__) is base)
    words: dict[str, Any] = {}
    for name, x in recipe(task).items():
        if hasattr(x, "sample"):
            words[name] = _task_words(x)
        elif isinstance(x, dict):
            words[name] = {str(key): value for key, value in x.items()}
        elif not isinstance(x, np.ndarray):
            words[name] = x
    return {"kind of task": kind, "task": words}


def _task_arrays(task: Any, prefix: str = "task.") -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    for name, x in recipe(task).items():
        if isinstance(x, np.ndarray):
            out[prefix + name] = x
        elif hasattr(x, "sample"):
            out |= _task_arrays(x, f"{prefix}{name}.")
    return out


def _rebuild_task(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    arguments: dict[str, Any] = {name: x for name, x in arrays.items() if "." not in name}
    for name, x in about["task"].items():
        if isinstance(x, dict) and "kind of task" in x:
            arguments[name] = _rebuild_task(x, _arrays_with_prefix(arrays, f"{name}."))
        elif isinstance(x, dict):
            arguments[name] = {int(key): value for key, value in x.items()}
        else:
            arguments[name] = x
    return _task_kind(about)(**arguments)


def _task_kind(about: dict[str, Any]) -> type[Any]:
    # files from before there were others do not say
    name = about.get("kind of task", "SingleLocation")
    kind = named(name)
    if kind is None:
        raise KeyError(name)
    return kind


# -- predictors ------------------------------------------------------------------------------------


def _predictor_description(predictor: Predictor | MultiHead) -> dict[str, Any]:
    """JSON that `_rebuild_predictor` understands, or only a description in words."""
    if adds_heads(predictor):
        return _predictor_description(predictor.head) | {
            "heads": predictor.heads,
            "words": repr(predictor),
        }
    lam = predictor.inverse_temperature
    kind = type(predictor).__name__
    out: dict[str, Any] = {"kind": kind, "words": repr(predictor)}
    if _kind_of_name(kind) is not type(predictor) or (
        callable(lam) and type(lam) is not InverseTime
    ):
        return out
    arguments = recipe(predictor)
    if isinstance(lam, InverseTime):
        arguments["inverse_temperature"] = {"start": lam.start, "rate": lam.rate}
    return out | {"arguments": arguments}


def _kind_of_name(name: str) -> type | None:
    return UNREGISTERED_KINDS.get(name) or named(name)


def _predictor_kind(name: str) -> Any:
    kind = _kind_of_name(name)
    if kind is None:
        raise bad(
            "the file",
            "load",
            "of a predictor that the catalogue knows",
            name,
            "importing the package it is from",
        )
    return kind


def _rebuild_predictor(described: dict[str, Any], of: str) -> Predictor | MultiHead:
    if "arguments" not in described:
        must = "given again, because a user-defined function cannot be stored"
        raise bad(
            "predictor",
            of,
            must,
            f"a file of {described['words']}",
            "load(path, predictor=...)",
        )
    arguments = new_names(described["arguments"])
    kind = described["kind"]
    if isinstance(arguments.get("inverse_temperature"), dict):
        arguments["inverse_temperature"] = InverseTime(**arguments["inverse_temperature"])
    head = _predictor_kind(kind)(**arguments)
    return MultiHead(head, described["heads"]) if "heads" in described else head


def _matching_predictor(
    predictor: object, described: dict[str, Any], of: str
) -> Predictor | MultiHead:
    """The predictor that was given again, if it has as many heads as the file's."""
    heads = described.get("heads")
    if adds_heads(predictor) and predictor.heads == heads:
        return predictor
    if has_one_head(predictor) and heads is None:
        return predictor
    must = "a predictor with one head" if heads is None else f"a MultiHead with {heads} heads"
    raise bad("predictor", of, f"{must}, as in the file", predictor)
