"""Wrong numbers that were once here, put back on purpose: the stress tests must catch each of them.

A defect replaces one function of the project by what 0.1.0 did (or by the same mistake at its
present place) for the time of a `with`; `caught` runs the subjects it concerns, at the settings of
an ordinary run, until one of them objects.

    1  panels of the Wishart integral that ignore the scale 1/sqrt(c)
        6  rare errors by plain sampling
    2  the sign of a determinant that is rounding               7  fixed panels under a narrow sigma
    3  a small probability as 1 minus a large one    8  an error relative to a result that cancelled
    4  a two-sided slope at a kink                      9  overlaps of more than 1 taken as they are
    5  a softmax without its largest logit taken off
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

import attnscope as at
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals import wishart
from attnscope.numerics.integrals.quadrature import DENSITY_REACH_SIGMAS, legendre
from attnscope.numerics.integrals.refined_panels import Resolved, ScoreLaw
from attnscope.tasks.exchangeable import linear_map
from attnscope.tasks.exchangeable.topics import count_vectors
from attnscope.theory import risk
from attnscope.theory.exchangeable.representation import Atoms, cells
from attnscope.theory.law import Law
from attnscope.theory.risks import componentwise_gradient, componentwise_risk
from attnscope.theory.risks.erf_risk import erf_excess_gradient
from attnscope.theory.risks.linear_risk import linear_excess
from attnscope.theory.routes import shipped
from stress.attack import Outcome, all_subjects, attack_one, shares

__all__ = ["DEFECTS", "Defect", "caught"]

EPS = float(np.finfo(np.float64).eps)
SAMPLES = 20_000  # of plain sampling: an error of 1e-8 is never seen, with 200000 neither


class Place(NamedTuple):
    """home.name becomes wrong(home.name)."""

    home: Any
    name: str
    wrong: Callable[[Any], Any]


@dataclass(frozen=True)
class Defect:
    """kind: its number above; places: what `wrong` makes of home.name, for each; subjects:
    those that must object.
    """

    kind: int
    what: str
    places: tuple[Place, ...]
    subjects: tuple[str, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        right = [getattr(place.home, place.name) for place in self.places]
        try:
            for place, function in zip(self.places, right, strict=True):
                setattr(place.home, place.name, place.wrong(function))
            yield
        finally:
            for place, function in zip(self.places, right, strict=True):
                setattr(place.home, place.name, function)


def caught(defect: Defect, settings: int, seed: int) -> Outcome | None:
    """The first setting of a run of `settings` settings at which the planted defect shows;
    None if it stays hidden.
    """
    subjects = all_subjects()
    with defect.planted(), np.errstate(all="ignore"):
        for subject, count in zip(subjects, shares(subjects, settings), strict=True):
            for number in range(count if subject.name in defect.subjects else 0):
                outcome = attack_one(subject, number, seed)
                if outcome.trouble:
                    return outcome
    return None


def _coarse_panels(right: Any) -> Any:
    """Panels for the oscillation of the functions only,
    and 1e-11 stated whatever the integrand is.
    """

    def resolvent_trace(rows: int, columns: int, c: float) -> wishart.Trace:
        if min(rows, columns) == 0:
            return right(rows, columns, c)
        grid = wishart._singular_value_grid
        wishart._singular_value_grid = lambda rows, columns, c, phase: grid(
            rows, columns, 0.0, phase
        )
        try:
            value = (
                max(columns - rows, 0)
                + wishart._trace(rows, columns, c, wishart.PANEL_PHASES[0]).value
            )
        finally:
            wishart._singular_value_grid = grid
        return wishart.Trace(value, (1e-11 + 1e-15 * rows) * abs(value))

    return resolvent_trace


def _rounded_sign(right: Any) -> Any:
    """A determinant whose two products cancel to rounding, searched for a change of sign."""

    def block(task: Any, lam: Any) -> Any:
        first = lambda o: np.array(erf_excess_gradient(tuple(o), lam, Law.of(task)))[:5]
        oracle = np.array(at.Overlaps.oracle())
        R = first(oracle)
        H = np.array([first(oracle + 1e-30j * row).imag / 1e-30 for row in np.eye(5)])
        eta = H[1, 1] + 2 * H[1, 4] + H[4, 4] - R[0]
        the = H[2, 2] + 2 * H[2, 4] + H[4, 4] - R[3]
        cross = H[1, 2] + H[1, 4] + H[2, 4] + H[4, 4]
        return (eta * the - cross**2) / (np.abs(eta * the) + cross**2)

    def critical_inverse_temperature(task: Any) -> float:
        grid = np.geomspace(1e-3, 1e3, 121)
        values = block(task, grid)
        falls = np.flatnonzero((values[:-1] > 0) & (values[1:] <= 0))
        if falls.size == 0:
            return math.inf
        low = grid[falls[0]]
        high = grid[falls[0] + 1]
        return float(brentq(lambda lam: float(block(task, np.array(lam))), low, high))

    return critical_inverse_temperature


def _by_subtraction(right: Any) -> Any:
    """1 - E sum_z P(z | x)^2 instead of a sum of positive terms."""

    def topic_error(task: Any, length: int) -> Estimate:
        kept = 0.0
        for c in count_vectors(length, task.vocabulary, "topic_error"):
            ways = gammaln(length + 1) - gammaln(c + 1.0).sum(axis=1)
            logits = task.log_joint(c)
            possible = np.isfinite(logits.max(axis=1))
            total = logsumexp(logits[possible], axis=1, keepdims=True)
            kept += float(np.sum(np.exp(ways[possible, None] + 2 * logits[possible] - total)))
        value = max(1 - kept, 0.0)
        return estimate(value, 1e-13 * value, "enumeration of counts")

    return topic_error


def _two_sided_slope(right: Any) -> Any:
    """(sigma(h) - sigma(-h))/(2h): at a kink the mean of both slopes."""
    step = 1e-5

    def slope(predictor: Any, side: Any) -> float:
        ends = predictor.activation(np.array([-step, step]))
        return float(np.diff(ends)[0]) / (2 * step)

    return slope


def _bare_softmax(right: Any) -> Any:
    """Weights e^logit over their sum, and atoms divided by their mass:
    0/0 where the sum underflows.
    """

    def posterior_atoms(task: Any, length: int) -> Atoms:
        c = np.concatenate(list(count_vectors(length, task.vocabulary, "posterior_atoms")))
        logits = task.log_joint(c)
        c = c[np.isfinite(logits.max(axis=1))]
        joint = np.exp(logits[np.isfinite(logits.max(axis=1))])
        p = np.exp(gammaln(length + 1) - gammaln(c + 1.0).sum(axis=1)) * joint.sum(axis=1)
        post = joint / joint.sum(axis=1, keepdims=True)
        groups = cells(post)
        mass = np.bincount(groups, p)
        return Atoms(
            mass,
            np.stack([np.bincount(groups, p * column) for column in post.T], axis=1)
            / mass[:, None],
        )

    return posterior_atoms


def _plain_sampling(right: Any) -> Any:
    """The mean of min(p, 1 - p) over draws from the task itself."""

    def bayes_error(task: Any, samples: int = SAMPLES, seed: int = 0) -> Estimate:
        L = task.length
        R = task.marked
        theta = task.strength
        if not 1 < R < L:
            return right(task)
        rng = np.random.default_rng(seed)
        u = rng.standard_normal((SAMPLES, L))
        marked = rng.random(SAMPLES) < 0.5
        u[marked, :R] += theta
        log_ratio = _log_symmetric(theta * u - theta**2 / 2, R) - math.log(math.comb(L, R))
        least = np.exp(-np.logaddexp(0.0, np.abs(log_ratio)))
        return estimate(
            least.mean(), least.std(ddof=1) / SAMPLES**0.5, "Monte Carlo over min(p, 1-p)"
        )

    return bayes_error


def _log_symmetric(logs: np.ndarray, order: int) -> np.ndarray:
    """log of the elementary symmetric polynomial of e^logs over the last axis."""
    table = np.full((order + 1, len(logs)), -np.inf)
    table[0] = 0.0
    for column in logs.T:
        table[1:] = np.logaddexp(table[1:], table[:-1] + column)
    return table[order]


def _fixed_panels(right: Any) -> Any:
    """One panel per standard deviation, whatever sigma does there;
    two rules that miss a bump together agree.
    """

    def resolve(predictor: Any, law: ScoreLaw, integrands: Any) -> Resolved:
        cuts = [law.place(x) for x in predictor.kinks] if law.lam * law.sd else []
        inside = [x for x in cuts if abs(x) < DENSITY_REACH_SIGMAS]
        edges = np.unique(
            [*np.arange(-DENSITY_REACH_SIGMAS, DENSITY_REACH_SIGMAS + 1), *inside]
        )
        rules = []
        for nodes in (20, 13):
            x, w = legendre(nodes)
            g = (edges[:-1, None] + np.diff(edges)[:, None] * x).ravel()
            weight = (
                (np.diff(edges)[:, None] * w).ravel()
                * np.exp(-g * g / 2)
                / math.sqrt(2 * math.pi)
            )
            s = np.asarray(predictor.activation(law.score(g)), dtype=float)
            rules.append((g, weight, s, integrands(g, s, None)[0] @ weight))
        (g, weight, s, fine), (coarse_g, coarse_weight, _, coarse) = rules
        return Resolved(
            fine,
            np.abs(fine - coarse) + 1e-15 * np.abs(fine),
            g,
            weight,
            s,
            coarse_g,
            coarse_weight,
        )

    return resolve


def _relative_error(right: Any) -> Any:
    """A few roundings of the result, though its terms were larger."""

    def linear_excess_and_error(*args: Any) -> tuple[Any, Any]:
        excess, _ = right(*args)
        return excess, 64 * EPS * np.abs(excess)

    return linear_excess_and_error


def _unmoved_overlaps(right: Any) -> Any:
    """Overlaps that miss the possible ones by rounding are let through as they are."""

    def checked_overlaps(o: Any, task: Any, of: str) -> at.Overlaps:
        right(o, task, of)
        return at.Overlaps(*(np.array(x, dtype=float) for x in np.broadcast_arrays(*o)))

    return checked_overlaps


def _bare_linear(right: Any) -> Any:
    """The sum of the terms as it comes, below 0 or not, and a few roundings of it as the error."""

    def linear_excess_and_error(*args: Any) -> tuple[Any, Any]:
        excess = linear_excess(*args)
        return excess, 64 * EPS * excess

    return linear_excess_and_error


DEFECTS = (
    Defect(
        1,
        "panels ignore the scale",
        (Place(linear_map, "resolvent_trace", _coarse_panels),),
        ("LinearMap.bayes_risk",),
    ),
    Defect(
        2,
        "a rounded sign",
        (Place(at, "critical_inverse_temperature", _rounded_sign),),
        ("critical_inverse_temperature", "critical_inverse_temperature of one token"),
    ),
    Defect(
        3,
        "1 - p",
        (Place(at.Topics, "topic_error", _by_subtraction),),
        ("Topics.topic_error, bayes_risk",),
    ),
    Defect(
        4,
        "a two-sided slope at a kink",
        (Place(componentwise_gradient, "_one_sided_slope", _two_sided_slope),),
        ("risk_gradient at inverse temperature 0",),
    ),
    Defect(
        5,
        "a bare softmax",
        (Place(at, "posterior_atoms", _bare_softmax),),
        ("posterior_atoms, merge_costs",),
    ),
    Defect(
        6,
        "plain sampling of rare errors",
        (Place(at.SparseTokenClassification, "bayes_error", _plain_sampling),),
        ("SparseTokenClassification.bayes_error", "bayes_error of rare errors"),
    ),
    Defect(
        7,
        "fixed panels",
        (Place(componentwise_risk, "resolve", _fixed_panels),),
        ("risk(Componentwise)",),
    ),
    Defect(
        8,
        "an error relative to the result",
        (Place(shipped, "linear_excess_and_error", _relative_error),),
        ("risk(LinearAttention)", "risk of cancelling terms"),
    ),
    Defect(
        9,
        "overlaps beyond 1",
        (
            Place(risk, "checked_overlaps", _unmoved_overlaps),
            Place(shipped, "linear_excess_and_error", _bare_linear),
        ),
        ("risk at rounded overlaps",),
    ),
)
