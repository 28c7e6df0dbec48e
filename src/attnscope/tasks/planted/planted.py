"""A planted task from its definition: hidden directions, a latent, tokens around them, a label.

notation: d = dim, L = length, T (r, d) the unit teachers, G* = T T^T, z what is latent.

    z ~ latent,     X_l = sum_j means_lj(z) T_j + scales_l(z) N(0, I_d),     independent given z,
    Y = label(X T^T, z) + noise N(0, 1)     or     P(Y = classes_c | X, z) = likelihood_c(X T^T, z).

Everything else follows. A token's projections on any vectors are Gaussian given z, with the Gram
matrix of these vectors as covariance (tasks/base.py), so `projections` needs no vector of length d.
Where z has finitely many values (`latents`), Bayes' formula is a sum (enumeration.py). Exact: the
laws; the risks that follow from them are theory/nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, Signature, get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.semidefinite import semidefinite_root
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.planted import enumeration
from attnscope.tasks.planted.definition_checks import (
    checked_classes,
    checked_gram,
    checked_kinks,
    checked_label,
    checked_latents,
    checked_names,
    checked_own,
    checked_rows,
    checked_scale,
    of_method,
)
from attnscope.tasks.sampling import Drawn, Sampled

__all__ = ["Planted", "PlantedBatch"]

TEACHER_STREAM = (
    0x7EAC4E  # separates the random stream of the directions from those of the data
)
# arguments of the base class; every annotated class attribute with a default adds one
BASE_ARGUMENTS = ("dim", "length", "noise", "seed")


class PlantedBatch(NamedTuple):
    """Sequences of a planted task, with what was drawn.

    Attributes:
        tokens: (n, L, d).
        target: (n,) or (n, o).
        latent: (n, ...).

    >>> import attnscope as at
    >>> import numpy as np
    >>> batch = at.PlantedBatch(np.zeros((4, 3, 2)), np.zeros(4), np.zeros(4, dtype=int))
    >>> batch.tokens.shape, batch.target.shape, batch.latent.shape
    ((4, 3, 2), (4,), (4,))
    """

    tokens: np.ndarray
    target: np.ndarray
    latent: np.ndarray


class Planted(Sampled[Drawn], Generic[Drawn]):
    """Base class of planted tasks; define your own task as a subclass with a few methods.

    A subclass defines, as class attributes,

        teachers = ("key", "value")     names of its r directions, read as task.key, ...
        teacher_gram = [[1, c], [c, 1]]     their inner products; orthonormal if left out
        signal: float = 2.0             arguments of its own, annotated and with a default
        classes = (-1, 1)               the label's values, where a likelihood draws it
        loss = "squared"                or "logistic", or a method loss(output, label)

    and, in methods that work on n sequences at once,

        latents() -> (values, probabilities)        where finite: m values and how likely they are
        latent(n, rng) -> (n, ...)                  how z is drawn; from `latents` if left out
        means(latent) -> (n, L, r)                  coefficients of the tokens' means
        scales(latent) -> (n, L)                    standard deviations; 1 if left out
        label(fields, latent, rng) -> (n,)          from the projections (n, L, r) on the teachers
        likelihood(fields, latent) -> (n, classes)  instead of `label`: probabilities of the classes
        exact_risk(predictor, overlaps)             (excess, error), or None where you know none

    Risks of a squared loss are known to a bound where the label is written with NumPy functions that
    attnscope can enclose. Where it cannot, a subclass may describe its label further:

        reads(latent) -> (n, L, r) bool     which projections the label depends on
        kinks = (0.0, 1.0)                  where the label or its slope jumps, in what it reads
        scale = 1e-3                        the width of its narrowest feature, in what it reads

    Args:
        dim, length: d and L.
        noise: standard deviation of the label's noise.
        seed: of the directions, which are made when they are asked for.
        own: arguments of the subclass, by name.

    >>> class Shifted(Planted):
    ...     '''The first token is shifted along the key; its value is the label.'''
    ...     teachers = ("key", "value")
    ...     shift: float = 1.0
    ...     def latents(self):
    ...         return np.array([0]), np.array([1.0])
    ...     def means(self, latent):
    ...         out = np.zeros((len(latent), self.length, 2))
    ...         out[:, 0, 0] = self.shift
    ...         return out
    ...     def label(self, fields, latent, rng):
    ...         return fields[:, 0, 1]
    >>> task = Shifted(dim=50, length=2, shift=3.0)
    >>> task, task.sample(4).tokens.shape, bool(abs(task.key @ task.value) < 1e-12)
    (Shifted(dim=50, length=2, noise=0, seed=0, shift=3), (4, 2, 50), True)
    """

    teacher_names: ClassVar[tuple[str, ...]] = ()
    given_gram: ClassVar[np.ndarray | None] = None
    classes: ClassVar[Sequence[float] | None] = None
    own: ClassVar[Mapping[str, Any]] = {}  # arguments of the subclass, with their defaults
    loss: Any = "squared"
    exact_risk: Any = None
    latents: Any = None
    likelihood: Any = None
    reads: Any = None
    kinks: Any = ()
    scale: Any = None
    judged_by_sign: ClassVar[bool] = (
        False  # a risk is the mean loss, not the share of wrong signs
    )
    noise: float
    seed: int

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        said = cls.__dict__
        of = cls.__name__
        if "teachers" in said and not isinstance(
            said["teachers"], (property, cached_property)
        ):
            cls.teacher_names = checked_names(said["teachers"], of)
            del cls.teachers
            for row, name in enumerate(cls.teacher_names):
                if not hasattr(cls, name):
                    setattr(cls, name, property(_teacher_getter(row)))
        if "teacher_gram" in said and not isinstance(
            said["teacher_gram"], (property, cached_property)
        ):
            cls.given_gram = checked_gram(said["teacher_gram"], of, len(cls.teacher_names))
            del cls.teacher_gram
        if "classes" in said and said["classes"] is not None:
            cls.classes = checked_classes(said["classes"], of)
        if "kinks" in said and "kinks" not in get_annotations(cls):
            cls.kinks = checked_kinks(said["kinks"], of)
        if said.get("scale") is not None and "scale" not in get_annotations(cls):
            cls.scale = checked_scale(said["scale"], of)
        if cls.__init__ is Planted.__init__:
            named = get_annotations(cls)
            mine = {name: said[name] for name in named if name in said}
            cls.own = {**cls.own, **checked_own(mine, of)}
            cls.__signature__ = _init_signature(cls.own)  # type: ignore[attr-defined]
        else:
            cls.__signature__ = None  # type: ignore[attr-defined]  # that of its own __init__

    def __init__(
        self, dim: int, length: int, noise: float = 0.0, seed: int = 0, **own: Any
    ) -> None:
        of = type(self).__name__
        for name in own:
            if name not in self.own:
                known = ", ".join((*BASE_ARGUMENTS, *self.own))
                raise bad("an argument", of, f"one of {known}", name)
        if not self.teacher_names:
            hint = 'teachers = ("key", "value") in the class'
            raise bad("teachers", of, "names of one or more directions", "none", hint)
        self.dim = check.integer(dim, "dim", of, max(2, len(self.teacher_names)))
        self.length = check.integer(length, "length", of, 1)
        self.noise = check.real(noise, "noise", of, 0)
        self.seed = check.seed_value(seed, of)
        for name, value in checked_own({**self.own, **own}, of).items():
            setattr(self, name, value)
        checked_gram(self.teacher_gram, of, len(self.teacher_names))

    def __repr__(self) -> str:
        names = (*BASE_ARGUMENTS, *self.own)
        shown = (
            f"{name}={_short_repr(getattr(self, name))}" for name in dict.fromkeys(names)
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    # -- the definition, which a subclass writes ---------------------------------------------------

    def latent(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws of the latent; from `latents`, unless a subclass overrides this method."""
        values, probabilities = self.enumerated("latent")
        return values[drawn_places(probabilities, n, rng)]

    def means(self, latent: np.ndarray, /) -> np.ndarray:
        """(n, L, r) coefficients of the tokens' means on the teachers."""
        hint = "def means(self, latent)"
        raise bad("means", type(self).__name__, "a method of the class", "none", hint)

    def scales(self, latent: np.ndarray, /) -> np.ndarray:
        """(n, L) standard deviations of the tokens in every direction."""
        return np.ones((len(latent), self.length))

    def label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator, /
    ) -> np.ndarray:
        """(n,) or (n, o): the label without its noise, from projections (n, L, r) on teachers."""
        if self.likelihood is None or self.classes is None:
            hint = "classes = (-1, 1) and a method likelihood(fields, latent)"
            raise bad("label", type(self).__name__, "a method of the class", "none", hint)
        chances = self.class_chances(fields, latent)
        below = np.cumsum(chances, axis=1) <= rng.random(len(fields))[:, None]
        # the last class also takes what rounding of the sum leaves
        return np.asarray(self.classes)[np.minimum(below.sum(1), len(self.classes) - 1)]

    # -- the same, checked -------------------------------------------------------------------------

    def enumerated(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """The latent's values (m, ...) and their probabilities (m,), or an error that names
        the calling method.
        """
        if self.latents is None:
            must = "a task with finitely many latents"
            hint = "a method latents() that returns values and probabilities"
            raise bad("task", of_method(self, method), must, type(self).__name__, hint)
        return checked_latents(self.latents(), of_method(self, "latents"))

    def drawn_latent(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """`latent`, checked."""
        return checked_rows(self.latent(n, rng), of_method(self, "latent"), "latent", (n,))

    def token_law(self, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`means` and `scales`, checked: (n, L, r) and (n, L)."""
        shape = (len(latent), self.length, len(self.teacher_gram))
        means = checked_rows(
            self.means(latent), of_method(self, "means"), "means", shape, True
        )
        scales = checked_rows(
            self.scales(latent), of_method(self, "scales"), "scales", shape[:2], True
        )
        if (scales < 0).any():
            got = f"{float(scales.min()):.6g}"
            raise bad("scales", of_method(self, "scales"), "numbers >= 0", got)
        return means, scales

    def checked_label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """`label`, checked: finite, (n,) or (n, o)."""
        return checked_label(
            self.label(fields, latent, rng), of_method(self, "label"), len(fields)
        )

    def class_chances(self, fields: np.ndarray, latent: np.ndarray) -> np.ndarray:
        """`likelihood`, checked: (n, classes), rows that sum to 1."""
        of = of_method(self, "likelihood")
        shape = (len(fields), len(self.classes or ()))
        found = checked_rows(self.likelihood(fields, latent), of, "likelihood", shape, True)
        # user's sums may round; more than this is not rounding
        if (found < 0).any() or np.abs(found.sum(1) - 1).max() > 1e-9:
            got = f"a row that sums to {float(found.sum(1)[np.abs(found.sum(1) - 1).argmax()]):.6g}"
            raise bad("likelihood", of, "probabilities that sum to 1 over the classes", got)
        return found

    # -- what follows ------------------------------------------------------------------------------

    if TYPE_CHECKING:  # a subclass may set either to names or numbers
        teacher_gram: Any
        teachers: Any
    else:

        @cached_property
        def teacher_gram(self) -> np.ndarray:
            """(r, r) inner products of the teachers."""
            return (
                np.eye(len(self.teacher_names))
                if self.given_gram is None
                else self.given_gram
            )

        @cached_property
        def teachers(self) -> np.ndarray:
            """(r, d): unit vectors with the given inner products, uniform otherwise; from `seed`."""
            r = len(self.teacher_gram)
            check.fits_in_memory(
                2 * r * self.dim,
                8,
                "teachers",
                type(self).__name__,
                "risks, which need no vectors",
            )
            x = np.random.default_rng([self.seed, TEACHER_STREAM]).standard_normal(
                (self.dim, r)
            )
            axes = np.linalg.qr(x)[0].T
            return semidefinite_root(self.teacher_gram) @ axes

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py)."""
        latent = self.drawn_latent(n, rng)
        means, scales = self.token_law(latent)
        fields = gaussian_fields(means, scales, gram, rng)
        own_fields = fields[:, :, fields.shape[2] - means.shape[2] :]
        return Projections(
            fields, self.checked_label(own_fields, latent, rng), latent, scales
        )

    projections.defines = True  # type: ignore[attr-defined]  # they follow from the methods above

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Any:
        latent = self.drawn_latent(n, rng)
        means, scales = self.token_law(latent)
        tokens = np.empty((n, self.length, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        fields = np.empty(means.shape)
        # rows worked on at a time: a few MB of working set, whatever n
        block = max(1, (1 << 18) // (self.dim * self.length))
        for i in range(0, n, block):
            rows = slice(i, i + block)
            tokens[rows] = tokens[rows] * scales[rows, :, None] + means[rows] @ self.teachers
            # the label of the tokens as stored
            fields[rows] = tokens[rows].astype(np.float64) @ self.teachers.T
        target = self.checked_label(fields, latent, rng)
        return PlantedBatch(
            tokens, target + self.noise * rng.standard_normal(target.shape), latent
        )

    # -- inference, where the latent is finite -----------------------------------------------------

    # of any type, because a task with more than enumeration may take other arguments
    posterior: Any = enumeration.posterior
    bayes_predict: Any = enumeration.bayes_predict
    bayes_risk: Any = enumeration.bayes_risk
    null_risk: Any = enumeration.null_risk


def drawn_places(probabilities: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n,) indices with these probabilities."""
    # rounding of the sum must not select a place beyond the last possible one
    last = int(np.flatnonzero(probabilities)[-1])
    return np.minimum(
        np.searchsorted(np.cumsum(probabilities), rng.random(n), side="right"), last
    )


def _teacher_getter(row: int) -> Callable[[Any], np.ndarray]:
    def teacher(self: Any) -> np.ndarray:
        """A unit vector (d,), one of the teachers."""
        return self.teachers[row]

    return teacher


def _init_signature(own: Mapping[str, Any]) -> Signature:
    """dim, length, noise, seed, and the subclass's own; those with a default after those without."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    defaults: dict[str, Any] = {"dim": Parameter.empty, "length": Parameter.empty}
    defaults |= {"noise": 0.0, "seed": 0} | dict(own)
    ordered = sorted(defaults, key=lambda name: defaults[name] is not Parameter.empty)
    return Signature([Parameter(name, kind, default=defaults[name]) for name in ordered])


def _short_repr(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else repr(x)
