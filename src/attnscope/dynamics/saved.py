"""Trajectories on disk: one .npz file, no pickle. Arrays as they are; the setup as JSON text in the array
"setup".

A file is written under a temporary name and moved into place, so it is whole or absent. A predictor with a
user's function in it (a sigma, a schedule) is stored by its description only, and must be given again to
`load`.
"""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.dynamics.trajectory import Setup, Trajectory
from attnscope.errors import AttnscopeError, bad
from attnscope.predictors.attention import Erf, LinearAttention, Predictor, Softmax, SoftmaxOne, SoftplusAttention
from attnscope.predictors.temperature import InverseTime
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.optimal_sigma import OptimalSigma

__all__ = ["load", "save"]

FORMAT = 1  # raised whenever an older reader would misunderstand the file
ARRAYS = ("step", "log", "temperature", "diverged_at", "swapped_at")
TASK_ARRAYS = ("location_probs", "key", "value")
SETTINGS = ("step_size", "log_every", "seed", "batch_size", "engine", "swap_move")


def save(run: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write a trajectory; `path` gets the ending .npz if it has none."""
    target = _named(path)
    if not target.parent.is_dir():
        raise bad("path", "save", "in a folder that exists", str(path))
    setup = run.setup
    about = {"format": FORMAT, "task": _task_numbers(setup.task), "predictor": _described(setup.predictor)}
    about["settings"] = {name: getattr(setup, name) for name in SETTINGS}
    arrays = {name: getattr(run, name) for name in ARRAYS} | {f"state.{name}": x for name, x in run.state.items()}
    arrays |= {f"task.{name}": x for name, x in _task_arrays(setup.task).items() if x is not None}
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


def load(path: str | os.PathLike[str], predictor: Predictor | None = None) -> Trajectory:
    """Read what `save` wrote."""
    about, arrays = _read(path)
    given: dict[str, Any] = {name: arrays.get(f"task.{name}") for name in TASK_ARRAYS}
    task = SingleLocation(**about["task"], **given)
    known = predictor if predictor is not None else _rebuilt(about["predictor"])
    setup = Setup(task, known, **about["settings"])
    state = {name.removeprefix("state."): x for name, x in arrays.items() if name.startswith("state.")}
    run = Trajectory(setup, **{name: arrays[name] for name in ARRAYS}, state=state)
    if "excess" in arrays and predictor is None:
        vars(run)["excess"] = arrays["excess"]  # what the cached property would compute
    return run


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with open(_named(path), "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        about = json.loads(arrays.pop("setup").tobytes())
        complete = about["format"] == FORMAT and all(name in arrays for name in ARRAYS)
    except FileNotFoundError:
        raise bad("path", "Trajectory.load", "a file that exists", str(path)) from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
        complete = False
    if not complete:
        raise bad("path", "Trajectory.load", f"a file that Trajectory.save wrote (format {FORMAT})", str(path))
    return about, arrays


def _named(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    return target if target.suffix == ".npz" else target.with_name(target.name + ".npz")


def _task_numbers(task: SingleLocation) -> dict[str, Any]:
    return {name: getattr(task, name) for name in ("dim", "length", "gamma", "noise", "signal", "seed")}


def _task_arrays(task: SingleLocation) -> dict[str, np.ndarray | None]:
    """What was given to the task; vectors it draws from its seed are drawn again."""
    return task.given


# -- predictors ------------------------------------------------------------------------------------------------------

_PLAIN: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Erf, Softmax, SoftmaxOne, SoftplusAttention, LinearAttention)
}


def _described(predictor: Predictor) -> dict[str, Any]:
    """JSON that `_rebuilt` understands, or only a description in words."""
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


def _rebuilt(described: dict[str, Any]) -> Predictor:
    if "arguments" not in described:
        must = "given again, because a function of yours cannot be stored"
        raise bad(
            "predictor",
            "Trajectory.load",
            must,
            f"a file of {described['words']}",
            "load(path, predictor=...)",
        )
    arguments = dict(described["arguments"])
    if described["kind"] == "OptimalSigma":
        return OptimalSigma(**arguments)
    if isinstance(arguments["temperature"], dict):
        arguments["temperature"] = InverseTime(**arguments["temperature"])
    return _PLAIN[described["kind"]](**arguments)
