"""Intervals, sets of classes and sets of tokens, with their guarantees.

    interval="cross"   from the folds that fit holds out anyway; free of cost, without a guarantee
    interval="split"   M = max(G/4, min(19, G/2)) of the G groups, at random, are held out from the
        fit and calibrate it; 19 is the smallest number that reaches 95 %. Guarantee: coverage
    interval="cv+"   ten more fits, each without a tenth of the groups (G fits if there are fewer than
        ten groups; a remainder of G/10 is in every fit and calibrates nothing). Guarantee:
        2 coverage - 1, minus a term that vanishes with G (`promised_coverage`)

Without groups every bag is a group. Formulas: fit/intervals.py. The fits of cv+ take bags in random
order and groups by random names, so that a fit is symmetric in them, as its proof requires.

Sets of tokens: let r(x, l) be the sum of the posterior weights of the tokens before l, in order of
decreasing weight. {l: r(x, l) < coverage} is the smallest set whose weights sum to coverage: 90 %
according to the model. With bags whose deciding token is known (`calibrate_locations`), it is
{l: r(x, l) <= q}, with q from their scores r(x_i, J_i) as for "split". The guarantee of "split"
holds if none of these bags was in fit. With interval="split" and locations given to fit, the
held-out bags are used for this.
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
    plus_guarantee,
)
from attnscope.estimators.parameters import Parameters
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import array_of

__all__ = ["Sets", "calibration_size", "plus_folds"]

PLUS_FOLD_COUNT = 10  # of cv+
GROUPS_PER_MEASURING_GROUP = 4  # of many groups a fourth calibrates, the rest is fitted
GROUPS_FOR_95_PERCENT = 19  # used if half of all groups are at least this many
MIN_GROUP_COUNT = 4  # with fewer groups none can be held out
# rounding error of the sum of a bag's weights
WEIGHT_ROUNDING = 1e-12


def calibration_size(groups: int) -> int:
    """The number of groups that "split" holds out from the fit."""
    return max(groups // GROUPS_PER_MEASURING_GROUP, min(GROUPS_FOR_95_PERCENT, groups // 2))


def plus_folds(groups: int) -> tuple[int, int]:
    """The number of folds of cv+, and the number of groups in each."""
    folds = min(PLUS_FOLD_COUNT, groups)
    return folds, groups // folds


def _measuring_groups(kind: str, groups: int) -> int:
    """The number of groups that are held out in total."""
    if kind == "split":
        return calibration_size(groups)
    return int(np.prod(plus_folds(groups))) if kind == "cv+" else groups


def _groups_needed(coverage: float, of: str) -> int:
    """The fewest held-out groups that guarantee the coverage; no number guarantees 1."""
    if coverage == 1:
        must = "below 1, because no number of bags guarantees all of them"
        raise bad("coverage", of, must, coverage, "coverage=0.9")
    return fewest_groups(coverage)


def _min_fit_groups(kind: str, coverage: float) -> int:
    """The smallest number of groups in fit that reaches this coverage."""
    need = fewest_groups(coverage)
    return next(g for g in count(need) if _measuring_groups(kind, g) >= need)


class Sets(Parameters):
    """Fits with a coverage guarantee, and sets of tokens; base of estimators.base.BagEstimator."""

    # -- fitting -----------------------------------------------------------------------------------

    def _fit_with_interval(
        self, bags: Any, y: Any, sample_weight: Any, groups: Any, locations: Any, of: str
    ) -> None:
        model: Any = self
        y, sample_weight = given_labels(bags, y, sample_weight)
        bags = with_locations(self, bags, (y, sample_weight, groups), locations, of)
        self._forget_sets()
        self.interval_ = self.interval
        if self.interval not in ("split", "cv+"):  # "cross", or what _fit_model refuses
            return model._fit_model(bags, y, sample_weight, of, groups)
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
        if number < MIN_GROUP_COUNT:
            must = f'at least {MIN_GROUP_COUNT} groups for interval="{self.interval}"'
            raise bad("bags", of, must, f"{number}", 'interval="cross"')
        held = take_bags(given, kept)
        rng = np.random.default_rng([self._integer_seed(of), 11])
        every = (held, y[kept], weight[kept], codes)
        order = rng.permutation(number)
        if self.interval == "split":
            self._fit_split(every, order[: calibration_size(number)], of)
        else:
            self._fit_plus(every, order, rng, of)
        keep_names(self, given)

    def _forget_sets(self) -> None:
        for name in [name for name in vars(self) if name.startswith(("plus_", "location_"))]:
            delattr(self, name)

    def _fit_split(self, every: tuple, out: np.ndarray, of: str) -> None:
        held, y, weight, codes = every
        away = np.isin(codes, out)
        rest = np.flatnonzero(~away)
        model: Any = self
        model._fit_model(take_bags(held, rest), y[rest], weight[rest], of, codes[rest])
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
        model._fit_model(held, y, weight, of, codes)
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
            own._fit_model(
                take_bags(held, rest), y[rest], weight[rest], of, names[codes[rest]]
            )
            out = np.flatnonzero(of_bag == fold)
            scores[out] = own._label_scores(take_bags(held, out), y[out])
            self.plus_models_.append(own)
        measured = of_bag >= 0
        self.plus_fold_ = of_bag[measured]
        self.plus_scores_ = scores[measured]
        self.plus_weights_ = group_weights(codes[measured], int(measured.sum()))

    # -- guarantees --------------------------------------------------------------------------------

    def promised_coverage(self, coverage: float = 0.9) -> float:
        """How often, at least, intervals or sets asked for with this coverage hold the label of a
        bag from a new group (without groups: of a new bag), if groups are exchangeable: averaged
        over the draw of the data, not for every fit.

        0 for "cross", coverage for "split", about 2 coverage - 1 for "cv+" (exactly:
        fit/intervals.py). Refused where the fit has too few groups for this coverage.
        """
        coverage = self._check_coverage(coverage, "promised_coverage")
        if self._interval_kind == "cross":
            return 0.0
        if self._interval_kind == "split":
            return coverage
        folds = len(self.plus_models_)
        return plus_guarantee(round(float(self.plus_weights_.sum())), folds, coverage)

    def _check_coverage(self, coverage: Any, method: str) -> float:
        """The coverage, refused if there are too few held-out groups for it."""
        name = type(self).__name__
        of = f"{name}.{method}"
        coverage = check.real(coverage, "coverage", of, 0, 1, strict=True)
        plus = hasattr(self, "plus_models_")
        if not plus and not hasattr(self, "conformal_scores_"):
            got = "partial_fit, which holds no bags out"
            raise bad(method, name, "called on a model fitted by fit", got)
        if plus and coverage < 0.5:
            must = 'at least 0.5 with interval="cv+" (it guarantees 2 coverage - 1)'
            raise bad("coverage", of, must, coverage, "coverage=0.9")
        weight = self.plus_weights_ if plus else self._conformal_weights
        held = round(float(weight.sum()))
        if _groups_needed(coverage, of) > held:
            what = "bag" if (weight == 1).all() else "group"
            must = (
                f"at most {held}/{held + 1} with {held} held-out {what}s; "
                f'interval="{self._interval_kind}" needs a fit on at least '
                f"{_min_fit_groups(self._interval_kind, coverage)} {what}s for it"
            )
            raise bad("coverage", of, must, coverage)
        return coverage

    @property
    def _interval_kind(self) -> str:
        """The interval kind of the fit; older files have "cross" only."""
        return getattr(self, "interval_", "cross")

    @property
    def _conformal_weights(self) -> np.ndarray:
        """Weights of the scores; in older files every bag counts once."""
        return getattr(self, "conformal_weights_", np.ones(len(self.conformal_scores_)))

    def _interval_scale(self, coverage: float) -> float:
        return interval_scale(self.conformal_scores_, self._conformal_weights, coverage)

    # -- tokens ------------------------------------------------------------------------------------

    @in_pieces
    def locate_set(self, bags: Any, coverage: float = 0.9, head: int | None = None) -> Any:
        """The tokens among which the deciding one is with this probability, True in (n, L), False
        at padding; a list of (L_i,) for list input. The heaviest token is always among them.

        By default these are the fewest tokens whose posterior weights sum to coverage. After
        `calibrate_locations` or fit(locations=...) with interval="split" the set is calibrated on
        bags whose deciding token is known: then `location_scores_` exists.
        """
        model: Any = self
        held = model._read_bags(bags, "locate_set")
        of = f"{type(self).__name__}.locate_set"
        coverage = check.real(coverage, "coverage", of, 0, 1, strict=True)
        if head is None and len(model._all_heads) > 1:
            must = f"one of the {len(model._all_heads)} heads"
            raise bad("head", of, must, None, "head=0")
        at = 0 if head is None else model._check_head(head, "locate_set")
        before = _weight_before(model._token_weights(held, None, model._all_heads[at]), held)
        if not hasattr(self, "location_scores_"):
            return _as_token_mask(before < coverage * (1 - WEIGHT_ROUNDING), held)
        known = round(float(self.location_weights_.sum()))
        if _groups_needed(coverage, of) > known:
            must = (
                f"at most {known}/{known + 1} with {known} known locations; it needs at least "
                f"{fewest_groups(coverage)}"
            )
            raise bad("coverage", of, must, coverage)
        most = interval_scale(self.location_scores_, self.location_weights_, coverage)
        return _as_token_mask(before <= most + WEIGHT_ROUNDING, held)

    def calibrate_locations(self, bags: Any, locations: Any, groups: Any = None) -> Any:
        """Calibrate `locate_set` on bags whose deciding token is known, locations (n,) counted from
        0. The guarantee is that of "split", 1 - a for a bag of a new group, if none of these bags
        was in fit; with bags of the fit the sets are too small.
        """
        model: Any = self
        held = model._read_bags(bags, "calibrate_locations")
        of = f"{type(self).__name__}.calibrate_locations"
        if len(model._all_heads) > 1:
            raise bad(
                "heads", of, "1 (each head has a token of its own)", len(model._all_heads)
            )
        token = _flat_location(locations, held, of)
        self._keep_locations(held, token, bag_groups(groups, held, of))
        return self

    def _keep_locations(
        self, held: Bags, token: np.ndarray, codes: np.ndarray | None
    ) -> None:
        """Keep the scores of bags whose deciding tokens have these numbers among all tokens."""
        model: Any = self
        before = _weight_before(model._token_weights(held, None, model.fitted_), held)
        self.location_scores_, self.location_weights_ = conformal_scores(before[token], codes)


def _weight_before(weight: np.ndarray, held: Bags) -> np.ndarray:
    """For each token (N,) the sum of the weights of the tokens before it in its bag, in order of
    decreasing weight, and by location where weights are equal.
    """
    bag = np.repeat(np.arange(len(held)), held.lengths)
    order = np.lexsort((-weight, bag))
    before = np.empty(len(weight))
    for first, last in zip(held.offsets[:-1], held.offsets[1:]):
        rows = order[first:last]
        before[rows[0]] = 0.0
        before[rows[1:]] = np.cumsum(weight[rows[:-1]])
    return before


def _as_token_mask(inside: np.ndarray, held: Bags) -> Any:
    out = held.like_input(inside)
    return out if isinstance(out, list) else out.astype(bool)


def _flat_location(locations: Any, held: Bags, of: str) -> np.ndarray:
    """Numbers of the deciding tokens among all tokens (n,), from their locations in the given bags."""
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
