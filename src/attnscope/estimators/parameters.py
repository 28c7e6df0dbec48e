"""The parameters of both estimators, and their checks.

Parameters of both (see docs/estimators.md for when to change one):
    gate   "linear", "quadratic" (adds |x|^2), "random-features" or "auto" (quadratic, random
        features where they help)
    pooling   "softmax" (weights sum to one), "sigmoid" (several tokens may count) or "auto" (and a
        share for the mean token where it helps)
    loss        "mixture" (one token decides), "attention" (error of the weighted average) or "auto"
    alpha   "cv", or the ridge: one number, or (gate, value); infinity for the gate keeps the EM
        score
    heads   number of deciding tokens per bag, each with its own gate and values, whose values add
        up (more than 1: numbers only, EM)
    n_starts      number of starting points
    robust   Student-t tokens (5 degrees of freedom) instead of Gaussian ones: True, False or "auto"
        (where tails are heavy and it helps)
    components   "auto" (how many of the tokens' widest directions to fit in, by held-out loss;
        all of them up to 64 features), a number of directions, or None (all features, at any cost)
    max_seconds   wall time after which no further model is tried and the best so far is fitted, with
        its held-out losses; None: no limit
    random_state  integer >= 0, or None for 0
    n_jobs        threads over cross-validation folds; None is 1, -1 all
    verbose       print a line per step
    assumption   "single" (one token decides), "witness" (two classes; tokens are evidence for the
        second only) or "auto" (by the rule of fit/readings.py for labels 0 and 1, else "single")
    class_weight   classes only: None, "balanced" (every class has the same total weight) or a mapping
        (or pairs) of classes to factors of their bags' weights; 1 for classes it does not name
    interval   how intervals and sets of classes are calibrated: "cross" (no guarantee), "split"
        (some groups are held out from the fit) or "cv+" (ten more fits); see sets.py
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from attnscope.errors import bad
from attnscope.estimators.fit.clock import Clock
from attnscope.estimators.fit.held_out import Options
from attnscope.estimators.fit.stages import ROBUST_DOF
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import refuse_lost

__all__ = ["Parameters"]

# heads are fitted together, and the time grows with the square of their number: this many take hours
MAX_HEAD_COUNT = 64
MAX_START_COUNT = (
    100_000  # starting points are held in memory together; dozens find what there is
)
MAX_WORKER_COUNT = 4096  # threads; no machine has more processors
MIXTURE_NOTE = (
    "(the mixture is over which one token decides; sigmoid gates let several count at once)"
)
PARAMETER_CHOICES = {
    "gate": ("linear", "quadratic", "random-features", "auto"),
    "pooling": ("softmax", "sigmoid", "auto"),
    "loss": ("mixture", "attention", "auto"),
    "assumption": ("single", "witness", "auto"),
    "interval": ("cross", "split", "cv+"),
}


class Parameters(BaseEstimator):
    """The parameters of the estimators."""

    _regression: bool

    def __init__(
        self,
        gate: str = "auto",
        pooling: str = "auto",
        loss: str = "auto",
        alpha: Any = "cv",
        heads: int = 1,
        n_starts: int = 8,
        robust: bool | str = "auto",
        components: str | int | None = "auto",
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        assumption: str = "auto",
        class_weight: Any = None,
        interval: str = "cross",
    ) -> None:
        self.gate = gate
        self.pooling = pooling
        self.loss = loss
        self.alpha = alpha
        self.heads = heads
        self.n_starts = n_starts
        self.robust = robust
        self.components = components
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.assumption = assumption
        self.class_weight = class_weight
        self.interval = interval

    def _fit_options(self, of: str) -> Options:
        for name, allowed in PARAMETER_CHOICES.items():
            if getattr(self, name) not in allowed:
                raise bad(
                    name, of, "one of " + ", ".join(map(repr, allowed)), getattr(self, name)
                )
        if self.pooling == "sigmoid" and self.loss == "mixture":
            raise bad(
                "loss",
                of,
                f'"attention" or "auto" with pooling="sigmoid" {MIXTURE_NOTE}',
                "mixture",
            )
        if self.assumption == "witness" and self._regression:
            raise bad("assumption", of, '"single" or "auto" for numbers', "witness")
        if self.class_weight is not None and self._regression:
            raise bad("class_weight", of, "None for numbers", self.class_weight)
        self._check_heads(of)
        auto = isinstance(self.robust, str) and self.robust == "auto"
        if not auto and not isinstance(self.robust, (bool, np.bool_)):
            raise bad("robust", of, 'True, False or "auto"', self.robust)
        starts = check.integer(self.n_starts, "n_starts", of, 1, MAX_START_COUNT)
        self._check_components(of)
        limit = self._time_limit(of)
        gate, value = self._ridge_pair(of)
        say = print if self.verbose else (lambda line: None)
        dof = np.inf if auto or not self.robust else ROBUST_DOF
        return Options(
            self.gate,
            self.pooling,
            self.loss,
            gate,
            value,
            starts,
            dof,
            auto,
            self._integer_seed(of),
            self._worker_count(of),
            say,
            Clock(limit, say),
        )

    def _check_components(self, of: str) -> None:
        k = self.components
        if k is None or (isinstance(k, str) and k == "auto"):
            return
        if isinstance(k, (bool, str)) or not isinstance(k, (int, np.integer)) or k < 1:
            raise bad("components", of, '"auto", None or an integer >= 1', k, "components=64")

    def _time_limit(self, of: str) -> float | None:
        if self.max_seconds is None:
            return None
        limit = check.real(self.max_seconds, "max_seconds", of, 0, strict=True)
        if self.heads > 1:
            raise bad(
                "max_seconds",
                of,
                "None with several heads (they are fitted together, none before the others)",
                self.max_seconds,
            )
        return limit

    def _check_heads(self, of: str) -> None:
        if check.integer(self.heads, "heads", of, 1, MAX_HEAD_COUNT) == 1:
            return
        if not self._regression:
            raise bad(
                "heads",
                of,
                "1 for classes (only numbers are sums of heads)",
                self.heads,
                'pooling="sigmoid"',
            )
        for name, plain in (
            ("gate", ("linear", "quadratic", "auto")),
            ("pooling", ("softmax", "auto")),
        ):
            if getattr(self, name) not in plain:
                raise bad(
                    name,
                    of,
                    "one of " + ", ".join(map(repr, plain)) + " with several heads",
                    getattr(self, name),
                )
        if self.loss == "attention":
            raise bad("loss", of, "'mixture' or 'auto' with several heads", self.loss)

    def _ridge_pair(self, of: str) -> tuple[float | None, float | None]:
        if isinstance(self.alpha, str) and self.alpha == "cv":
            return None, None
        refuse_lost(self.alpha, "alpha", of)
        try:
            ridges = np.asarray(self.alpha, dtype=float)
            gate, value = np.broadcast_to(ridges, 2) if ridges.size == 1 else ridges
        except (TypeError, ValueError):
            raise bad(
                "alpha", of, '"cv", a number or a pair (gate, value)', self.alpha
            ) from None
        if not (gate >= 0 and 0 <= value < np.inf):
            raise bad("alpha", of, ">= 0, and finite for the value", self.alpha, 'alpha="cv"')
        return float(gate), float(value)

    def _integer_seed(self, of: str) -> int:
        try:
            if self.random_state is None or isinstance(self.random_state, (int, np.integer)):
                return int(
                    np.random.SeedSequence(int(self.random_state or 0)).generate_state(1)[0]
                )
            return int(check_random_state(self.random_state).randint(2**31))
        except ValueError:
            raise bad(
                "random_state",
                of,
                "None, an integer >= 0 or a RandomState",
                self.random_state,
            ) from None

    def _worker_count(self, of: str) -> int:
        jobs = 1 if self.n_jobs is None else self.n_jobs
        if isinstance(jobs, bool) or not isinstance(jobs, (int, np.integer)) or jobs == 0:
            raise bad("n_jobs", of, "None or an integer other than 0", self.n_jobs)
        if jobs > MAX_WORKER_COUNT:
            raise bad(
                "n_jobs", of, f"an integer <= {MAX_WORKER_COUNT}", self.n_jobs, "n_jobs=-1"
            )
        return int(jobs) if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(jobs))

    def _class_weights(self, labels: np.ndarray, weight: np.ndarray, of: str) -> np.ndarray:
        """Bag weights (n,), times class weights if there are classes."""
        return weight
