"""What the members of a model file must be, checked before a model is made of them.

notation: d features, m outputs, w waves of the gate, k directions of a basis, t whitened
directions, n bags and s numbers of a summary, N nodes of T trees, C classes; a letter stands for one number throughout a part of
the model (`fitted`, `head1`, `mean_pool`), d throughout the file.

A file may have been altered by hand, cut, or written by somebody else: every member has the kind,
the shape and the sign that its place asks for and holds no NaN, or the file is refused with the
name of the member. What is not named here is kept as it is if it holds no NaN. A model so made has
answered for one bag before it is handed out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.whole_values import missing_rows

__all__ = ["check_members", "try_out"]

SHAPES: dict[str, tuple[str, ...]] = {
    "scaling.mean": ("d",),
    "scaling.scale": ("d",),
    "scaling.label_mean": (),
    "scaling.label_scale": (),
    "gate": ("g",),
    "family": (),
    "combine": (),
    "features.frequency": ("d", "w"),
    "features.phase": ("w",),
    "features.norm": (),
    "features.constant": (),
    "features.basis": ("d", "k"),
    "values.weights": ("d", "m"),
    "values.bias": ("b",),
    "values.variance": (),
    "values.precision": (),
    "values.noise": (),
    "values.centre": ("d",),
    "values.root": ("d", "r"),
    "values.bags": (),
    "tokens.mean": ("d",),
    "tokens.whiten": ("d", "t"),
    "tokens.key": ("t",),
    "tokens.spread": (),
    "tokens.dof": (),
    "low": ("d",),
    "high": ("d",),
    "summary_pool.centres": ("n", "s"),
    "summary_pool.weights": ("n", "m"),
    "summary_pool.bias": ("m",),
    "summary_pool.rates": ("k",),
    "summary_pool.mean": ("s",),
    "summary_pool.scale": ("s",),
    "forest_pool.feature": ("N",),
    "forest_pool.cut": ("N",),
    "forest_pool.child": ("N", "sides"),
    "forest_pool.chance": ("N", "C"),
    "forest_pool.root": ("T",),
    "forest_pool.base": ("C",),
}
GROUPS = frozenset(place.partition(".")[0] for place in SHAPES if "." in place)
ABOVE_ZERO = frozenset(
    (
        "scaling.scale",
        "scaling.label_scale",
        "values.bags",
        "tokens.spread",
        "tokens.dof",
        "summary_pool.rates",
        "summary_pool.scale",
    )
)
NOT_BELOW_ZERO = frozenset(("values.variance", "values.precision", "values.noise"))
# no fit has numbers beyond; the product of two is still a number
LARGEST = np.float64(1e150)  # in double precision beside members in single
WITNESS_NUMBERS = (4, 5)  # in the place of a bias: see fit/witness_law; once without the last


def check_members(arrays: dict[str, np.ndarray], path: Any) -> None:
    """Refuse a file whose members cannot be those of a model."""
    known: dict[tuple[str, str], int] = {}
    for name, array in arrays.items():
        _check_numbers(name, array, path)
        part, place = _split(name)
        if place not in SHAPES:
            continue
        _check_sign(name, place, array, path)
        wanted = SHAPES[place]
        letters = [("", "d") if letter == "d" else (part, letter) for letter in wanted]
        if array.ndim != len(wanted) or any(
            known.setdefault(letter, size) != size
            for letter, size in zip(letters, array.shape)
        ):
            must = "a number" if not wanted else f"an array ({', '.join(wanted)})"
            raise _refused(name, must, f"the shape {array.shape}", path)
    for part, letter in list(known):
        if letter == "g":
            _check_gate(part, known, arrays, path)
        if letter == "N":
            _check_trees(part, known, arrays, path)


def try_out(model: Any, path: Any) -> None:
    """Ask a model for its answer to a bag of two tokens at the origin of its scaling."""
    bag = np.repeat(model.scaling_.mean[None, None], 2, axis=1)
    try:
        found = model.predict_proba(bag) if hasattr(model, "classes_") else model.predict(bag)
        fine = bool(np.isfinite(np.asarray(found, dtype=float)).all())
    except AttnscopeError:
        raise
    except Exception:  # whatever an altered member leads to
        fine = False
    if not fine:
        raise _refused("members", "those of one model", "ones that give no answer", path)


def _split(name: str) -> tuple[str, str]:
    """("plus0.fitted", "values.bias") of a name: the part of the model, and the place in it."""
    words = name.split(".")
    cut = -2 if len(words) > 1 and words[-2] in GROUPS else -1
    return ".".join(words[:cut]), ".".join(words[cut:])


def _check_numbers(name: str, array: np.ndarray, path: Any) -> None:
    # classes may be dates, time spans or complex numbers
    kinds = "biufUSmMc" if name.rpartition(".")[2] == "classes_" else "biufUS"
    if array.dtype.kind not in kinds:
        raise _refused(name, "numbers or words", f"{array.dtype}", path)
    # infinite degrees of freedom are a Gaussian; conformal scores of too few bags are infinite
    if missing_rows(array):
        raise _refused(name, "numbers", "NaN", path)


def _check_sign(name: str, place: str, array: np.ndarray, path: Any) -> None:
    if array.dtype.kind not in "biuf":
        raise _refused(name, "numbers", f"{array.dtype}", path)
    if place != "tokens.dof" and not (np.abs(array) <= LARGEST).all():
        raise _refused(name, f"numbers within {LARGEST:g}", f"{np.abs(array).max():g}", path)
    if place in ABOVE_ZERO and not (array > 0).all():
        raise _refused(name, "> 0", f"{array.min():g}", path)
    if place in NOT_BELOW_ZERO and not (array >= 0).all():
        raise _refused(name, ">= 0", f"{array.min():g}", path)


def _check_gate(
    part: str, known: dict[tuple[str, str], int], arrays: dict[str, np.ndarray], path: Any
) -> None:
    """One weight for each feature of a token, and one bias for each output."""
    name = f"{part}." if part else ""
    extra = sum(int(arrays.get(f"{name}features.{x}", 0)) for x in ("norm", "constant"))
    wanted = known.get(("", "d"), 0) + known.get((part, "w"), 0) + extra
    if known[part, "g"] != wanted:
        raise _refused(f"{name}gate", f"{wanted} numbers", f"{known[part, 'g']}", path)
    biases = known.get((part, "b"), 0)
    if biases not in (known.get((part, "m"), math.nan), *WITNESS_NUMBERS):
        raise _refused(f"{name}values.bias", "one for each output", f"{biases}", path)
    if biases == WITNESS_NUMBERS[1] and known.get((part, "m")) == 1:
        wrong = float(arrays[f"{name}values.bias"][-1])
        if not 0 <= wrong <= 0.5:
            must = "a share of wrong labels in [0, 1/2] at its end"
            raise _refused(f"{name}values.bias", must, f"{wrong:g}", path)


def _check_trees(
    part: str, known: dict[tuple[str, str], int], arrays: dict[str, np.ndarray], path: Any
) -> None:
    """Two children a node, places that exist, and chances that are chances."""
    own = f"{part}.forest_pool" if part else "forest_pool"
    if known.get((part, "sides"), 2) != 2:
        got = f"{known[part, 'sides']} a node"
        raise _refused(f"{own}.child", "two nodes", got, path)
    # a summary has three numbers for each feature of a token
    below = {"feature": 3 * known.get(("", "d"), 0)} | dict.fromkeys(
        ("child", "root"), known[part, "N"]
    )
    for place, end in below.items():
        array = arrays.get(f"{own}.{place}", np.zeros(1, int))
        if array.dtype.kind not in "iu" or not ((array >= 0) & (array < end)).all():
            must = f"whole numbers from 0 to {end - 1}"
            raise _refused(f"{own}.{place}", must, "others", path)
    for place in ("chance", "base"):
        array = arrays.get(f"{own}.{place}", np.ones((1, 1)))
        # in single precision a row's sum is off by its last digits
        if (array < 0).any() or not np.allclose(array.sum(axis=-1), 1, rtol=0, atol=1e-5):
            raise _refused(f"{own}.{place}", "chances that sum to one", "others", path)


def _refused(name: str, must: str, got: str, path: Any) -> AttnscopeError:
    return bad(f"{name} of {path}", "load_model", must, got, "a file written by save_model")
