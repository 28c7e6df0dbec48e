"""Runs of several heads on several directions, read off their Gram matrices.

notation: m = 2H trained vectors p = (k_1, v_1, ..., k_H, v_H), r = 2F teachers (k_1*, v_1*, ...), n
= m + r, G (n, n) their Gram matrix.

Everything is read off G. Beside the overlaps of single vectors there are two quantities that do not
depend on how the heads share the work. A head whose weights are nearly linear in its score sees
tokens through x^T S x alone, S = sum_h sym(k_h v_h^T), and any rotation of the heads that keeps S,
or the exchange of k and v, is the same predictor. Hence

    form cosine   <S, S*>/(|S||S*|),   <sym(k v^T), sym(p q^T)> = [(k.p)(v.q) + (k.q)(v.p)]/2,
        S* = sum_f sym(k_f* v_f*^T)
    span          mean over the trained vectors of |projection on the span of the teachers|^2/|p|^2

For erf heads report these and the risk; overlaps of single heads are not informative there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from attnscope.dynamics.engines.engine import GramEngine, State
from attnscope.dynamics.engines.engine_table import heads_engine
from attnscope.dynamics.loop import continued
from attnscope.dynamics.outcome_table import Ends, ends_of, over_steps
from attnscope.dynamics.setup import HeadSetup
from attnscope.dynamics.trajectory_base import Runs
from attnscope.figures.figure import Figure, Panel
from attnscope.figures.outcomes import BANDS, by_outcome
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.theory.risks.multi_head_risk import heads_excess

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HeadOverlaps", "HeadTrajectory"]

# a head counts as aligned with a direction from here on (41 degrees): a vector halfway between two
# is with neither
HEAD_ALIGNED_COSINE = 0.75
ROTATED_FORM_COSINE = (
    0.95  # form cosine from which a run that has no head per direction counts as rotated
)
# squared norm from which a run counts as diverged: its risk still fits in float64
DIVERGED_SQUARED_NORM = 1e12
RISK_SAMPLES_PER_LOG = 2000  # of the risk at every log point; risk_at takes more


class HeadOverlaps(NamedTuple):
    """Cosines (runs, logs, H, F): kappa of k_h and k_f*, eta of k_h and v_f*,
    theta of v_h and k_f*, nu of v_h and v_f*.
    """

    kappa: np.ndarray
    eta: np.ndarray
    theta: np.ndarray
    nu: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class HeadTrajectory(Runs):
    """Runs of several heads side by side.

    Attributes:
        setup: the task, the predictor and the settings of `train`.
        step: (logs,) 0, log_every, ..., always ending with the last step.
        gram: (runs, logs, n, n) Gram matrices of (k_1, v_1, ..., k_1*, v_1*, ...); a diverged run
            repeats its last one before.
        inverse_temperature: (logs,).
        diverged_at: (runs,) the step after which a run was no longer finite or had a norm above
            10^6, or -1.
        state: what the engine needs to go on.

    >>> import attnscope as at
    >>> task = at.MultiDirection(dim=20, length=5)
    >>> numbers = dict(steps=10, log_every=5, runs=2, step_size=0.01, batch_size=10)
    >>> run = at.train(task, at.MultiHead(at.Erf(0.1)), **numbers)
    >>> type(run).__name__, run.step, run.gram.shape
    ('HeadTrajectory', array([ 0,  5, 10]), (2, 3, 8, 8))
    """

    setup: HeadSetup
    step: np.ndarray
    gram: np.ndarray
    inverse_temperature: np.ndarray
    diverged_at: np.ndarray
    state: State

    SETUP: ClassVar[type] = HeadSetup
    LOGGED: ClassVar[str] = "gram"
    LOGS: ClassVar[int] = 1

    @property
    def heads(self) -> int:
        return self.setup.predictor.heads

    @cached_property
    def norms(self) -> np.ndarray:
        """(runs, logs, 2H): |k_1|, |v_1|, ...; 1 on spheres."""
        return np.sqrt(np.diagonal(self.gram, axis1=2, axis2=3)[..., : 2 * self.heads])

    @cached_property
    def overlaps(self) -> HeadOverlaps:
        """Cosines of heads and teachers, (runs, logs, H, F) each."""
        m = 2 * self.heads
        c = self.gram[:, :, :m, m:] / np.maximum(self.norms, 1e-300)[..., None]
        return HeadOverlaps(
            c[:, :, 0::2, 0::2], c[:, :, 0::2, 1::2], c[:, :, 1::2, 0::2], c[:, :, 1::2, 1::2]
        )

    @cached_property
    def form_cosine(self) -> np.ndarray:
        """(runs, logs): cosine of sum_h sym(k_h v_h^T) with the teachers' form;
        what the heads learn together, however they share it.
        """
        m = 2 * self.heads
        inner = lambda a, b: _form_product(self.gram[:, :, a, b])
        trained = slice(0, m)
        star = slice(m, None)
        size = np.sqrt(np.maximum(inner(trained, trained) * inner(star, star), 1e-300))
        return inner(trained, star) / size

    @cached_property
    def span(self) -> np.ndarray:
        """(runs, logs): mean squared share of the trained vectors inside the span of the
        teachers.
        """
        m = 2 * self.heads
        inverse = np.linalg.pinv(self.setup.task.teacher_gram, hermitian=True)
        cross = self.gram[:, :, :m, m:]
        inside = np.einsum("rlai,ij,rlaj->rla", cross, inverse, cross, optimize=True)
        return (inside / np.maximum(self.norms**2, 1e-300)).mean(2)

    def risk_at(self, log: int = -1, samples: int = 20_000, seed: int = 0) -> Estimate:
        """Risk of every run at a log point, (runs,), with its error: quadrature for erf and smooth
        heads, else Monte Carlo over scores.
        """
        log = check.integer(log, "log", "risk_at", -len(self.step), len(self.step) - 1)
        n = check.integer(samples, "samples", "risk_at", 2)
        seed = check.seed_value(seed, "risk_at")
        lam = float(self.inverse_temperature[log])
        found = heads_excess(
            self.setup.task, self.setup.predictor, self.gram[:, log], lam, n, seed
        )
        return estimate(*found, self.setup.task.noise)

    @cached_property
    def excess(self) -> np.ndarray:
        """Risk over noise^2, (runs, logs), at the running inverse temperature; Monte Carlo with
        2000 samples where there is no quadrature.
        """
        return np.stack(
            [self.risk_at(i, RISK_SAMPLES_PER_LOG).excess for i in range(len(self.step))],
            axis=1,
        )

    @cached_property
    def outcome(self) -> np.ndarray:
        """(runs,) where the runs ended.

        "specialised": every direction has a head of its own, k_h along k_f* and v_h along v_f*
        (cosine >= .75); "swapped": the same with the roles of k and v exchanged in at least one
        head; "rotated": neither, but the form cosine is >= .95 (componentwise heads); "diverged";
        "unspecialised": anything else.
        """
        o = HeadOverlaps(*(x[:, -1] for x in self.overlaps))
        # (k, v) and (-k, -v) may then be the same head
        odd = self.setup.predictor.head.componentwise
        plain = _serves_direction(o.kappa, o.nu, odd)
        swapped = _serves_direction(o.eta, o.theta, odd)
        rotated = odd & (self.form_cosine[:, -1] >= ROTATED_FORM_COSINE)
        names = np.where(rotated, "rotated", "unspecialised")
        names = np.where(_has_head_per_direction(plain | swapped), "swapped", names)
        names = np.where(_has_head_per_direction(plain), "specialised", names)
        return np.where(self.diverged_at >= 0, "diverged", names)

    def to_frame(self) -> pd.DataFrame:
        """One row per run and logged step: run, step, inverse temperature, form_cosine, span, and
        the cosines kappa_11 (head, direction), ...
        """
        values = {"form_cosine": self.form_cosine, "span": self.span}
        for name, x in self.overlaps._asdict().items():
            for h, f in np.ndindex(x.shape[2:]):
                values[f"{name}_{h + 1}{f + 1}"] = x[:, :, h, f]
        return self._frame(values)

    def figure(self) -> Figure:
        """Excess risk, form cosine, span and the best head's alignment per direction: medians by
        outcome with the central 95 %.
        """
        # the worse served direction
        best = np.abs(self.overlaps.kappa * self.overlaps.nu).max(2).min(2)
        quantities = (
            ("excess risk", "excess risk", self.excess, True),
            ("form cosine", "cosine with the teachers' form", self.form_cosine, False),
            ("inside the span of the teachers", "mean squared share", self.span, False),
            ("worse served direction", "|kappa nu| of its best head", best, False),
        )
        panels = [
            Panel(
                title,
                "step",
                label,
                by_outcome(self.step, values, self.outcome),
                log_y=log,
                y_range=None if log else (-0.05, 1.05),
            )
            for title, label, values, log in quantities
        ]
        return Figure(
            f"{self.setup.predictor!r}, {self.runs} runs ({BANDS})",
            tuple(panels),
            columns=2,
        )

    def ends(self) -> Ends:
        """Excess risk and what the heads know together, at the last log point, by outcome."""
        values = {"excess": self.risk_at(-1).excess}
        values |= {"form cosine": self.form_cosine[:, -1], "span": self.span[:, -1]}
        return ends_of(self.outcome, values)

    def _card_panels(self) -> list[Panel]:
        """Form cosine and span over the steps."""
        values = {"form cosine": self.form_cosine, "span": self.span}
        return [over_steps(self.step, x, self.outcome, name) for name, x in values.items()]

    def extend(self, steps: int, progress: bool = True) -> HeadTrajectory:
        """A new run that goes `steps` further, bit for bit that of an uninterrupted one."""
        return continued(self, heads_engine, steps, progress)

    @staticmethod
    def read(engine: Any, state: State) -> np.ndarray:
        """Gram matrices (runs, n, n)."""
        machine: GramEngine = engine
        return machine.gram(state)

    @staticmethod
    def lost(read: np.ndarray) -> np.ndarray:
        """(runs,) not finite, or too long."""
        return ~(np.abs(read).max((1, 2)) <= DIVERGED_SQUARED_NORM)  # so that NaN is lost

    @staticmethod
    def held(read: np.ndarray, before: np.ndarray, lost: np.ndarray) -> np.ndarray:
        """What is logged: the last entry again where a run is lost."""
        return np.where(lost[:, None, None], before, read)


def _form_product(cross: np.ndarray) -> np.ndarray:
    """Inner product of two sums of sym(k v^T) from the inner products (..., 2a, 2b)
    of their vectors.
    """
    kk, kv, vk, vv = (cross[..., i::2, j::2] for i in (0, 1) for j in (0, 1))
    return (kk * vv + kv * vk).sum((-1, -2)) / 2


def _serves_direction(a: np.ndarray, b: np.ndarray, odd: bool) -> np.ndarray:
    """(runs, H, F) whether head h serves direction f: both cosines large and positive, or of one
    sign if the head is odd.
    """
    large = (np.abs(a) >= HEAD_ALIGNED_COSINE) & (np.abs(b) >= HEAD_ALIGNED_COSINE)
    return large & ((a * b > 0) if odd else ((a > 0) & (b > 0)))


def _has_head_per_direction(serves: np.ndarray) -> np.ndarray:
    """(runs,) whether different heads serve all directions."""
    matched = [
        serves[r][linear_sum_assignment(serves[r], maximize=True)] for r in range(len(serves))
    ]
    return np.array([pairs.sum() == serves.shape[2] for pairs in matched])
