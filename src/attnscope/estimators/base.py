"""What the two estimators share: parameters, their checks, attention, locate, save. No numerics
here.

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
    random_state  integer >= 0, or None for 0
    n_jobs        threads over cross-validation folds; None is 1, -1 all
    verbose       print a line per step
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.bags import (
    Bags,
    check_labels,
    check_weights,
    first_largest,
    given_labels,
    read_bags,
)
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.fit.data import Data, Scaling, scaling_of
from attnscope.estimators.fit.heads import Heads, fit_heads, residuals, summed
from attnscope.estimators.fit.held_out import Options, make_folds
from attnscope.estimators.fit.mixture import Answers, Fitted, bag_outputs, responsibilities
from attnscope.estimators.fit.pooled import Pooled, blended, fit_pooled
from attnscope.estimators.fit.stages import ROBUST_DOF, Selected, fit_bags
from attnscope.estimators.guard import check_finite, guarded, warn_of_extremes
from attnscope.estimators.partial_fit import fit_batches, partial_fit
from attnscope.estimators.written import write_model
from attnscope.files import whole_file
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.data_pass import SIGMOID, bag_sum

__all__ = ["Face", "NotFittedYet"]

ONE_TOKEN = (
    "(the mixture is over which one token decides; sigmoid gates let several count at once)"
)
CHOICES = {
    "gate": ("linear", "quadratic", "random-features", "auto"),
    "pooling": ("softmax", "sigmoid", "auto"),
    "loss": ("mixture", "attention", "auto"),
}


class NotFittedYet(NotFittedError, AttnscopeError):
    """Asked before fit."""


class Face(BaseEstimator):
    """Base of SingleLocationRegressor and SingleLocationClassifier."""

    def __init__(
        self,
        gate: str = "auto",
        pooling: str = "auto",
        loss: str = "auto",
        alpha: Any = "cv",
        heads: int = 1,
        n_starts: int = 8,
        robust: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.gate = gate
        self.pooling = pooling
        self.loss = loss
        self.alpha = alpha
        self.heads = heads
        self.n_starts = n_starts
        self.robust = robust
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, bags: Any, y: Any, sample_weight: Any, of: str) -> None:
        options = self._options(of)
        y, sample_weight = given_labels(bags, y, sample_weight)
        held = read_bags(bags, of)
        if self.heads > 1 and held.lengths.max() == 1:
            raise bad(
                "heads",
                of,
                "1 where every bag has one token (nothing to attend to)",
                self.heads,
            )
        if len(held) < 2:
            raise bad("bags", of, "at least two bags", f"{len(held)} bag", "more data")
        labels, family, outputs = self._labels(check_labels(y, len(held), of), of)
        weight = check_weights(sample_weight, len(held), of)
        with guarded(held.tokens, of):
            self._fit_checked(held, labels, (family, outputs), weight, options, of)

    def _fit_checked(
        self,
        held: Bags,
        labels: np.ndarray,
        kind: tuple[int, int],
        weight: np.ndarray,
        options: Options,
        of: str,
    ) -> None:
        each = np.repeat(weight, held.lengths)
        centre = held.tokens.mean(axis=0)  # squares about the mean: no cancellation
        x = held.tokens - centre
        numbers = labels if self._regression else None
        scaling = scaling_of(float(each.sum()), each @ x, each @ x**2, numbers, weight)
        scaling = scaling._replace(mean=scaling.mean + centre)
        labels = (labels - scaling.label_mean) / scaling.label_scale
        data = Data(
            scaling.tokens(held.tokens), held.offsets, labels, weight, *kind, scaling.origin
        )
        if not weight.all():
            # a bag of weight zero takes no part, not even in the folds
            data = data.take(np.flatnonzero(weight))
        warn_of_extremes(held.tokens, of)
        folds = make_folds(data, options.seed)
        pooled = fit_pooled(data, folds, options.alpha_value)
        if self.heads == 1:
            selected: Selected | Heads = fit_bags(data, folds, options, pooled)
        else:
            selected = fit_heads(data, folds, options, self.heads)
        self._keep(scaling, selected, pooled, data)
        self._stream = None
        answers = self._answers_at(data.tokens, data.offsets)
        check_finite(held.tokens, of, answers.output, answers.spread, self.cv_losses_)

    def _keep(
        self, scaling: Scaling, selected: Selected | Heads, pooled: Pooled, data: Data
    ) -> None:
        self.scaling_ = scaling
        self.fitted_, *self.other_heads_ = selected.heads
        self.mean_pool_ = pooled.fitted
        self.mean_share_ = selected.mean_share
        self.stages_ = selected.stages
        self.start_losses_ = selected.start_losses
        self.cv_losses_ = selected.held_out * scaling.label_scale**2
        self.cv_mean_pool_losses_ = pooled.losses * scaling.label_scale**2
        self.n_features_in_ = data.tokens.shape[1]

    def _options(self, of: str) -> Options:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise bad(
                    name, of, "one of " + ", ".join(map(repr, allowed)), getattr(self, name)
                )
        if self.pooling == "sigmoid" and self.loss == "mixture":
            raise bad(
                "loss",
                of,
                f'"attention" or "auto" with pooling="sigmoid" {ONE_TOKEN}',
                "mixture",
            )
        self._check_heads(of)
        auto = isinstance(self.robust, str) and self.robust == "auto"
        if not auto and not isinstance(self.robust, (bool, np.bool_)):
            raise bad("robust", of, 'True, False or "auto"', self.robust)
        if (
            isinstance(self.n_starts, bool)
            or not isinstance(self.n_starts, (int, np.integer))
            or self.n_starts < 1
        ):
            raise bad("n_starts", of, "an integer >= 1", self.n_starts)
        gate, value = self._ridges(of)
        say = print if self.verbose else (lambda line: None)
        dof = np.inf if auto or not self.robust else ROBUST_DOF
        return Options(
            self.gate,
            self.pooling,
            self.loss,
            gate,
            value,
            int(self.n_starts),
            dof,
            auto,
            self._seed(of),
            self._workers(of),
            say,
        )

    def _check_heads(self, of: str) -> None:
        if check.integer(self.heads, "heads", of, 1) == 1:
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

    def _ridges(self, of: str) -> tuple[float | None, float | None]:
        if isinstance(self.alpha, str) and self.alpha == "cv":
            return None, None
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

    def _seed(self, of: str) -> int:
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

    def _workers(self, of: str) -> int:
        jobs = 1 if self.n_jobs is None else self.n_jobs
        if isinstance(jobs, bool) or not isinstance(jobs, (int, np.integer)) or jobs == 0:
            raise bad("n_jobs", of, "None or an integer other than 0", self.n_jobs)
        return int(jobs) if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(jobs))

    # -- answers -----------------------------------------------------------------------------------

    def _read(self, bags: Any, method: str) -> Bags:
        of = f"{type(self).__name__}.{method}"
        if not hasattr(self, "fitted_"):
            raise NotFittedYet(f"{of} needs a fitted model; try fit(bags, y) first.")
        return read_bags(bags, of, self.n_features_in_)

    @property
    def _heads(self) -> list[Fitted]:
        return [self.fitted_, *getattr(self, "other_heads_", [])]

    def _answers(self, bags: Bags) -> Answers:
        return self._answers_at(self.scaling_.tokens(bags.tokens), bags.offsets)

    def _answers_at(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        """For standardised tokens."""
        own = summed(self._heads, tokens, offsets)
        share = self._mean_share
        return blended(own, self.mean_pool_.answers(tokens, offsets), share) if share else own

    @property
    def _mean_share(self) -> float:
        return getattr(self, "mean_share_", 0.0)  # partial_fit has none

    @in_pieces
    def attention(self, bags: Any, head: int | None = None) -> Any:
        """Weight of each token, summing to one in a bag: (n, L), 0 at padding; a list of (L_i,) for
        list input.

        Of one head (0-based), or averaged over the heads. The share of the prediction that is read
        from the mean token (`mean_share_`, usually 0) is spread over all tokens alike.
        """
        held = self._read(bags, "attention")
        heads = self._heads if head is None else [self._heads[self._head(head, "attention")]]
        weight = np.mean([self._weights(held, None, one) for one in heads], axis=0)
        share = self._mean_share
        return held.like_input(
            (1 - share) * weight + share / np.repeat(held.lengths, held.lengths)
        )

    @in_pieces
    def locate(self, bags: Any, y: Any = None, head: int | None = None) -> np.ndarray:
        """Position (n,) of the token that decides; with labels y, the token that most probably
        decided each of them.

        With several heads (n, heads), a column for each; or that of one head, (n,).
        """
        held = self._read(bags, "locate")
        heads = self._heads if head is None else [self._heads[self._head(head, "locate")]]
        where = [
            held.position(first_largest(self._weights(held, y, one), held)) for one in heads
        ]
        return where[0] if len(where) == 1 else np.column_stack(where)

    def _head(self, head: Any, method: str) -> int:
        return check.integer(
            head, "head", f"{type(self).__name__}.{method}", 0, len(self._heads) - 1
        )

    def _weights(self, held: Bags, y: Any, head: Fitted) -> np.ndarray:
        if y is None or head.combine == SIGMOID:
            weight = bag_outputs(head, self.scaling_.tokens(held.tokens), held.offsets)[0]
            return weight / np.repeat(
                np.maximum(bag_sum(weight, held.offsets), 1e-300), held.lengths
            )
        data = self._labelled(held, y, "locate")
        if len(self._heads) > 1:
            data = data._replace(
                labels=residuals([other for other in self._heads if other is not head], data)
            )
        return responsibilities(head, data)

    def _labelled(self, held: Bags, y: Any, method: str) -> Data:
        """Bags with labels, both standardised as in fit."""
        labels, family, outputs = self._known_labels(
            check_labels(y, len(held), f"{type(self).__name__}.{method}")
        )
        labels = (labels - self.scaling_.label_mean) / self.scaling_.label_scale
        return Data(
            self.scaling_.tokens(held.tokens),
            held.offsets,
            labels,
            np.ones(len(held)),
            family,
            outputs,
        )

    # -- out of core -------------------------------------------------------------------------------

    def partial_fit(
        self, bags: Any, y: Any, sample_weight: Any = None, pass_ends: bool = True
    ) -> Any:
        """Add a batch to the current pass over the data; `pass_ends` marks its last batch.

        Pass 1 learns the scale, pass 2 the starts, every later pass is one EM step, the same as
        with all bags in memory. O(d^2) memory.
        """
        return partial_fit(self, bags, y, sample_weight, pass_ends)

    def fit_batches(
        self, batches: Any, y: Any = None, passes: int = 20, sample_weight: Any = None
    ) -> Any:
        """EM over batches (bags, y), read `passes` times: a list, any re-iterable, a function that
        returns an iterator, or dask arrays.
        """
        return fit_batches(self, batches, y, passes, sample_weight)

    def diagnose(self, bags: Any, y: Any) -> Any:
        """What the fit looks like on these bags (best: bags it has not seen), in numbers and plain
        words; see diagnose.Diagnosis.
        """
        from attnscope.estimators.diagnose import diagnose

        return diagnose(self, bags, y)

    def save(self, path: Any) -> None:
        """Write the model to an .npz file without pickle; read it back with `load_model`."""
        if not hasattr(self, "fitted_"):
            raise NotFittedYet(
                f"save of {type(self).__name__} needs a fitted model; try fit(bags, y) first."
            )
        with whole_file(path, f"{type(self).__name__}.save") as part:
            write_model(self, part)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = False
        return tags
