"""Steps before a model of bags in a scikit-learn pipeline.

    BagScaler    x -> (x - m)/s, with m and s the mean and the deviation of each feature
    BagPCA       x -> W^T (x - m), W the k leading eigenvectors of the tokens' covariance
    BagPooling   bag -> (mean, max, ... of its tokens), one row per bag, for any other estimator

Mean, deviation and covariance are over all tokens of all bags, each counted once, so a long bag has
more influence. Bags are returned in the form in which they were given (an array as an array, a list
as a list, a table as a table), so the answers of the model keep their form. Bags that are not in
memory are read into it.

notation: N tokens in n bags, d features. Exact up to rounding; a constant feature is centred and not
scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags, column_names, keep_names, read_bags
from attnscope.estimators.finite_fit import NotFittedYet
from attnscope.estimators.fit.data import CONSTANT_RELATIVE_SPREAD
from attnscope.numerics.border import validation as check

__all__ = ["BagPCA", "BagPooling", "BagScaler"]


class BagStep(TransformerMixin, BaseEstimator):
    """Base of the three steps: reads bags, and returns them in the caller's form."""

    def fit(self, bags: Any, y: Any = None) -> Any:
        """Learn from these bags; y is ignored."""
        of = f"{type(self).__name__}.fit"
        self._check_parameters(of)
        held = read_bags(bags, of, leave=column_names(y))
        self._learn_tokens(held, of)
        self.n_features_in_ = held.tokens.shape[1]
        keep_names(self, held)
        return self

    def _read_bags(self, bags: Any, method: str) -> Bags:
        of = f"{type(self).__name__}.{method}"
        if not hasattr(self, "n_features_in_"):
            raise NotFittedYet(f"{of} needs a fitted step; try fit(bags) first.")
        names = getattr(self, "feature_names_in_", None)
        return read_bags(bags, of, self.n_features_in_, one=True, features=names)

    def _check_parameters(self, of: str) -> None:
        """Refuse invalid parameters."""

    def _learn_tokens(self, held: Bags, of: str) -> None:
        """Learn from tokens (N, d)."""

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the output features. input_features is used if the bags have no names; None: x0, x1,
        ...
        """
        names = getattr(self, "feature_names_in_", input_features)
        names = [f"x{i}" for i in range(self.n_features_in_)] if names is None else names
        return np.array(self._names_out([str(name) for name in names]), dtype=object)

    def _names_out(self, names: list[str]) -> list[str]:
        return names

    def _output_names(self) -> list[str]:
        return [str(name) for name in self.get_feature_names_out()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = False
        return tags


class BagScaler(BagStep):
    """StandardScaler for bags: each feature centred and divided by its deviation over all tokens.

    Args:
        with_mean: centre.
        with_std: divide.

    Learnt: mean_ and scale_ (d,).

    >>> bags = [np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 5.0]])]
    >>> scaler = BagScaler().fit(bags)
    >>> scaler.mean_, scaler.transform(bags)[1]
    (array([3., 5.]), array([[1.22474487, 0.        ]]))
    """

    def __init__(self, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def _check_parameters(self, of: str) -> None:
        for name in ("with_mean", "with_std"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise bad(name, of, "True or False", getattr(self, name))

    def _learn_tokens(self, held: Bags, of: str) -> None:
        mean = held.tokens.mean(axis=0)
        spread = held.tokens.std(axis=0)
        flat = spread <= CONSTANT_RELATIVE_SPREAD * np.abs(mean)  # rounding of a constant
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        self.scale_ = np.where(flat | (not self.with_std), 1.0, spread)

    def transform(self, bags: Any) -> Any:
        """The bags, scaled."""
        held = self._read_bags(bags, "transform")
        tokens = (held.tokens - self.mean_) / self.scale_
        return _in_input_form(tokens, held, bags, self._output_names())


class BagPCA(BagStep):
    """PCA for bags: tokens on the leading directions of their covariance.

    Args:
        n_components: the number of directions (None: all); or a share of the variance in (0, 1): the
            fewest directions that hold it.
        whiten: divide by the deviation along each.

    Learnt: components_ (k, d) orthonormal rows, each with its largest entry positive; mean_ (d,);
    explained_variance_ and explained_variance_ratio_ (k,).

    >>> rng = np.random.default_rng(0)
    >>> bags = rng.standard_normal((50, 4, 3)) * (3.0, 1.0, 0.1)
    >>> pca = BagPCA(2).fit(bags)
    >>> pca.transform(bags).shape, bool(pca.explained_variance_ratio_.sum() > 0.99)
    ((50, 4, 2), True)
    """

    def __init__(self, n_components: float | None = None, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten

    def _check_parameters(self, of: str) -> None:
        if not isinstance(self.whiten, (bool, np.bool_)):
            raise bad("whiten", of, "True or False", self.whiten)
        k = self.n_components
        if k is None:
            return
        if isinstance(k, (float, np.floating)):
            check.real(k, "n_components", of, 0, 1, strict=True)
        else:
            check.integer(k, "n_components", of, 1)

    def _learn_tokens(self, held: Bags, of: str) -> None:
        count, width = held.tokens.shape
        if count < 2:
            raise bad("bags", of, "at least two tokens", f"{count} token")
        most = min(
            width, count - 1
        )  # the largest number of directions in which these points can differ
        self.mean_ = held.tokens.mean(axis=0)
        # the triangle has the same singular values and directions, and a size without N
        triangle = np.linalg.qr(held.tokens - self.mean_, mode="r")
        _, size, rows = np.linalg.svd(triangle, full_matrices=False)
        variance = size**2 / (count - 1)
        ratio = variance / max(float(variance.sum()), np.finfo(float).tiny)
        k = self.n_components
        if k is None:
            k = most
        elif isinstance(k, (float, np.floating)):
            k = min(int(np.searchsorted(np.cumsum(ratio), k)) + 1, most)
        elif k > most:
            got = f"{k} for {count} tokens of {width} features"
            raise bad("n_components", of, f"at most {most}", got)
        rows = rows[:k]
        largest = rows[np.arange(k), np.argmax(np.abs(rows), axis=1)]
        self.components_ = rows * np.sign(largest)[:, None]
        self.explained_variance_ = variance[:k]
        self.explained_variance_ratio_ = ratio[:k]
        if (
            self.whiten
            and not (variance[:k] > (CONSTANT_RELATIVE_SPREAD * size[0]) ** 2).all()
        ):
            must = "so few that tokens differ along each, to whiten them"
            raise bad("n_components", of, must, int(k), "whiten=False")

    @property
    def _component_scale(self) -> np.ndarray:
        return np.sqrt(self.explained_variance_) if self.whiten else np.ones(1)

    def transform(self, bags: Any) -> Any:
        """The bags, k features for d."""
        held = self._read_bags(bags, "transform")
        tokens = (held.tokens - self.mean_) @ self.components_.T / self._component_scale
        return _in_input_form(tokens, held, bags, self._output_names())

    def _names_out(self, names: list[str]) -> list[str]:
        return [f"pca{i}" for i in range(len(self.components_))]


STATISTIC_NAMES = ("mean", "max", "min", "std", "sum")


class BagPooling(BagStep):
    """One row per bag: statistics of its tokens, feature by feature, for any other estimator.

    Args:
        how: one of "mean", "max", "min", "std", "sum", or several in a tuple, side by side.

    >>> bags = [np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 5.0]])]
    >>> BagPooling(("mean", "max")).fit_transform(bags)
    array([[2., 5., 3., 5.],
           [5., 5., 5., 5.]])
    """

    def __init__(self, how: Any = "mean") -> None:
        self.how = how

    def _check_parameters(self, of: str) -> None:
        if not self._statistic_parts or any(
            part not in STATISTIC_NAMES for part in self._statistic_parts
        ):
            must = "one or several of " + ", ".join(map(repr, STATISTIC_NAMES))
            raise bad("how", of, must, self.how)

    @property
    def _statistic_parts(self) -> tuple:
        return (self.how,) if isinstance(self.how, str) else tuple(self.how)

    def transform(self, bags: Any) -> np.ndarray:
        """(n, d times the number of statistics)."""
        held = self._read_bags(bags, "transform")
        return np.column_stack([_pool_tokens(held, part) for part in self._statistic_parts])

    def _names_out(self, names: list[str]) -> list[str]:
        return [f"{part} {name}" for part in self._statistic_parts for name in names]


def _pool_tokens(held: Bags, how: str) -> np.ndarray:
    starts = held.offsets[:-1]
    if how in ("max", "min"):
        fold = np.maximum if how == "max" else np.minimum
        return fold.reduceat(held.tokens, starts, axis=0)
    total = np.add.reduceat(held.tokens, starts, axis=0)
    if how == "sum":
        return total
    mean = total / held.lengths[:, None]
    if how == "mean":
        return mean
    centred = held.tokens - np.repeat(mean, held.lengths, axis=0)  # no cancellation
    square = np.add.reduceat(centred**2, starts, axis=0)
    return np.sqrt(square / held.lengths[:, None])


def _in_input_form(tokens: np.ndarray, held: Bags, bags: Any, names: list[str]) -> Any:
    """Tokens (N, k), bag by bag, in the form of the caller's bags."""
    if held.rows is not None:
        rows = np.empty_like(tokens)
        rows[held.rows.row] = tokens
        if held.rows.frame is None:
            return rows, bags[1]
        return _replace_columns(rows, held.rows.frame, held.rows.features or (), names)
    if held.mask is not None:
        out = np.zeros((*held.mask.shape, tokens.shape[1]))
        out[held.mask] = tokens
        return out, held.mask
    if held.form == "list":
        return np.split(tokens, held.offsets[1:-1])
    out = tokens.reshape(len(held), -1, tokens.shape[1])
    return out[0] if np.ndim(bags) == 2 else out


def _replace_columns(
    rows: np.ndarray, frame: Any, features: tuple[str, ...], names: list[str]
) -> Any:
    """A table of the same library with these columns instead of the features."""
    kept = {name: frame[name] for name in frame.columns if str(name) not in features}
    columns = kept | {name: rows[:, i] for i, name in enumerate(names)}
    index = getattr(frame, "index", None)
    return type(frame)(columns) if index is None else type(frame)(columns, index=index)
