"""The members of a model file: their kinds, shapes and signs, checked before a model is built.

notation: d features, m outputs, w waves of the gate, k directions of a basis, t whitened
directions, n bags and s numbers of a summary, N nodes of T trees, C classes. A letter has one value
within a part of the model (`fitted`, `head1`, `mean_pool`); d has one value within the file.

A file may have been edited, truncated or written by another program. Every member must have the
kind, shape and sign of its name and hold no NaN; otherwise the file is refused with the name of the
member. A member that is not listed here is kept unchanged if it holds no NaN. A model is returned
only after it has predicted one bag.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.whole_values import missing_rows

__all__ = ["check_answer", "check_members"]

MEMBER_SHAPES: dict[str, tuple[str, ...]] = {
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
MEMBER_GROUPS = frozenset(place.partition(".")[0] for place in MEMBER_SHAPES if "." in place)
POSITIVE_MEMBERS = frozenset(
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
NONNEGATIVE_MEMBERS = frozenset(("values.variance", "values.precision", "values.noise"))
# what was measured on held-out bags, with the scores that have one number for each of these bags
SCORES_OF_MEMBERS = {
    f"{kind}_{what}_": f"{kind}_scores_"
    for kind, parts in {
        "conformal": ("scores", "weights"),
        "plus": ("scores", "weights", "fold"),
        "location": ("scores", "weights"),
    }.items()
    for what in parts
}
# no fit has larger numbers; the product of two such numbers is still finite
MAX_MEMBER_SIZE = np.float64(1e150)  # in double precision, because members may be in single
# lengths of `values.bias` of a witness model (fit/witness_law); older files lack the last number
WITNESS_BIAS_SIZES = (4, 5)


def check_members(arrays: dict[str, np.ndarray], path: Any) -> None:
    """Refuse a file whose members cannot belong to a model."""
    known: dict[tuple[str, str], int] = {}
    for name, array in arrays.items():
        _check_numbers(name, array, path)
        part, place = _split_name(name)
        if place not in MEMBER_SHAPES:
            continue
        _check_sign(name, place, array, path)
        wanted = MEMBER_SHAPES[place]
        letters = [("", "d") if letter == "d" else (part, letter) for letter in wanted]
        if array.ndim != len(wanted) or any(
            known.setdefault(letter, size) != size
            for letter, size in zip(letters, array.shape)
        ):
            must = "a number" if not wanted else f"an array ({', '.join(wanted)})"
            raise _member_error(name, must, f"the shape {array.shape}", path)
    for part, letter in list(known):
        if letter == "g":
            _check_gate(part, known, arrays, path)
        if letter == "N":
            _check_trees(part, known, arrays, path)
    _check_attributes(known, arrays, path)


def check_answer(model: Any, path: Any) -> None:
    """Refuse a model that gives no finite prediction for a bag of two tokens at its mean."""
    bag = np.repeat(model.scaling_.mean[None, None], 2, axis=1)
    try:
        found = model.predict_proba(bag) if hasattr(model, "classes_") else model.predict(bag)
        fine = bool(np.isfinite(np.asarray(found, dtype=float)).all())
    except AttnscopeError:
        raise
    except Exception:  # whatever error an altered member causes
        fine = False
    if not fine:
        raise _member_error("members", "those of one model", "ones that give no answer", path)


def _dotted_name(model: str, name: str) -> str:
    return f"{model}.{name}" if model else name


def _check_attributes(
    known: dict[tuple[str, str], int], arrays: dict[str, np.ndarray], path: Any
) -> None:
    """Scores of held-out bags, classes and names of features, of the model and of those of cv+."""
    fits = sum(re.fullmatch(r"plus\d+\.scaling\.mean", name) is not None for name in arrays)
    for name, array in arrays.items():
        model, _, attribute = name.rpartition(".")
        if attribute in SCORES_OF_MEMBERS:
            scores = arrays.get(_dotted_name(model, SCORES_OF_MEMBERS[attribute]), array)
            _check_measured(name, array, scores, path)
        if attribute == "plus_fold_" and not ((array >= 0) & (array < fits)).all():
            raise _member_error(name, f"numbers from 0 to {fits - 1}", "others", path)
        if attribute == "classes_":
            outputs = known.get((_dotted_name(model, "fitted"), "m"))
            _check_classes(name, array, outputs, path)
        if attribute == "feature_names_in_" and array.shape != (known.get(("", "d")),):
            got = f"the shape {array.shape}"
            raise _member_error(name, "one name for each feature", got, path)


def _check_measured(name: str, array: np.ndarray, scores: np.ndarray, path: Any) -> None:
    """Numbers for the bags that calibrate: one for each score, weights finite and >= 0."""
    if array.dtype.kind not in ("iu" if name.endswith("fold_") else "biuf"):
        raise _member_error(name, "numbers", f"{array.dtype}", path)
    if array.ndim != 1 or array.shape != scores.shape:
        raise _member_error(
            name, "one number for each score", f"the shape {array.shape}", path
        )
    if name.endswith("weights_") and not ((array >= 0) & (array <= MAX_MEMBER_SIZE)).all():
        raise _member_error(name, "finite numbers >= 0", "others", path)


def _check_classes(name: str, classes: np.ndarray, outputs: int | None, path: Any) -> None:
    """Two classes for one output, otherwise one for each; every class once."""
    wanted = 2 if outputs == 1 else outputs
    if classes.ndim != 1 or wanted not in (None, len(classes)):
        raise _member_error(name, f"{wanted} classes", f"the shape {classes.shape}", path)
    if len(np.unique(classes)) < len(classes):
        raise _member_error(name, "classes that differ", "one of them twice", path)


def _split_name(name: str) -> tuple[str, str]:
    """The part of the model and the field in it: ("plus0.fitted", "values.bias")."""
    words = name.split(".")
    cut = -2 if len(words) > 1 and words[-2] in MEMBER_GROUPS else -1
    return ".".join(words[:cut]), ".".join(words[cut:])


def _check_numbers(name: str, array: np.ndarray, path: Any) -> None:
    # classes may be dates, time spans or complex numbers
    kinds = "biufUSmMc" if name.rpartition(".")[2] == "classes_" else "biufUS"
    if array.dtype.kind not in kinds:
        raise _member_error(name, "numbers or words", f"{array.dtype}", path)
    # infinite degrees of freedom are a Gaussian; conformal scores of too few bags are infinite
    if missing_rows(array):
        raise _member_error(name, "numbers", "NaN", path)


def _check_sign(name: str, place: str, array: np.ndarray, path: Any) -> None:
    if array.dtype.kind not in "biuf":
        raise _member_error(name, "numbers", f"{array.dtype}", path)
    if place != "tokens.dof" and not (np.abs(array) <= MAX_MEMBER_SIZE).all():
        raise _member_error(
            name, f"numbers within {MAX_MEMBER_SIZE:g}", f"{np.abs(array).max():g}", path
        )
    if place in POSITIVE_MEMBERS and not (array > 0).all():
        raise _member_error(name, "> 0", f"{array.min():g}", path)
    if place in NONNEGATIVE_MEMBERS and not (array >= 0).all():
        raise _member_error(name, ">= 0", f"{array.min():g}", path)


def _check_gate(
    part: str, known: dict[tuple[str, str], int], arrays: dict[str, np.ndarray], path: Any
) -> None:
    """One weight for each feature of a token, and one bias for each output."""
    name = f"{part}." if part else ""
    extra = sum(int(arrays.get(f"{name}features.{x}", 0)) for x in ("norm", "constant"))
    wanted = known.get(("", "d"), 0) + known.get((part, "w"), 0) + extra
    if known[part, "g"] != wanted:
        raise _member_error(f"{name}gate", f"{wanted} numbers", f"{known[part, 'g']}", path)
    biases = known.get((part, "b"), 0)
    if biases not in (known.get((part, "m"), math.nan), *WITNESS_BIAS_SIZES):
        raise _member_error(f"{name}values.bias", "one for each output", f"{biases}", path)
    if biases == WITNESS_BIAS_SIZES[1] and known.get((part, "m")) == 1:
        wrong = float(arrays[f"{name}values.bias"][-1])
        if not 0 <= wrong <= 0.5:
            must = "a share of wrong labels in [0, 1/2] at its end"
            raise _member_error(f"{name}values.bias", must, f"{wrong:g}", path)


def _check_trees(
    part: str, known: dict[tuple[str, str], int], arrays: dict[str, np.ndarray], path: Any
) -> None:
    """Two children per node, node numbers that exist, and probabilities that sum to one."""
    own = f"{part}.forest_pool" if part else "forest_pool"
    if known.get((part, "sides"), 2) != 2:
        got = f"{known[part, 'sides']} a node"
        raise _member_error(f"{own}.child", "two nodes", got, path)
    # a summary has three numbers for each feature of a token
    below = {"feature": 3 * known.get(("", "d"), 0)} | dict.fromkeys(
        ("child", "root"), known[part, "N"]
    )
    for place, end in below.items():
        array = arrays.get(f"{own}.{place}", np.zeros(1, int))
        if array.dtype.kind not in "iu" or not ((array >= 0) & (array < end)).all():
            must = f"whole numbers from 0 to {end - 1}"
            raise _member_error(f"{own}.{place}", must, "others", path)
    for place in ("chance", "base"):
        array = arrays.get(f"{own}.{place}", np.ones((1, 1)))
        # in single precision a row's sum is off by its last digits
        if (array < 0).any() or not np.allclose(array.sum(axis=-1), 1, rtol=0, atol=1e-5):
            raise _member_error(f"{own}.{place}", "chances that sum to one", "others", path)


def _member_error(name: str, must: str, got: str, path: Any) -> AttnscopeError:
    return bad(f"{name} of {path}", "load_model", must, got, "a file written by save_model")
