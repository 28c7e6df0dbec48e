"""The label of a planted task as blocks: what it reads given each value of the latent, and its
weights, once per task.

notation: z_i the latent's values, t the projections that the label reads given z_i, x standard
normals behind them.

A block is a value of the latent, with the law of its tokens and the label as a function of what it
reads. Values whose tokens are permutations of one another and whose labels are one expression of
what they read (the codes of provenance_tags.py) are one block. What follows for risks is in
moment_risk.py; a task for which `label_law` returns a reason instead of blocks is computed on
nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.tasks.base import is_defined
from attnscope.tasks.planted.definition_checks import of_method
from attnscope.theory.labels.carriers import Unsupported, handled
from attnscope.theory.labels.declared_cells import (
    SCAN_STEP_SIGMAS,
    declared_cells,
    unseen_square,
)
from attnscope.theory.labels.intervals import Series
from attnscope.theory.labels.provenance_tags import reads_of
from attnscope.theory.labels.quadrature import (
    LabelWeights,
    Reading,
    bounded_cells,
    folded_weights,
)
from attnscope.theory.labels.taylor_jets import Jet, Truth, variable

__all__ = ["LabelBlock", "LabelLaw", "declared_reads", "label_law", "what_is_read"]

# entries of the tags of all latents and projections: some MB; beyond, everything counts as read
LARGEST_TAG_COUNT = 1 << 24
# sequences on which a label is asked again with what it does not read drawn anew
CHECK_SEQUENCES = 1024
CHECK_SEED = 0x4EAD


class LabelBlock(NamedTuple):
    """Values of the latent that are one: probability, law of the tokens (L, r), (L,), the token and
    the teacher that are read, the label's weights, and these on few points (folded.py).
    """

    probability: float
    means: np.ndarray
    scales: np.ndarray
    token: int
    teacher: int
    weights: LabelWeights
    folds: dict[int, Any]


class LabelLaw(NamedTuple):
    """blocks, or None and in `why` what the label does that the moment route cannot use."""

    blocks: tuple[LabelBlock, ...] | None
    why: str = ""

    @property
    def how(self) -> str:
        """The weakest of "bound", "declared" and "scan" over the blocks."""
        kinds = {x.weights.how for x in self.blocks or ()}
        return next((k for k in ("scan", "declared") if k in kinds), "bound")


class NoRandom:
    """Replaces a label's random generator: a label that draws is no function of its projections."""

    def __getattr__(self, name: str) -> Any:
        raise Unsupported("random numbers inside the label")


def label_law(task: Any) -> LabelLaw:
    """The blocks of a task, found once and kept with it; loss squared."""
    held = vars(task)
    if "_label_law" not in held:
        held["_label_law"] = _built_label_law(task)
    return held["_label_law"]


def _built_label_law(task: Any) -> LabelLaw:
    if not is_defined(task) or task.latents is None:
        return LabelLaw(None, "its latent is not finite")
    values, probabilities = task.enumerated("risk")
    possible = probabilities > 0
    values, probabilities = values[possible], probabilities[possible]
    means, scales = task.token_law(values)
    try:
        reads, codes = what_is_read(task, values)
    except Unsupported as error:
        return LabelLaw(None, f"it uses {error}")
    most = int(reads.sum((1, 2)).max())
    if most > 1:
        return LabelLaw(None, f"it reads {most} projections")
    blocks: list[LabelBlock] = []
    place: dict[bytes, int] = {}
    for i, probability in enumerate(probabilities):
        rows = np.concatenate([means[i], scales[i][:, None], reads[i]], axis=1)
        key = rows[np.lexsort(rows.T[::-1])].tobytes() + codes[i].tobytes()
        if key in place:
            k = place[key]
            blocks[k] = blocks[k]._replace(
                probability=blocks[k].probability + float(probability)
            )
            continue
        read = np.argwhere(reads[i])
        token, teacher = (int(n) for n in read[0]) if len(read) else (0, 0)
        try:
            weights = _block_weights(
                task, values[i], means[i], scales[i], token, teacher, reads[i]
            )
        except Unsupported as error:
            return LabelLaw(None, f"it uses {error}")
        place[key] = len(blocks)
        blocks.append(
            LabelBlock(float(probability), means[i], scales[i], token, teacher, weights, {})
        )
    return LabelLaw(tuple(blocks))


def what_is_read(task: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, L, r) bool and codes (m,); Unsupported where neither tags nor the author determine them."""
    m, L, r = len(values), task.length, len(task.teacher_gram)
    declared = declared_reads(task, values)
    found = None
    why = Unsupported("more latents and projections than tags can follow")
    if m * (L * r) ** 2 <= LARGEST_TAG_COUNT:
        try:
            found = reads_of(lambda f, z: _label_or_chances(task, f, z), values, L, r)
        except AttnscopeError:
            raise
        except (
            Exception
        ) as error:  # whatever the author's code does with an array it does not know
            why = _as_unsupported(error)
    if declared is None and found is None:
        raise why
    if declared is None:
        assert found is not None
        return found.reads, found.codes
    # codes number what the tags have seen: of use only where both agree
    same = found is not None and np.array_equal(found.reads, declared)
    return declared, found.codes if same and found is not None else np.arange(
        m, dtype=np.uint64
    )


def declared_reads(task: Any, values: np.ndarray) -> np.ndarray | None:
    """The author's own declaration, checked; None without one."""
    declared = getattr(task, "reads", None)
    if declared is None:
        return None
    found = np.asarray(declared(values))
    shape = (len(values), task.length, len(task.teacher_gram))
    if found.dtype != bool or found.shape != shape:
        got = f"an array of {found.dtype} and shape {found.shape}"
        raise bad("reads", of_method(task, "reads"), f"a bool array of shape {shape}", got)
    return found


