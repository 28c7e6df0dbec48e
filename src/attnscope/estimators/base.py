"""The common part of the two estimators: fit, attention, locate, save. No numerics here; parameters of
both: parameters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import (
    Bags,
    bag_labels,
    bag_weights,
    column_names,
    first_largest,
    given_labels,
    keep_names,
    read_bags,
)
from attnscope.estimators.bags.groups import bag_groups, warn_of_shared_rows
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.finite_fit import (
    NotFittedYet,
    check_finite,
    finite_arithmetic,
    warn_of_extremes,
)
from attnscope.estimators.fit.clock import (
    ASSUMED_MULTIPLY_ADDS_PER_SECOND,
    QUIET_SECONDS,
    em_work,
)
from attnscope.estimators.fit.data import Data, Scaling, scaling_of
from attnscope.estimators.fit.evidence import evidence_of
from attnscope.estimators.fit.heads import Heads, fit_heads, residuals, sum_of_heads
from attnscope.estimators.fit.held_out import Fold, Options, make_folds
from attnscope.estimators.fit.mixture import Answers, Fitted, bag_outputs, responsibilities
from attnscope.estimators.fit.pooled import Pooled, add_baselines, fit_pooled
from attnscope.estimators.fit.stacking import BASELINES
from attnscope.estimators.fit.stages import Selected, fit_bags
from attnscope.estimators.fit.widths import (
    NARROW_FEATURES,
    PIECE_BYTES,
    Chosen,
    fit_in_directions,
    is_wide,
    raw_bags,
)
from attnscope.estimators.fit.witness_space import View, whole_view, witness_view
from attnscope.estimators.html_repr import HtmlRepr
from attnscope.estimators.model_file.write import write_model
from attnscope.estimators.partial_fit import fit_batches, partial_fit
from attnscope.estimators.per_token import PerToken
from attnscope.estimators.sets import Sets
from attnscope.files import whole_file
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.data_pass import SIGMOID, bag_sum
from attnscope.progress import progress

__all__ = ["BagEstimator"]


class BagEstimator(HtmlRepr, PerToken, Sets):
    """Base of SingleLocationRegressor and SingleLocationClassifier."""

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        bags: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        locations: Any = None,
    ) -> Self:
        """Choose and fit by cross-validation; an earlier fit is discarded.

        Args:
            bags: (n, L, d), or any other form (docs/estimators.md).
            y: (n,) their labels; None where the bags carry them (`open_bags`, a table).
            sample_weight: (n,) >= 0, of the bags; 0 leaves a bag out.
            groups: (n,) bags of one group (patient, image) are held out together or not at all, and
                each group counts once in intervals and sets.
            locations: (n,) the deciding token's location where it is known, -1 elsewhere; EM then
                uses it, and no stage after EM is tried.
        """
        of = f"{type(self).__name__}.fit"
        self._fit_with_interval(bags, y, sample_weight, groups, locations, of)
        return self

    def _fit_model(
        self, bags: Any, y: Any, sample_weight: Any, of: str, groups: Any = None
    ) -> None:
        options = self._fit_options(of)
        y, sample_weight = given_labels(bags, y, sample_weight)
        held = read_bags(bags, of, leave=column_names(y, sample_weight, groups))
        if self.heads > 1 and held.lengths.max() == 1:
            raise bad(
                "heads",
                of,
                "1 where every bag has one token (nothing to attend to)",
                self.heads,
            )
        if len(held) < 2:
            raise bad("bags", of, "at least two bags", f"{len(held)} bag", "more data")
        labels, family, outputs = self._encode_labels(bag_labels(y, held, of), of)
        weight = self._class_weights(labels, bag_weights(sample_weight, held, of), of)
        if held.known is not None:
            options = options._replace(alpha_gate=np.inf)  # EM only: known_locations.py
        codes = bag_groups(groups, held, of, weight)
        if groups is None:
            warn_of_shared_rows(held, weight, of)
        # a progress bar if the fit may take seconds and prints no lines
        work = em_work(len(held.tokens), min(held.tokens.shape[1], NARROW_FEATURES))
        quiet = bool(self.verbose) or work < QUIET_SECONDS * ASSUMED_MULTIPLY_ADDS_PER_SECOND
        with finite_arithmetic(held.tokens, of), progress(100, "fit", disable=quiet) as bar:
            options.clock.show = lambda stage, done: bar.show(stage, round(100 * done))
            self._fit_read_bags(held, labels, (family, outputs), weight, codes, options, of)
        keep_names(self, held)

    def _fit_read_bags(
        self,
        held: Bags,
        labels: np.ndarray,
        kind: tuple[int, int],
        weight: np.ndarray,
        codes: np.ndarray | None,
        options: Options,
        of: str,
    ) -> None:
        warn_of_extremes(held.tokens, of)
        # bags of one token leave no token to choose: the model is that of the mean token
        if is_wide(self.components, held.tokens.shape[1]) and held.lengths.max() > 1:
            self._fit_wide(held, labels, kind, weight, codes, options)
        else:
            self._fit_whole(held, labels, kind, weight, codes, options)
        self._stream = None
        answers = self._bag_answers(held)
        check_finite(held.tokens, of, answers.output, answers.spread, self.cv_losses_)

    def _fit_whole(
        self,
        held: Bags,
        labels: np.ndarray,
        kind: tuple[int, int],
        weight: np.ndarray,
        codes: np.ndarray | None,
        options: Options,
    ) -> None:
        """Fit with every feature."""
        each = np.repeat(weight, held.lengths)
        centre = held.tokens.mean(axis=0)  # squares about the mean do not cancel
        x = held.tokens - centre
        numbers = labels if self._regression else None
        scaling = scaling_of(float(each.sum()), each @ x, each @ x**2, numbers, weight)
        scaling = scaling._replace(mean=scaling.mean + centre)
        labels = (labels - scaling.label_mean) / scaling.label_scale
        data = Data(
            scaling.tokens(held.tokens),
            held.offsets,
            labels,
            weight,
            *kind,
            scaling.origin,
            codes,
            held.known,
        )
        if not weight.all():
            # a bag of weight zero is ignored, also in the folds
            data = data.take(np.flatnonzero(weight))
        folds = make_folds(data, options.seed)
        options.clock.plan(em_work(*data.tokens.shape))
        options.clock.stage("the mean token")
        pooled = fit_pooled(data, folds, options.alpha_value)
        options.clock.stage("EM", em_work(*data.tokens.shape))
        if self.heads == 1:
            single = lambda: Chosen(fit_bags(data, folds, options, pooled), None, {})
            look = lambda: whole_view(data)
            chosen = self._select_fit(look, folds, options, pooled, single)
        else:
            chosen = Chosen(fit_heads(data, folds, options, self.heads), None, {})
        self._keep_fit(scaling, chosen.selected, pooled, data)
        self._keep_components(chosen.components, chosen.losses)

    def _fit_wide(
        self,
        held: Bags,
        labels: np.ndarray,
        kind: tuple[int, int],
        weight: np.ndarray,
        codes: np.ndarray | None,
        options: Options,
    ) -> None:
        """Fit in the tokens' widest directions."""
        raw = Data(held.tokens, held.offsets, labels, weight, *kind, None, codes, held.known)
        if not weight.all():
            raw = raw.take(np.flatnonzero(weight))
        bags = raw_bags(*raw[:4], kind, self._regression)
        outline = bags.outline._replace(groups=raw.groups, known=raw.known)
        bags = bags._replace(outline=outline)
        folds = make_folds(bags.outline, options.seed)
        options.clock.stage("the mean token")
        pooled = fit_pooled(bags.outline, folds, options.alpha_value)
        options = options._replace(stop_without_token=True)
        components = self.components
        assert components is not None
        heads = self.heads
        single = partial(fit_in_directions, bags, folds, options, pooled, components, heads)
        look = partial(witness_view, bags, folds, options, components)
        chosen = self._select_fit(look, folds, options, pooled, single)
        self._keep_fit(bags.scaling, chosen.selected, pooled, bags.outline)
        self._keep_components(chosen.components, chosen.losses)

    def _select_fit(
        self,
        look: Callable[[], View],
        folds: list[Fold],
        options: Options,
        pooled: Pooled,
        single: Callable[[], Chosen],
    ) -> Chosen:
        """The fit to keep. Here it is the fit of one deciding token."""
        return single()

    def _keep_components(self, size: int | None, losses: dict[str, float]) -> None:
        """Keep the number of directions (None: every feature), and the held-out losses of EM by
        number of directions, in units of the labels.
        """
        self.components_ = size
        unit = self.scaling_.label_scale**2
        self.component_losses_ = {name: loss * unit for name, loss in losses.items()}

    def _keep_fit(
        self, scaling: Scaling, selected: Selected | Heads, pooled: Pooled, data: Data
    ) -> None:
        self.scaling_ = scaling
        self.fitted_, *self.other_heads_ = selected.heads
        self.mean_pool_ = pooled.fitted
        self.mean_share_ = selected.mean_share
        taken = {name: own for name, *own in getattr(selected, "baselines", ())}
        for name in list(BASELINES)[1:]:  # the mean token is kept already
            share, pool = taken.get(name, (0.0, None))
            setattr(self, f"{name}_share_", share)
            setattr(self, f"{name}_pool_", pool)
        self.stages_ = selected.stages
        self.start_losses_ = selected.start_losses
        self.cv_losses_ = selected.held_out * scaling.label_scale**2
        self.cv_mean_pool_losses_ = pooled.losses * scaling.label_scale**2
        self.evidence_ = evidence_of(selected, pooled, data)
        self.n_features_in_ = data.tokens.shape[1]

    # -- answers -----------------------------------------------------------------------------------

    def _read_bags(self, bags: Any, method: str) -> Bags:
        of = f"{type(self).__name__}.{method}"
        if not hasattr(self, "fitted_"):
            raise NotFittedYet(f"{of} needs a fitted model; try fit(bags, y) first.")
        names = getattr(self, "feature_names_in_", None)
        return read_bags(bags, of, self.n_features_in_, one=True, features=names)

    @property
    def _all_heads(self) -> list[Fitted]:
        return [self.fitted_, *getattr(self, "other_heads_", [])]

    def _bag_answers(self, bags: Bags) -> Answers:
        parts = [
            self._standardised_answers(*piece) for piece in self._standardised_pieces(bags)
        ]
        return parts[0] if len(parts) == 1 else Answers(*map(np.concatenate, zip(*parts)))

    def _standardised_pieces(self, bags: Bags) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Tokens and offsets of bags in pieces of at most PIECE_BYTES bytes."""
        rows = max(1, PIECE_BYTES // (8 * bags.tokens.shape[1]))
        first = 0
        while first < len(bags):
            last = int(np.searchsorted(bags.offsets, bags.offsets[first] + rows, "right")) - 1
            last = min(max(last, first + 1), len(bags))
            offsets = bags.offsets[first : last + 1]
            part = bags.tokens[offsets[0] : offsets[-1]]
            yield self.scaling_.tokens(part), offsets - offsets[0]
            first = last

    def _standardised_answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        """Answers for standardised tokens."""
        own = sum_of_heads(self._all_heads, tokens, offsets)
        return add_baselines(own, self._baseline_shares, tokens, offsets)

    @property
    def _baseline_shares(self) -> list[tuple[float, Any]]:
        """Plain baselines with their shares; partial_fit has none."""
        share = {name: getattr(self, f"{name}_share_", 0.0) for name in BASELINES}
        return [
            (share[name], getattr(self, f"{name}_pool_")) for name in BASELINES if share[name]
        ]

    @property
    def _mean_share(self) -> float:
        return sum(share for share, _ in self._baseline_shares)

    @in_pieces
    def attention(self, bags: Any, head: int | None = None) -> Any:
        """Weight of each token, summing to one in a bag: (n, L), 0 at padding; a list of (L_i,) for
        list input.

        The weights of one head (0-based), or averaged over the heads. The share of the plain
        baselines (`mean_share_`, ...; usually 0) is spread equally over the tokens.
        """
        held = self._read_bags(bags, "attention")
        heads = (
            self._all_heads
            if head is None
            else [self._all_heads[self._check_head(head, "attention")]]
        )
        weight = np.mean([self._token_weights(held, None, one) for one in heads], axis=0)
        share = self._mean_share
        return held.like_input(
            (1 - share) * weight + share / np.repeat(held.lengths, held.lengths)
        )

    @in_pieces
    def locate(self, bags: Any, y: Any = None, head: int | None = None) -> np.ndarray:
        """Location (n,) of the deciding token in each bag; with labels y, the token that most probably
        decided the label.

        With several heads (n, heads), one column per head; or (n,) for one given head.
        """
        held = self._read_bags(bags, "locate")
        heads = (
            self._all_heads
            if head is None
            else [self._all_heads[self._check_head(head, "locate")]]
        )
        where = [
            held.position(first_largest(self._token_weights(held, y, one), held))
            for one in heads
        ]
        return where[0] if len(where) == 1 else np.column_stack(where)

    def _check_head(self, head: Any, method: str) -> int:
        return check.integer(
            head, "head", f"{type(self).__name__}.{method}", 0, len(self._all_heads) - 1
        )

    def _token_weights(self, held: Bags, y: Any, head: Fitted) -> np.ndarray:
        if y is None or head.combine == SIGMOID:
            weight = np.concatenate(
                [bag_outputs(head, *piece)[0] for piece in self._standardised_pieces(held)]
            )
            return weight / np.repeat(
                np.maximum(bag_sum(weight, held.offsets), 1e-300), held.lengths
            )
        data = self._labelled_data(held, y, "locate")
        if len(self._all_heads) > 1:
            data = data._replace(
                labels=residuals(
                    [other for other in self._all_heads if other is not head], data
                )
            )
        return responsibilities(head, data)

    def _labelled_data(self, held: Bags, y: Any, method: str) -> Data:
        """Bags with labels, both standardised as in fit."""
        labels, family, outputs = self._encode_known_labels(
            bag_labels(y, held, f"{type(self).__name__}.{method}")
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

    def diagnose(self, bags: Any, y: Any, groups: Any = None) -> Any:
        """Check the fit on these bags (ideally new ones), in numbers and sentences; see
        diagnose.Diagnosis. `groups` as in fit.
        """
        from attnscope.estimators.diagnose import diagnose

        return diagnose(self, bags, y, groups)

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
