"""Trajectories on disk, of one head or of several: one .npz file, no pickle. Arrays as they are; the setup as
JSON text in the array "setup".

A file is written under a temporary name and moved into place, so it is whole or absent. A predictor with a
user's function in it (a sigma, a schedule) is stored by its description only, and must be given again to
`load`.
"""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attnscope.dynamics.heads import HeadSetup, HeadTrajectory
from attnscope.dynamics.runs import Runs
from attnscope.dynamics.trajectory import Setup, Trajectory
from attnscope.errors import AttnscopeError, bad
from attnscope.predictors.attention import Erf, LinearAttention, Predictor, Softmax, SoftmaxOne, SoftplusAttention
from attnscope.predictors.heads import MultiHead
from attnscope.predictors.temperature import InverseTime
from attnscope.tasks.grid_location import GridLocation
from attnscope.tasks.multi_direction import MultiDirection
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.optimal_sigma import OptimalSigma

__all__ = ["load", "save"]

AnyRuns = TypeVar("AnyRuns", bound=Runs)

FORMAT = 1  # raised whenever an older reader would misunderstand the file
SETUPS: dict[type[Runs], type[Any]] = {Trajectory: Setup, HeadTrajectory: HeadSetup}
TASKS: dict[str, type[Any]] = {kind.__name__: kind for kind in (SingleLocation, GridLocation, MultiDirection)}
NUMBERS = {  # what a task is rebuilt from, with the arrays it was given
    "SingleLocation": ("dim", "length", "gamma", "noise", "signal", "seed"),
    "GridLocation": ("rows", "columns", "dim", "gamma", "noise", "signal", "seed"),
    "MultiDirection": ("dim", "length", "directions", "positions", "gamma", "noise", "signal", "seed"),
}


def save(run: Runs, path: str | os.PathLike[str]) -> None:
    """Write a trajectory; `path` gets the ending .npz if it has none."""
    target = _named(path)
    if not target.parent.is_dir():
        raise bad("path", "save", "in a folder that exists", str(path))
    setup = run.setup
    about = {"format": FORMAT, **_task_words(setup.task), "predictor": _described(setup.predictor)}
    about["settings"] = {name: getattr(setup, name) for name in _settings(type(run))}
    arrays = {name: getattr(run, name) for name in _arrays(type(run))}
    arrays |= {f"state.{name}": x for name, x in run.state.items()}
    arrays |= {f"task.{name}": x for name, x in setup.task.given.items() if x is not None}
    if "excess" in vars(run):  # computed already: slow for some predictors
        arrays["excess"] = run.excess
    arrays["setup"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise AttnscopeError(f"path of save must be writable, got {error.strerror} for {target}.") from None
    finally:
        part.unlink(missing_ok=True)


def load(kind: type[AnyRuns], path: str | os.PathLike[str], predictor: Predictor | MultiHead | None = None) -> AnyRuns:
    """Read what `save` wrote of a `kind`."""
    about, arrays = _read(kind, path)
    given = {name.removeprefix("task."): x for name, x in arrays.items() if name.startswith("task.")}
    task = _task_kind(about)(**about["task"], **given)
    of = f"{kind.__name__}.load"
    known = _rebuilt(about["predictor"], of) if predictor is None else _alike(predictor, about["predictor"], of)
    setup = SETUPS[kind](task, known, **about["settings"])
    state = {name.removeprefix("state."): x for name, x in arrays.items() if name.startswith("state.")}
    run = kind(setup, **{name: arrays[name] for name in _arrays(kind)}, state=state)  # type: ignore[call-arg]
    if "excess" in arrays and predictor is None:
        vars(run)["excess"] = arrays["excess"]  # what the cached property would compute
    return run


def _arrays(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in ("setup", "state")]


def _settings(kind: type[Runs]) -> list[str]:
    return [field.name for field in fields(SETUPS[kind]) if field.name not in ("task", "predictor")]


def _read(kind: type[Runs], path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = kind.__name__
    try:
        with open(_named(path), "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        about = json.loads(arrays.pop("setup").tobytes())
        complete = about["format"] == FORMAT and _task_kind(about) and all(array in arrays for array in _arrays(kind))
    except FileNotFoundError:
        raise bad("path", f"{name}.load", "a file that exists", str(path)) from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
        complete = False
    if not complete:
        raise bad("path", f"{name}.load", f"a file that {name}.save wrote (format {FORMAT})", str(path))
    return about, arrays


def _named(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    return target if target.suffix == ".npz" else target.with_name(target.name + ".npz")


def _task_words(task: SingleLocation | MultiDirection) -> dict[str, Any]:
    kind = next(base.__name__ for base in type(task).__mro__ if base.__name__ in TASKS)
    return {"kind of task": kind, "task": {name: getattr(task, name) for name in NUMBERS[kind]}}


def _task_kind(about: dict[str, Any]) -> type[Any]:
    return TASKS[about.get("kind of task", "SingleLocation")]  # files from before there were others do not say


# -- predictors ------------------------------------------------------------------------------------------------------

_PLAIN: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Erf, Softmax, SoftmaxOne, SoftplusAttention, LinearAttention)
}


def _described(predictor: Predictor | MultiHead) -> dict[str, Any]:
    """JSON that `_rebuilt` understands, or only a description in words."""
    if isinstance(predictor, MultiHead):
        return _described(predictor.head) | {"heads": predictor.heads, "words": repr(predictor)}
    lam, kind = predictor.temperature, type(predictor).__name__
    out: dict[str, Any] = {"kind": kind, "words": repr(predictor)}
    if type(predictor) is OptimalSigma:
        sigma: Any = predictor.sigma
        return out | {"arguments": {"gamma": sigma.gamma, "signal": sigma.signal, "length": sigma.length}}
    if _PLAIN.get(kind) is not type(predictor) or (callable(lam) and type(lam) is not InverseTime):
        return out
    offset = {"offset": predictor.offset} if isinstance(predictor, LinearAttention) else {}
    schedule = {"start": lam.start, "rate": lam.rate} if isinstance(lam, InverseTime) else lam
    return out | {"arguments": {"temperature": schedule, **offset}}


def _rebuilt(described: dict[str, Any], of: str) -> Predictor | MultiHead:
    if "arguments" not in described:
        must = "given again, because a function of yours cannot be stored"
        raise bad("predictor", of, must, f"a file of {described['words']}", "load(path, predictor=...)")
    arguments, kind = dict(described["arguments"]), described["kind"]
    if isinstance(arguments.get("temperature"), dict):
        arguments["temperature"] = InverseTime(**arguments["temperature"])
    head = OptimalSigma(**arguments) if kind == "OptimalSigma" else _PLAIN[kind](**arguments)
    return MultiHead(head, described["heads"]) if "heads" in described else head


def _alike(predictor: object, described: dict[str, Any], of: str) -> Predictor | MultiHead:
    """The predictor that was given again, if it has as many heads as the file's."""
    heads = described.get("heads")
    if isinstance(predictor, MultiHead) and predictor.heads == heads:
        return predictor
    if isinstance(predictor, Predictor) and heads is None:
        return predictor
    must = "a predictor with one head" if heads is None else f"a MultiHead with {heads} heads"
    raise bad("predictor", of, f"{must}, as in the file", predictor)