def _as_unsupported(error: Exception) -> Unsupported:
    if isinstance(error, Unsupported):
        return error
    return Unsupported("code that only numbers can run")


def _label_or_chances(task: Any, fields: Any, latent: np.ndarray) -> Any:
    """The label, or the chances of its classes."""
    if task.likelihood is not None and task.classes is not None:
        return task.likelihood(fields, latent)
    return task.label(fields, latent, NoRandom())


def _block_weights(
    task: Any, value: np.ndarray, means: np.ndarray, scales: np.ndarray, token: int, teacher: int,
    reads: np.ndarray,
) -> LabelWeights:  # fmt: skip
    classes = None
    if task.likelihood is not None and task.classes is not None:
        classes = np.asarray(task.classes, dtype=np.float64)
    middle = means @ task.teacher_gram  # of all projections
    place, unit = float(middle[token, teacher]), float(scales[token])
    of = of_method(task, "label" if classes is None else "likelihood")

    def numbers(fields: np.ndarray) -> np.ndarray:
        """(k, n)."""
        latent = np.repeat(value[None], len(fields), axis=0)
        with np.errstate(all="ignore"):
            found = np.asarray(_label_or_chances(task, fields, latent))
        if found.dtype.kind not in "biuf" or found.shape[:1] != (len(fields),):
            found = task.checked_label(
                fields, latent, np.random.default_rng(0)
            )  # its sentence
        if classes is None:
            if found.ndim != 1:
                raise Unsupported("several numbers in one label")
            return found[None].astype(np.float64)
        chances = task.class_chances(fields, latent)
        return np.stack([chances @ classes, chances @ classes**2])

    def fields_at(x: np.ndarray) -> np.ndarray:
        fields = np.repeat(middle[None], len(x), axis=0)
        fields[:, token, teacher] = place + unit * x
        return fields

    def enclosures(centre: np.ndarray, half: np.ndarray) -> list[Series]:
        n = len(centre)
        latent = np.repeat(value[None], n, axis=0)
        with np.errstate(all="ignore"):
            given = Jet(_projection_jets(middle, token, teacher, place, unit, centre, half))
            found = handled(_label_or_chances(task, given, latent))
        if isinstance(found, Truth):
            found = found.astype(np.float64)
        if not isinstance(found, Jet):
            found = given.lifted(found)
        if found.shape[:1] != (n,):
            raise Unsupported(f"a label of shape {found.shape}")
        if classes is None:
            return [found.series]
        return [(found @ classes).series, (found @ classes**2).series]

    _check_reads(task, numbers, middle, scales, reads, fields_at, of)
    try:
        enclosures(np.zeros(2), np.full(2, 0.1))
        follow: Any = enclosures
    except AttnscopeError:
        raise
    except Exception as error:  # as above
        follow = None
        if str(_as_unsupported(error)).startswith("random"):
            raise
    values = lambda x: numbers(fields_at(x))
    reading = Reading(values, follow, place, unit if unit > 0 else 1e-300, of)
    # an argument of the task by one of these names is not a declaration
    kinks = () if "kinks" in task.own else task.kinks
    scale = None if "scale" in task.own else task.scale
    return _label_weights(reading, kinks, scale)


def _label_weights(reading: Reading, kinks: Any, scale: float | None) -> LabelWeights:
    """The weights of one label, by jets where they can follow it."""
    # overflow far out is met by infinite bounds, not by warnings
    with np.errstate(all="ignore"):
        if reading.enclosures is not None:
            return folded_weights(reading, bounded_cells(reading), "bound")
        cells, how = declared_cells(reading, kinks, scale)
        out = folded_weights(reading, cells, how)
        if how == "declared":
            return out
        missed = SCAN_STEP_SIGMAS * unseen_square(reading, out.points, out.square**0.5)
        return out._replace(unseen=missed)


def _projection_jets(
    middle: np.ndarray, token: int, teacher: int, place: float, unit: float, centre: np.ndarray,
    half: np.ndarray,
) -> Series:  # fmt: skip
    """(n, L, r) jets: constants, but for the one projection that is read."""
    t = variable(place + unit * centre, unit * half).series
    L, r = middle.shape
    mid = np.zeros((2, len(centre), L, r))
    rad = np.zeros((2, len(centre), L, r))
    mid[0] = middle
    mid[:, :, token, teacher] = t.mid
    rad[:, :, token, teacher] = t.rad
    # place + unit x rounds once more
    rad[0, :, token, teacher] += 2.0**-51 * (abs(place) + unit * np.abs(centre))
    return Series(mid, rad)


def _check_reads(
    task: Any, numbers: Any, middle: np.ndarray, scales: np.ndarray, reads: np.ndarray,
    fields_at: Any, of: str,
) -> None:  # fmt: skip
    """Raise if the label changes with projections that it should not read, or with other sequences."""
    rng = np.random.default_rng(CHECK_SEED)
    first = fields_at(rng.standard_normal(CHECK_SEQUENCES))
    noise = rng.standard_normal((CHECK_SEQUENCES, *middle.shape))
    other = np.where(reads, first, middle + np.maximum(scales, 1e-3)[:, None] * noise)
    found = numbers(first)
    if not np.array_equal(found, numbers(first), equal_nan=True):
        raise Unsupported("random numbers inside the label")
    if not np.array_equal(found, numbers(other), equal_nan=True):
        raise bad("reads", of, "all projections that the label depends on", "fewer")
    if not np.array_equal(found[:, :7], numbers(first[:7]), equal_nan=True):
        raise AttnscopeError(
            f"{of} gives a sequence another label when it is evaluated together with other "
            "sequences; a label must depend on its own sequence alone."
        )
