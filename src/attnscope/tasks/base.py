"""What a task is: the contract that risk, training, the command line, studies and the explorer rely
on. What follows from a task's class alone is found once per class and cached.

notation: V vectors = the students' (trained) vectors first, the task's r teachers last; G (V, V)
their Gram matrix.

A planted task is known through the law of its tokens' projections: a predictor sees a token only
through inner products with its own vectors, the label only depends on those with the teachers.
`projections(n, gram, rng)` draws them for n sequences, without a vector of length dim. Given the
latent variables, token l of a sequence is

    X_l ~ N(sum_t means_lt T_t, scales_l^2 I_d),

T_t the teachers; so its projections are means @ G[teachers] + scales G^(1/2) z, and what lies
outside the span of the V vectors is scales_l N(0, I), independent of the projections: this is what
makes training exact in law in any dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar, cast

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.estimate import Estimate
from attnscope.numerics.semidefinite import semidefinite_root

__all__ = [
    "PlantedTask",
    "Projections",
    "Task",
    "checked_law",
    "gaussian_fields",
    "has_classes",
    "has_law",
    "has_value_by_class",
    "is_defined",
    "is_planted",
    "is_planted_class",
    "laws",
    "laws_of_class",
    "one_hot_means",
    "per_class",
    "perpendicular",
    "recipe",
    "sampler_of",
    "standardised",
]


T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Kinds = type[T] | tuple[type[T], ...]

# the methods that determine how tokens and labels are drawn; all but the first belong to a
# definition (planted/planted.py)
LAW_METHODS = (
    "projections",
    "latent",
    "latents",
    "means",
    "scales",
    "label",
    "likelihood",
    "classes",
)


class Projections(NamedTuple):
    """n sequences, as far as V vectors can see them.

    fields: (n, L, V) the tokens' inner products with the vectors; 0 on padding.
    label: (n,) the label without its noise.
    latent: (n, ...) what the task's batches call location, relevant, ...
    scales: (n, L) a token's standard deviation in every direction, given the latent.
    mask: (n, L), True = real token, where lengths differ; else None.
    unit: the label's unit: risks are unit^2 times those of (label, fields).
    """

    fields: np.ndarray
    label: np.ndarray
    latent: np.ndarray
    scales: np.ndarray
    mask: np.ndarray | None = None
    unit: float = 1.0


class Task(Protocol):
    """What every task has."""

    @property
    def noise(self) -> float:
        """Standard deviation of the label noise."""

    def sample(self, n: int, seed: int = 0, dtype: str = "float64") -> Any:
        """n sequences: a tuple of tokens (n, L, d), target (n,)
        and what else the task knows of them.
        """

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """The law of the latent variable given the tokens."""

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X]."""

    def bayes_risk(self) -> Estimate:
        """E Var(Y | X): no predictor has less."""


class PlantedTask(Protocol):
    """A task whose tokens are Gaussian around combinations of hidden directions, the teachers.

    Arrays that tasks make on first use are Any here: type checkers do not take a cached property for
    an array.
    """

    @property
    def dim(self) -> int:
        """Dimension d of the tokens."""

    @property
    def length(self) -> int:
        """Number L of tokens."""

    @property
    def noise(self) -> float:
        """Standard deviation of the label noise."""

    @property
    def teachers(self) -> Any:
        """(r, dim): the hidden directions; made on first use, where vectors are wanted."""

    @property
    def teacher_gram(self) -> Any:
        """(r, r) inner products of the teachers: k_1*, v_1*, k_2*, v_2*, ...;
        one alone where the task has no value.
        """

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """Draw n sequences as far as the vectors of `gram` (students, then teachers)
        can see them.
        """


def per_class(function: Function) -> Function:
    """`functools.cache` for functions of classes; mypy does not accept type(x) as hashable there."""
    return cast(Function, cache(function))


@per_class
def is_planted_class(kind: type) -> bool:
    """Whether tasks of this class have projections. (Not by isinstance: that would look at
    `teachers`, and make vectors of length dim.)
    """
    return callable(getattr(kind, "projections", None))


def is_planted(task: object) -> bool:
    """Whether the task has projections."""
    return is_planted_class(type(task))


@per_class
def has_value_by_class(kind: type) -> bool:
    """Whether the class alone determines that its tasks are planted and judged by a loss, not by
    wrong signs; `has_classes` decides for the tasks of other classes.
    """
    return is_planted_class(kind) and getattr(kind, "judged_by_sign", None) is False


