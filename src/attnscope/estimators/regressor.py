"""SingleLocationRegressor: numbers decided by one token of a bag. A face over estimators.fit; see docs/estimators.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from attnscope.errors import bad
from attnscope.estimators.bags import check_labels, check_weights, read_bags
from attnscope.estimators.face import Face
from attnscope.estimators.fit.data import Data, Scaling
from attnscope.estimators.fit.intervals import conformal_scores, interval_scale
from attnscope.estimators.fit.mixture import from_em
from attnscope.estimators.fit.select import Selected
from attnscope.estimators.fit.stream import Stream
from attnscope.numerics import validation as check
from attnscope.numerics.data_pass import GAUSSIAN

__all__ = ["SingleLocationRegressor"]

NAME = "SingleLocationRegressor"


class SingleLocationRegressor(RegressorMixin, Face):
    """Regression on bags of tokens of which one decides the label, y = v.x_J + b + noise; J is learnt, not given.

    bags: (n, L, d), a list of (L_i, d), or (tokens, mask). Parameters: see estimators.face.

    >>> import attnscope as at
    >>> batch = at.SingleLocation(dim=10, length=5, signal=4.0, noise=0.1).sample(300, seed=1)
    >>> model = SingleLocationRegressor().fit(batch.tokens, batch.target)
    >>> bool((model.locate(batch.tokens) == batch.location).mean() > 0.95)
    True
    """

    _regression = True
    _stream: Stream | None = None

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> SingleLocationRegressor:
        """Choose and fit by cross-validation; forgets any earlier fit."""
        self._fit(bags, y, sample_weight, f"{NAME}.fit")
        self._stream = None
        return self

    def _keep(self, scaling: Scaling, selected: Selected, pooled: Selected, data: Data) -> None:
        super()._keep(scaling, selected, pooled, data)
        self.conformal_scores_ = conformal_scores(data.labels, selected.output[:, 0], selected.spread)

    def _labels(self, y: np.ndarray, of: str) -> tuple[np.ndarray, int, int]:
        return check.array(y, "y", of, (len(y),)), GAUSSIAN, 1

    def _known_labels(self, y: np.ndarray) -> tuple[np.ndarray, int, int]:
        return self._labels(y, f"{NAME}.locate")

    def predict(self, bags: Any) -> np.ndarray:
        """Expected label (n,)."""
        held = self._read(bags, "predict")
        return self._answers(held).output[:, 0] * self.scaling_.label_scale + self.scaling_.label_mean

    def predict_interval(self, bags: Any, coverage: float = 0.9) -> np.ndarray:
        """Lower and upper ends (n, 2) of intervals that hold the label with about this probability."""
        held = self._read(bags, "predict_interval")
        coverage = check.real(coverage, "coverage", f"{NAME}.predict_interval", 0, 1, strict=True)
        if not hasattr(self, "conformal_scores_"):
            raise bad(
                "predict_interval", NAME, "called on a model fitted by fit", "partial_fit, which holds no bags out"
            )
        answers = self._answers(held)
        middle = answers.output[:, 0] * self.scaling_.label_scale + self.scaling_.label_mean
        half = interval_scale(self.conformal_scores_, coverage) * answers.spread * self.scaling_.label_scale
        return np.column_stack([middle - half, middle + half])

    # -- out of core ------------------------------------------------------------------------------------------------------

    def partial_fit(
        self, bags: Any, y: Any, sample_weight: Any = None, pass_ends: bool = True
    ) -> SingleLocationRegressor:
        """Add a batch to the current pass over the data; `pass_ends` marks its last batch.

        Pass 1 learns the scale, pass 2 the starts, every later pass is one EM step, the same as with all bags in memory. O(d^2) memory.
        """
        of = f"{NAME}.partial_fit"
        options = self._options(of)
        for name, plain in (
            ("loss", ("mixture", "auto")),
            ("gate", ("linear", "quadratic", "auto")),
            ("pooling", ("softmax", "auto")),
        ):
            if getattr(self, name) not in plain:
                raise bad(name, of, "one of " + ", ".join(map(repr, plain)) + " (EM only)", getattr(self, name), "fit")
        if self._stream is None:
            self._forget()
            self._stream = Stream(
                options.gate != "linear", options.n_starts, options.seed, options.dof, options.alpha_value
            )
        stream = self._stream
        held = read_bags(bags, of, getattr(self, "n_features_in_", None))
        self.n_features_in_ = held.tokens.shape[1]
        labels, _, _ = self._labels(check_labels(y, len(held), of), of)
        weight = np.ones(len(held)) if sample_weight is None else check_weights(sample_weight, len(held), of)
        stream.add_batch(held.tokens, held.offsets, labels, weight)
        if pass_ends:
            stream.end_pass()
            if stream.ems and stream.scaling is not None:
                self.scaling_ = stream.scaling
                self.fitted_ = from_em(next(iter(stream.ems.values())), GAUSSIAN)
        return self

    def fit_batches(self, batches: Iterable | Callable[[], Iterable], passes: int = 20) -> SingleLocationRegressor:
        """EM over batches (bags, y), read `passes` times: a list, any re-iterable, or a function that returns an iterator."""
        passes = check.integer(passes, "passes", f"{NAME}.fit_batches", 3)
        self._forget()
        self._stream = None
        for _ in range(passes):
            last = None
            for batch in batches() if callable(batches) else iter(batches):
                if last is not None:
                    self.partial_fit(last[0], last[1], pass_ends=False)
                last = batch
            if last is None:
                raise bad(
                    "batches",
                    f"{NAME}.fit_batches",
                    "readable once per pass",
                    "no batch left",
                    "a function that opens them anew",
                )
            self.partial_fit(last[0], last[1], pass_ends=True)
        return self

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
