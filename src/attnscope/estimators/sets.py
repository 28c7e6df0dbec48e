"""What both estimators promise of intervals, of sets of classes and of sets of tokens.

    interval="cross"   from the folds that fit holds out anyway; costs nothing, promises nothing
    interval="split"   M = max(G/4, min(19, G/2)) of the G groups, at random, are kept from the fit and
        only measure it; 19 are the fewest that reach 95 %. Promise: coverage
    interval="cv+"   ten more fits, each without a tenth of the groups (G of them where they are
        fewer than ten; a remainder of G/10 is in every fit and measures nothing). Promise:
        2 coverage - 1, less a term that vanishes with G (`promised_coverage`)

Without groups every bag is one. Formulas: fit/intervals.py. Fits of cv+ take bags in random order
and groups by random names, so that a fit is symmetric in them, as its proof asks.

Sets of tokens: let r(x, l) be the sum of the posterior weights of the tokens before l, heaviest
first. {l: r(x, l) < coverage} is the smallest set whose weights sum to coverage: 90 % by the
model's own account. With bags whose deciding token is known (`calibrate_locations`), it is {l: r(x,
l) <= q}, q from their scores r(x_i, J_i) as for "split", with its promise if none of these bags was
in fit. With interval="split" and locations given to fit, the bags kept from it do that.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
from sklearn.base import clone

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.bags import (
    Bags,
    bag_labels,
    bag_weights,
    column_names,
    given_labels,
    keep_names,
    read_bags,
)
from attnscope.estimators.bags.groups import bag_groups, take_bags, warn_of_shared_rows
from attnscope.estimators.bags.known_locations import with_locations
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.fit.intervals import (
    conformal_scores,
    fewest_groups,
    group_weights,
    interval_scale,
    plus_promise,
)
from attnscope.estimators.parameters import Parameters
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import array_of

__all__ = ["Sets", "calibration_size", "plus_folds"]

PLUS_FOLDS = 10  # of cv+
SHARE = 4  # a fourth of many groups measures; the fit keeps the rest
ENOUGH = 19  # groups that reach 95 %, taken where half of all are so many
FEWEST = 4  # groups of which some can be kept from a fit
# weights of a bag sum to one to so many digits
ROUNDING = 1e-12


def calibration_size(groups: int) -> int:
    """How many of the groups "split" keeps from the fit."""
    return max(groups // SHARE, min(ENOUGH, groups // 2))


def plus_folds(groups: int) -> tuple[int, int]:
    """How many folds cv+ makes, and of how many groups each."""
    folds = min(PLUS_FOLDS, groups)
    return folds, groups // folds


def _measuring(kind: str, groups: int) -> int:
    """How many groups are held out in all."""
    if kind == "split":
        return calibration_size(groups)
    return int(np.prod(plus_folds(groups))) if kind == "cv+" else groups


def _fewest(kind: str, coverage: float) -> int:
    """The least number of groups in fit that reach this coverage."""
    need = fewest_groups(coverage)
    return next(g for g in count(need) if _measuring(kind, g) >= need)


class Sets(Parameters):
    """Fit with a promise, and sets of tokens; base of estimators.base.BagEstimator."""

    # -- fitting -----------------------------------------------------------------------------------

    def _fit_promised(
        self, bags: Any, y: Any, sample_weight: Any, groups: Any, locations: Any, of: str
    ) -> None:
        model: Any = self
        y, sample_weight = given_labels(bags, y, sample_weight)
        bags = with_locations(self, bags, (y, sample_weight, groups), locations, of)
        self._forget()
        self.interval_ = self.interval
        if self.interval not in ("split", "cv+"):  # "cross", or what _fit refuses
            return model._fit(bags, y, sample_weight, of, groups)
        given = read_bags(bags, of, leave=column_names(y, sample_weight, groups))
        y = bag_labels(y, given, of)
        weight = bag_weights(sample_weight, given, of)
        codes = bag_groups(groups, given, of, weight)
        if groups is None:
            warn_of_shared_rows(given, weight, of)
        kept = np.flatnonzero(weight)
        codes = (np.arange(len(given)) if codes is None else codes)[kept]
        codes = np.unique(codes, return_inverse=True)[1]
        number = int(codes.max()) + 1
        if number < FEWEST:
            must = f'at least {FEWEST} groups for interval="{self.interval}"'
            raise bad("bags", of, must, f"{number}", 'interval="cross"')
        held = take_bags(given, kept)
        rng = np.random.default_rng([self._seed(of), 11])
        every = (held, y[kept], weight[kept], codes)
        order = rng.permutation(number)
        if self.interval == "split":
            self._fit_split(every, order[: calibration_size(number)], of)
        else:
            self._fit_plus(every, order, rng, of)
        keep_names(self, given)

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.startswith(("plus_", "location_"))]:
            delattr(self, name)

    def _fit_split(self, every: tuple, out: np.ndarray, of: str) -> None:
        held, y, weight, codes = every
        away = np.isin(codes, out)
        rest = np.flatnonzero(~away)
        model: Any = self
        model._fit(take_bags(held, rest), y[rest], weight[rest], of, codes[rest])
        measuring = take_bags(held, np.flatnonzero(away))
        scores = model._label_scores(measuring, y[away])
        self.conformal_scores_, self.conformal_weights_ = conformal_scores(
            scores, codes[away]
        )
        known = measuring.known
        if known is not None and (known >= 0).any():
            some = take_bags(measuring, np.flatnonzero(known >= 0))
            token = some.offsets[:-1] + known[known >= 0]
            self._keep_locations(some, token, codes[away][known >= 0])

    def _fit_plus(
        self, every: tuple, order: np.ndarray, rng: np.random.Generator, of: str
    ) -> None:
        held, y, weight, codes = every
        model: Any = self
        model._fit(held, y, weight, of, codes)
        folds, size = plus_folds(len(order))
        part = np.full(len(order), -1)  # -1: a remainder, in every fit
        part[order[: folds * size]] = np.repeat(np.arange(folds), size)
        of_bag = part[codes]
        self.plus_models_ = []
        scores = np.zeros(len(y))
        for fold in range(folds):
            rest = rng.permutation(np.flatnonzero(of_bag != fold))
            own = clone(self).set_params(interval="cross", verbose=False)
            if self.max_seconds is not None:
                own.set_params(max_seconds=self.max_seconds / folds)
            names = rng.permutation(len(order))
            own._fit(take_bags(held, rest), y[rest], weight[rest], of, names[codes[rest]])
            out = np.flatnonzero(of_bag == fold)
            scores[out] = own._label_scores(take_bags(held, out), y[out])
            self.plus_models_.append(own)
        measured = of_bag >= 0
        self.plus_fold_ = of_bag[measured]
        self.plus_scores_ = scores[measured]
        self.plus_weights_ = group_weights(codes[measured], int(measured.sum()))

    # -- promises ----------------------------------------------------------------------------------

    def promised_coverage(self, coverage: float = 0.9) -> float:
        """How often, at least, intervals or sets asked for with this coverage hold the label of a
        bag from a new group (without groups: of a new bag), if groups are exchangeable: averaged
        over the draw of the data, not for every fit.

        0 for "cross", coverage for "split", about 2 coverage - 1 for "cv+" (exactly:
        fit/intervals.py). Refused where the fit has too few groups for this coverage.
        """
        coverage = self._reachable(coverage, "promised_coverage")
        if self._kind == "cross":
            return 0.0
        if self._kind == "split":
            return coverage
        folds = len(self.plus_models_)
        return plus_promise(round(float(self.plus_weights_.sum())), folds, coverage)

    def _reachable(self, coverage: Any, method: str) -> float:
        """The coverage, if the held-out groups are enough for it."""
        name = type(self).__name__
        of = f"{name}.{method}"
        coverage = check.real(coverage, "coverage", of, 0, 1, strict=True)
        plus = hasattr(self, "plus_models_")
        if not plus and not hasattr(self, "conformal_scores_"):
            got = "partial_fit, which holds no bags out"
            raise bad(method, name, "called on a model fitted by fit", got)
        if plus and coverage < 0.5:
            must = 'at least 0.5 with interval="cv+" (it promises 2 coverage - 1)'
            raise bad("coverage", of, must, coverage, "coverage=0.9")
        weight = self.plus_weights_ if plus else self._conformal_weights
        held = round(float(weight.sum()))
        if fewest_groups(coverage) > held:
            what = "bag" if (weight == 1).all() else "group"
            must = (
                f"at most {held}/{held + 1} with {held} held-out {what}s; "
                f'interval="{self._kind}" needs a fit on at least '
                f"{_fewest(self._kind, coverage)} {what}s for it"
            )
            raise bad("coverage", of, must, coverage)
        return coverage

    @property
    def _kind(self) -> str:
        """As the model was fitted; files from before had no other."""
        return getattr(self, "interval_", "cross")

    @property
    def _conformal_weights(self) -> np.ndarray:
        """Files from before groups have none: every bag counts once."""
        return getattr(self, "conformal_weights_", np.ones(len(self.conformal_scores_)))

    def _scale(self, coverage: float) -> float:
        return interval_scale(self.conformal_scores_, self._conformal_weights, coverage)

    # -- tokens ------------------------------------------------------------------------------------

    @in_pieces
    def locate_set(self, bags: Any, coverage: float = 0.9, head: int | None = None) -> Any:
        """The tokens among which the deciding one is with this probability, True in (n, L), False
        at padding; a list of (L_i,) for list input. The heaviest token is always among them.

        By the model's own account (the fewest tokens whose posterior weights sum to coverage), or,
        after `calibrate_locations` or fit(locations=...) with interval="split", as often as in bags
        whose deciding token is known: then `location_scores_` exists.
        """
        model: Any = self
        held = model._read(bags, "locate_set")
        of = f"{type(self).__name__}.locate_set"
        coverage = check.real(coverage, "coverage", of, 0, 1, strict=True)
        if head is None and len(model._heads) > 1:
            must = f"one of the {len(model._heads)} heads"
            raise bad("head", of, must, None, "head=0")
        at = 0 if head is None else model._head(head, "locate_set")
        before = _before(model._weights(held, None, model._heads[at]), held)
        if not hasattr(self, "location_scores_"):
            return _as_given(before < coverage * (1 - ROUNDING), held)
        known = round(float(self.location_weights_.sum()))
        if fewest_groups(coverage) > known:
            must = (
                f"at most {known}/{known + 1} with {known} known locations; it needs at least "
                f"{fewest_groups(coverage)}"
            )
            raise bad("coverage", of, must, coverage)
        most = interval_scale(self.location_scores_, self.location_weights_, coverage)
        return _as_given(before <= most + ROUNDING, held)

    def calibrate_locations(self, bags: Any, locations: Any, groups: Any = None) -> Any:
        """From bags whose deciding token is known, locations (n,) counted from 0, make `locate_set`
        hold it as often as asked. The promise is that of "split", 1 - a for a bag of a new group,
        if none of these bags was in fit; with bags of the fit the sets are too small.
        """
        model: Any = self
        held = model._read(bags, "calibrate_locations")
        of = f"{type(self).__name__}.calibrate_locations"
        if len(model._heads) > 1:
            raise bad("heads", of, "1 (each head has a token of its own)", len(model._heads))
        token = _flat_location(locations, held, of)
        self._keep_locations(held, token, bag_groups(groups, held, of))
        return self

    def _keep_locations(
        self, held: Bags, token: np.ndarray, codes: np.ndarray | None
    ) -> None:
        """Scores of bags whose deciding tokens are these of all tokens."""
        model: Any = self
        before = _before(model._weights(held, None, model.fitted_), held)
        self.location_scores_, self.location_weights_ = conformal_scores(before[token], codes)


def _before(weight: np.ndarray, held: Bags) -> np.ndarray:
    """For each token (N,) the sum of the weights of the tokens before it in its bag, heaviest
    first, in order of position where weights are equal.
    """
    bag = np.repeat(np.arange(len(held)), held.lengths)
    order = np.lexsort((-weight, bag))
    before = np.empty(len(weight))
    for first, last in zip(held.offsets[:-1], held.offsets[1:]):
        rows = order[first:last]
        before[rows[0]] = 0.0
        before[rows[1:]] = np.cumsum(weight[rows[:-1]])
    return before


def _as_given(inside: np.ndarray, held: Bags) -> Any:
    out = held.like_input(inside)
    return out if isinstance(out, list) else out.astype(bool)


def _flat_location(locations: Any, held: Bags, of: str) -> np.ndarray:
    """Numbers of the deciding tokens among all (n,), from positions in the bags as given."""
    n = len(held)
    where = array_of(locations, "locations", of, f"{n} whole numbers, one token of each bag")
    if where.shape != (n,) or where.dtype.kind not in "iu":
        got = f"shape {where.shape} of {where.dtype}"
        raise bad("locations", of, f"{n} whole numbers, one token of each bag", got)
    longest = held.lengths if held.mask is None else np.full(n, held.mask.shape[1])
    wrong = (where < 0) | (where >= longest)
    if held.mask is not None and not wrong.any():
        wrong = ~held.mask[np.arange(n), where]
    if wrong.any():
        bag = int(np.argmax(wrong))
        raise AttnscopeError(
            f"locations of {of} must be tokens of their bags, counted from 0, got "
            f"{int(where[bag])} in bag {bag}."
        )
    if held.mask is not None:
        where = np.cumsum(held.mask, axis=1)[np.arange(n), where] - 1
    return held.offsets[:-1] + where