def has_classes(task: object) -> bool:
    """Whether heads are judged by wrong signs: a planted task without a value, unless the task has
    an attribute `judged_by_sign`.
    """
    if has_value_by_class(type(task)) or not is_planted_class(type(task)):
        return False
    by_sign = getattr(task, "judged_by_sign", None)
    return len(task.teacher_gram) < 2 if by_sign is None else by_sign  # type: ignore[attr-defined]


def is_defined(task: object) -> bool:
    """Whether the task's projections follow from latent, means, scales and label
    (planted/planted.py).
    """
    return getattr(getattr(type(task), "projections", None), "defines", False)


@per_class
def laws_of_class(kind: type) -> tuple[type, ...]:
    """The class and those of its bases whose tasks draw tokens and labels by the same methods, most
    special first.

    A subclass that draws its projections anew, or redefines one of the methods behind them, has
    left the law of its base: what is derived for the base does not hold for it.
    """

    def methods(base: type) -> list[Any]:
        return [getattr(base, name, None) for name in LAW_METHODS]

    own = methods(kind)
    return tuple(base for base in kind.__mro__ if own[0] is None or methods(base) == own)


def laws(task: object) -> tuple[type, ...]:
    """The classes of a task whose tokens have its own law, most special first."""
    return laws_of_class(type(task))


def has_law(task: object, kind: type[T]) -> TypeGuard[T]:
    """Whether what is derived for tasks of this class holds for the task."""
    return kind in laws_of_class(type(task))


def checked_law(task: object, kinds: Kinds[T], of: str, sibling: str) -> T:
    """The task, if what `of` computes is derived for its law, or one sentence."""
    asked = kinds if isinstance(kinds, tuple) else (kinds,)
    for kind in asked:
        if has_law(task, kind):
            return task
    left = [kind.__name__ for kind in asked if isinstance(task, kind)]
    got = f"{type(task).__name__}, a {left[0]} with a law of its own" if left else task
    raise bad("task", of, " or ".join(f"a {kind.__name__}" for kind in asked), got, sibling)


def standardised(task: Any, batch: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Tokens, labels and mask of a batch in the coordinates that heads act on: those of the task's
    method `standardised` (whitened, say), else unchanged.
    """
    tokens, label = task.standardised(batch) if hasattr(task, "standardised") else batch[:2]
    return tokens, label, getattr(batch, "mask", None)


def sampler_of(task: object, of: str) -> Callable[[int, np.random.Generator, np.dtype], Any]:
    """The function (n, rng, dtype) -> batch behind `sample`: the one method `_draw` that a task
    writes to have its tokens drawn.
    """
    sampler = getattr(task, "_draw", None)
    if not callable(sampler):
        must = "one that draws tokens, by a method _draw(n, rng, dtype)"
        raise bad("task", of, must, task, 'engine="reduced", which needs projections alone')
    return sampler


def recipe(task: object) -> dict[str, Any]:
    """The arguments that rebuild a task: `type(task)(**recipe(task))`.

    An argument is the attribute of its name; where the task draws on first use (key, value, ...)
    the attribute with an underscore holds what it was given. Arguments without an attribute are
    those that others replace.
    """
    names = list(signature(type(task)).parameters)
    held = vars(task)
    found = {
        name: held[f"_{name}"] if f"_{name}" in held else getattr(task, name, None)
        for name in names
    }
    return {name: value for name, value in found.items() if value is not None}


def gaussian_fields(
    means: np.ndarray, scales: np.ndarray, gram: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(n, L, V) projections of tokens with mean coefficients (n, L, r)
    on the teachers and standard deviations (n, L).
    """
    teachers = gram[len(gram) - means.shape[2] :]
    noise = rng.standard_normal((*scales.shape, len(gram))) @ semidefinite_root(gram).T
    return means @ teachers + scales[:, :, None] * noise


def one_hot_means(
    location: np.ndarray, length: int, teachers: int, which: Any, size: Any
) -> np.ndarray:
    """(n, L, r): zero, but `size` on teacher `which` at each sequence's location (n,)."""
    means = np.zeros((len(location), length, teachers))
    means[np.arange(len(location)), location, which] = size
    return means


def perpendicular(task: Any, of: str) -> None:
    """One sentence where k* and v* are not orthogonal."""
    if task.alignment != 0:
        got = f"key.value = {task.alignment:.6g}"
        must = "one with key perpendicular to value"
        raise bad("task", of, must, got, "a task with drawn key and value")
