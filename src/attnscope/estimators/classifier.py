"""SingleLocationClassifier: classes decided by one token of a bag. A face over estimators.fit;
see docs/estimators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags, check_labels, score_weights
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.base import BagEstimator
from attnscope.estimators.class_weights import class_factors
from attnscope.estimators.fit.data import Data, Scaling
from attnscope.estimators.fit.heads import Heads
from attnscope.estimators.fit.held_out import Fold, Options
from attnscope.estimators.fit.intervals import conformal_scores, excluded_labels
from attnscope.estimators.fit.pooled import Pooled, mean_tokens
from attnscope.estimators.fit.readings import choose_reading
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.widths import Chosen
from attnscope.estimators.fit.witness import fit_witness
from attnscope.estimators.fit.witness_space import View
from attnscope.estimators.fit.witness_waves import fit_all_bags
from attnscope.estimators.per_token import log_odds_of
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL

__all__ = ["SingleLocationClassifier"]

CLASSIFIER_NAME = "SingleLocationClassifier"


class SingleLocationClassifier(ClassifierMixin, BagEstimator):
    """Classification of bags of tokens of which one decides the class, P(class | x_J) logistic in
    x_J; J is learnt, not given.

    Bags are (n, L, d), a list of (L_i, d), (tokens, mask), a table with a column `bag`,
    `open_bags`, ... (docs/estimators.md). Two classes or more.

    assumption="witness": two classes; a token can only be evidence for the second of classes_,
    log P(first) = -log(1+e^b) - sum_l log(1+e^{u_l+a+c log L}), and a small share of labels is
    wrong. With "auto", labels 0 and 1 are read as "witness" unless tokens of one kind decide for
    either class or a plain baseline explains as much (fit/readings.py). Other labels, and models
    with given pooling, loss or alpha, are read as "single". `assumption_` is the reading that was
    chosen, `readings_` holds the numbers behind the choice.

    Args:
        gate: "linear", "quadratic" (adds |x|^2), "random-features" or "auto" (quadratic, random
            features where they help).
        pooling: "softmax" (weights sum to one), "sigmoid" (several tokens may count) or "auto" (and
            a share for the mean token where it helps).
        loss: "mixture" (one token decides), "attention" (error of the weighted average) or "auto".
        alpha: "cv", or the ridge: one number, or (gate, value); infinity for the gate keeps the EM
            score.
        heads: 1: classes have one deciding token.
        n_starts: number of starting points, >= 1.
        robust: Student-t tokens instead of Gaussian ones: True, False or "auto" (where tails are
            heavy and it helps).
        components: "auto" (how many of the tokens' widest directions to fit in, by held-out loss;
            all of them up to 64 features), a number of directions, or None (all features, at any
            cost).
        max_seconds: wall time after which no further model is tried and the best so far is fitted;
            None: no limit.
        random_state: integer >= 0, or None for 0.
        n_jobs: threads over cross-validation folds; None is 1, -1 all.
        verbose: print a line per step.
        assumption: "single" (one token decides), "witness" (below) or "auto".
        class_weight: None, "balanced" (every class has the same total weight) or a mapping of
            classes to factors of their bags' weights; 1 for classes it does not name.
        interval: how sets of classes are calibrated: "cross" (no guarantee), "split" (some bags or
            groups are held out from the fit) or "cv+" (ten more fits).

    >>> import attnscope as at
    >>> batch = at.SingleLocation(dim=8, length=5, signal=5.0, noise=0.0).sample(200, seed=1)
    >>> model = SingleLocationClassifier(gate="quadratic", pooling="softmax", loss="mixture").fit(batch.tokens, batch.target > 0)
    >>> bool(model.score(batch.tokens, batch.target > 0) > 0.9)
    True

    Sets of classes and of tokens; the most probable one is always among them:

    >>> model.predict_set(batch.tokens, coverage=0.9).shape, model.locate_set(batch.tokens).shape
    ((200, 2), (200, 5))
    """

    _regression = False

    def _keep_fit(
        self, scaling: Scaling, selected: Selected | Heads, pooled: Pooled, data: Data
    ) -> None:
        super()._keep_fit(scaling, selected, pooled, data)
        own = selected.output[np.arange(data.size), data.labels.astype(int)]
        self.conformal_scores_, self.conformal_weights_ = conformal_scores(
            1 - own, data.groups
        )

    def _encode_labels(self, y: np.ndarray, of: str) -> tuple[np.ndarray, int, int]:
        if y.dtype.kind == "O":
            y = y.astype(str)
        classes, index = np.unique(y, return_inverse=True)
        if y.dtype.kind == "f" and not np.all(classes == np.round(classes)):
            raise bad(
                "y", of, "class labels", "numbers with fractions", "SingleLocationRegressor"
            )
        if len(classes) < 2:
            raise bad("y", of, "labels of at least two classes", f"only {classes[0]!r}")
        self.classes_ = classes
        if self.assumption == "witness":
            self._check_witness(of)
        return index.astype(float), *self._label_family()

    def _encode_known_labels(self, y: np.ndarray) -> tuple[np.ndarray, int, int]:
        y = y.astype(str) if y.dtype.kind == "O" else y
        index = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if not np.array_equal(self.classes_[index], y):
            raise bad(
                "y",
                f"{CLASSIFIER_NAME}.locate",
                f"among the {len(self.classes_)} classes seen in fit",
                "another label",
            )
        return index.astype(float), *self._label_family()

    def _class_weights(self, labels: np.ndarray, weight: np.ndarray, of: str) -> np.ndarray:
        if self.class_weight is None:
            return weight
        return weight * class_factors(
            self.class_weight, self.classes_, labels.astype(int), weight, of
        )

    def _label_family(self) -> tuple[int, int]:
        return (
            (BERNOULLI, 1) if len(self.classes_) == 2 else (CATEGORICAL, len(self.classes_))
        )

    def _select_fit(
        self,
        look: Callable[[], View],
        folds: list[Fold],
        options: Options,
        pooled: Pooled,
        single: Callable[[], Chosen],
    ) -> Chosen:
        """The fit under the requested reading, or under the one that the rule of fit/readings.py chooses."""
        known = folds[0].data.known is not None  # a known location implies one deciding token
        reading = "single" if known else self._requested_reading()
        self.readings_ = None
        self.assumption_ = reading
        if reading == "single":
            return single()
        view = look()
        data = view.data
        if reading == "auto" and int(data.lengths.max()) == 1:  # nothing to attend to
            self.assumption_ = "single"
            return single()
        parts = [fold._replace(data=data) for fold in folds]
        if reading == "witness":
            plain_score = fit_witness(data, parts, options)
            selected = fit_all_bags(data, parts, plain_score, options)
            return _in_whole_tokens(view, selected)
        plain: list[Chosen] = []

        def fit_single() -> Any:
            plain.append(single())
            return plain[0].selected

        means = lambda: mean_tokens(folds[0].data.tokens, folds[0].data.offsets)
        selected, found = choose_reading(data, parts, options, pooled, fit_single, means)
        facts = found._asdict().items()
        self.readings_ = {name: None if x != x else x for name, x in facts}
        self.assumption_ = found.chosen
        return plain[0] if found.chosen == "single" else _in_whole_tokens(view, selected)

    def _requested_reading(self) -> str:
        if self.assumption != "auto":
            return self.assumption
        spoken = (self.pooling, self.loss, self.alpha) != ("auto", "auto", "cv")
        number = self.classes_.dtype.kind in "biuf"
        zero_one = number and self.classes_.astype(float).tolist() == [0, 1]
        if spoken or not zero_one:
            return "single"
        return "auto"

    def _check_witness(self, of: str) -> None:
        if len(self.classes_) > 2:
            got = f"{len(self.classes_)} classes"
            raise bad("assumption", of, '"single" or "auto" for more than two classes', got)
        for name in ("pooling", "loss"):
            if getattr(self, name) != "auto":
                must = '"auto" with assumption="witness" (it has its own)'
                raise bad(name, of, must, getattr(self, name))

    @in_pieces
    def predict_proba(self, bags: Any) -> np.ndarray:
        """Class probabilities (n, C), columns in the order of classes_."""
        return self._bag_answers(self._read_bags(bags, "predict_proba")).output

    @in_pieces
    def decision_function(self, bags: Any) -> np.ndarray:
        """Log odds (n,) of the second of two classes; logarithms (n, C) of more classes'
        probabilities. `predict` returns the class of the largest.
        """
        return log_odds_of(
            self._bag_answers(self._read_bags(bags, "decision_function")).output
        )

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the bags with the right class."""
        found = self.predict(bags)
        labels = check_labels(y, len(found), f"{CLASSIFIER_NAME}.score")
        weight = score_weights(sample_weight, len(found), f"{CLASSIFIER_NAME}.score")
        labels = labels.astype(str) if labels.dtype.kind == "O" else labels
        numbers = self.classes_.dtype.kind in "biuf"
        fractions = labels.dtype.kind == "f" and bool((labels != np.round(labels)).any())
        if (labels.dtype.kind in "biuf") != numbers or fractions:
            got = "numbers with fractions" if fractions else "words" if numbers else "numbers"
            must = f"classes as in fit, {'numbers' if numbers else 'words'}"
            raise bad("y", f"{CLASSIFIER_NAME}.score", must, got)
        return float(np.average(labels == found, weights=weight))

    @in_pieces
    def predict(self, bags: Any) -> np.ndarray:
        """Most probable class (n,)."""
        held = self._read_bags(bags, "predict")
        return self.classes_[np.argmax(self._bag_answers(held).output, axis=1)]

    # -- sets --------------------------------------------------------------------------------------

    @in_pieces
    def predict_set(self, bags: Any, coverage: float = 0.9) -> np.ndarray:
        """The set of classes that contains the label with this probability: True in (n, C), columns in
        the order of classes_. It always contains the most probable class.

        The guarantees are those of SingleLocationRegressor.predict_interval, by `interval`.
        """
        held = self._read_bags(bags, "predict_set")
        coverage = self._check_coverage(coverage, "predict_set")
        if hasattr(self, "plus_models_"):
            inside = self._plus_set(held, coverage)
        else:
            inside = 1 - self._bag_answers(held).output <= self._interval_scale(coverage)
        inside[np.arange(len(held)), np.argmax(self._bag_answers(held).output, axis=1)] = True
        return inside

    def _class_probabilities(self, held: Bags, classes: np.ndarray) -> np.ndarray:
        """Probabilities (n, C) of these classes; 0 for one that was not in this fit."""
        known = {name: i for i, name in enumerate(self.classes_.tolist())}
        found = np.zeros((len(held), len(classes)))
        own = self._bag_answers(held).output
        for column, name in enumerate(classes.tolist()):
            if name in known:
                found[:, column] = own[:, known[name]]
        return found

    def _label_scores(self, held: Bags, y: np.ndarray) -> np.ndarray:
        y = y.astype(str) if y.dtype.kind == "O" else y
        classes, index = np.unique(y, return_inverse=True)
        return 1 - self._class_probabilities(held, classes)[np.arange(len(held)), index]

    def _plus_set(self, held: Bags, coverage: float) -> np.ndarray:
        shares = [
            model._class_probabilities(held, self.classes_) for model in self.plus_models_
        ]
        scores = 1 - np.stack(shares, axis=1)
        inside = np.empty((len(held), len(self.classes_)), bool)
        # a row for each held-out bag: as many bags at a time as 8 MB hold
        step = max(1, 2**20 // (len(self.plus_fold_) * len(self.classes_)))
        for i in range(0, len(held), step):
            part = scores[i : i + step][:, self.plus_fold_]
            out = excluded_labels(part, self.plus_scores_, self.plus_weights_, coverage)
            inside[i : i + step] = ~out
        return inside


def _in_whole_tokens(view: View, selected: Selected) -> Chosen:
    lifted = selected._replace(fitted=view.lift(selected.fitted))
    return Chosen(lifted, view.components, view.losses)
