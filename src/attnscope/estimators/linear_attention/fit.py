"""The optimum over linear attention of any number of heads: one least-squares solve.

notation: n contexts, F features X (n, F) (cubic_features.py), Y (n, o) targets, W (F, o)
coefficients = the layer's tensor T; Lambda = X^T X/n the certificate.

    min over H, V, Q of (1/n) sum |y - sum_h V_h C Q_h z|^2  =  min_W |Y - X W|^2/n

because every W is the W of some heads (at most o D or D p of them: the singular value decomposition
of T as a matrix (o D, D p)). No training run of any width ends below it.

Certificate. All minimisers compute the same function of every context iff Lambda is nonsingular.
Its null space is what the data leave open; a prediction that depends on it is refused. The rank is
that of X in balanced units, where singular values up to what rounding of the features can make
count as 0:

    |E| <= e = g (sum of squared sizes of the features)^(1/2),   g = (L + F + ROUNDINGS_PER_FEATURE) eps;
    kept: sigma > 2 e.

Errors. X by Householder QR, then the singular values of R: backward stable, as if X were X + E.
With sigma the smallest kept singular value and rho = |Y - X W|,

    |dW| <= 2 (e/sigma) (|W| + rho/sigma),   |d rho| <= e (|W| + |dW|) + g |Y|,

and the optimum rho^2/n errs by (2 rho + |d rho|) |d rho|/n. With a null space the minimum is over
what the data determine beyond rounding.

ridge > 0 minimises (1/n)|Y - X W|^2 + ridge |W|^2 instead, which has a unique solution for any data
but is not the optimum.

Yau et al. (2024) show that linear attention is a linear predictor of cubic features, that a singular
value decomposition recovers heads, and that the second moments certify identifiability. The bounds
on rounding errors are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import qr, svd, svdvals
from scipy.linalg.lapack import dgeqrt

from attnscope.errors import bad
from attnscope.estimators.linear_attention.cubic_features import (
    EPS,
    Units,
    cubic_features,
    tensor_of,
    units_of,
)
from attnscope.estimators.linear_attention.fewest_heads import HeadsFound, fewest_heads
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["LinearAttentionFit", "fit_linear_attention"]

# rounding errors of a feature besides the sum over tokens: three products, a weight, and the QR
ROUNDINGS_PER_FEATURE = 10
# largest part of a new context's features in the null space, in units of that space's accuracy
MAX_NULL_SPACE_RATIO = 10.0
# columns per panel of the QR factorisation: LAPACK's default
QR_PANEL_COLUMNS = 32
# features are cubic in the entries, and their squares must fit in float64
MAX_ENTRY_SIZE = 1e30


@dataclass(frozen=True, eq=False)
class LinearAttentionFit:
    """The result of `fit_linear_attention`.

    Attributes:
        theta: (o, D, D, p), symmetric in the two middle places: y_a = sum theta_aijk C_ij z_k; of
            all minimisers the one of least size in balanced units, where they are many.
        optimum: the least mean squared error over linear attention of any number of heads.
        loss: mean squared error of this fit: the optimum, unless there is a ridge.
        features, nullity: how many there are, and in how many directions the data leave them open.
        contexts: how many it was fitted on.
        ridge: that of the fit.

    >>> import attnscope as at
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tokens, query = rng.standard_normal((50, 4, 2)), rng.standard_normal((50, 2))
    >>> target = np.einsum("nli,nlj,nj->ni", tokens, tokens, query)
    >>> fit = at.fit_linear_attention(tokens, query, target)
    >>> fit.theta.shape, fit.features, fit.loss.value < 1e-20
    ((2, 2, 2, 2), 6, True)
    """

    theta: np.ndarray
    optimum: Estimate
    loss: Estimate
    features: int
    nullity: int
    contexts: int
    ridge: float
    _solution: _Solution = field(repr=False)

    def __repr__(self) -> str:
        o, D, _, p = self.theta.shape
        said = "identified" if self.identified else f"nullity {self.nullity}"
        return (
            f"LinearAttentionFit({self.contexts} contexts, D = {D}, queries {p}, outputs {o}, "
            f"{self.features} features, {said}, optimum {self.optimum.value:.6g})"
        )

    @property
    def identified(self) -> bool:
        """Whether every minimiser, of any number of heads, computes the same function."""
        return self.nullity == 0

    @cached_property
    def spectrum(self) -> np.ndarray:
        """(F,) eigenvalues of the certificate X^T X/n, largest first, in the data's own units."""
        size = float(self._solution.units.features.max())
        own = self._solution.triangle * (self._solution.units.features / size)
        return (svdvals(own) * size) ** 2 / self.contexts

    def heads(
        self, k: int | None = None, tolerance: float = 1e-8, seed: int = 0
    ) -> HeadsFound:
        """The layer as k heads: value (k, o, D) and score (k, D, p), y = sum_h value C score z.

        k None: the fewest heads found that predict the training contexts as the fit does, to
        `tolerance` of the size of its predictions; `at_least` is a number no fewer than which can.
        A given k: the best k heads found; `residual` is their distance from the fit.
        """
        of = "LinearAttentionFit.heads"
        o, D, _, p = self.theta.shape
        if k is not None:
            k = check.integer(
                k, "k", of, 1, hint=f"k={min(o * D, D * p)}, which always suffices"
            )
        tolerance = check.real(tolerance, "tolerance", of, 1e-12, 1.0)
        seed = check.seed_value(seed, of)
        s = self._solution
        known = float(np.linalg.norm(s.moved))
        found = fewest_heads(s.balanced, s.seen, (o, D, p), k, tolerance, seed, known)
        value = found.value / s.units.token
        score = found.score / (s.units.token[:, None] * s.units.query)
        return found._replace(value=value * s.output[:, None], score=score)

    def predict(
        self,
        tokens: np.ndarray,
        query: np.ndarray,
        mask: np.ndarray | None = None,
        return_error: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """(n, o) predictions at tokens (n, L, D) and queries (n, p), any length; with return_error
        also (n, o) bounds of their rounding errors, in the fit and here.

        Refused if they depend on directions that the training contexts do not determine, unless there
        is a ridge.
        """
        of = "LinearAttentionFit.predict"
        _, D, _, p = self.theta.shape
        z = _check_contexts(tokens, mask, of, D)
        q = _check_array(query, "query", of, (len(z), p))
        s = self._solution
        X, _ = cubic_features(z, q, s.units)
        scaled = z / s.units.token
        # |features| before anything cancels: |C| <= sum |z_l|^2
        size = np.einsum("nli,nli->n", scaled, scaled)
        size = size * np.linalg.norm(q / s.units.query, axis=1)
        if s.open.shape[0] and not self.ridge:
            self._check_determined(X, size, of)
        predicted = (X.T @ s.balanced) * s.output
        if not return_error:
            return predicted
        g = (z.shape[1] + len(X) + ROUNDINGS_PER_FEATURE) * EPS
        length = np.linalg.norm(s.balanced, axis=0)
        return predicted, size[:, None] * (s.moved + 2 * g * length) * s.output

    def _check_determined(self, X: np.ndarray, size: np.ndarray, of: str) -> None:
        """Refuse new contexts with features that the training contexts do not determine."""
        outside = np.linalg.norm(self._solution.open @ X, axis=0)
        far = outside > MAX_NULL_SPACE_RATIO * self._solution.blur * size
        if far.any():
            i = int(np.argmax(far))
            raise bad(
                "tokens",
                of,
                "contexts whose predictions the training contexts determine (the certificate is "
                f"singular, nullity {self.nullity})",
                f"{int(far.sum())} that they do not, the first is context {i}",
                "more varied training contexts, or fit_linear_attention(..., ridge=1e-6)",
            )


@dataclass(frozen=True, eq=False)
class _Solution:
    """A solution in balanced units: triangle R (F, F) of the features, its kept singular values
    times right singular vectors `seen` (rank, F), the others `open` (nullity, F), coefficients (F,
    o), moved (o,) bounds of |dW|, blur how well the null space is known.
    """

    units: Units
    output: np.ndarray
    triangle: np.ndarray
    seen: np.ndarray
    open: np.ndarray
    balanced: np.ndarray
    moved: np.ndarray
    blur: float


def fit_linear_attention(
    tokens: np.ndarray,
    query: np.ndarray,
    target: np.ndarray,
    mask: np.ndarray | None = None,
    ridge: float = 0.0,
) -> LinearAttentionFit:
    """The best linear attention y = sum_h V_h (sum_l z_l z_l^T) Q_h z over any number of heads.

    Args:
        tokens: (n, L, D).
        query: (n, p), what is asked of each context; not one of its tokens.
        target: (n,) or (n, o).
        mask: (n, L), True = real token, where lengths differ.
        ridge: >= 0, times |theta|^2 beside the mean squared error.

    At least as many contexts as features p D(D+1)/2 are needed without a ridge. Cost: one QR
    factorisation of the features.

    >>> rng = np.random.default_rng(0)
    >>> tokens = rng.standard_normal((200, 6, 3))
    >>> query = rng.standard_normal((200, 3))
    >>> V = rng.standard_normal((1, 3))
    >>> Q = rng.standard_normal((3, 3))
    >>> target = np.einsum("oi,nli,nlj,jk,nk->no", V, tokens, tokens, Q, query)
    >>> fit = fit_linear_attention(tokens, query, target)
    >>> fit.identified, fit.features, fit.optimum.value < 1e-24
    (True, 18, True)
    >>> len(fit.heads().value)
    1
    """
    of = "fit_linear_attention"
    z = _check_contexts(tokens, mask, of, None)
    q = _check_array(query, "query", of, (len(z), None))
    y = _check_targets(target, of, len(z))
    ridge = check.real(ridge, "ridge", of, 0)
    n, _, D = z.shape
    F = q.shape[1] * D * (D + 1) // 2
    o = y.shape[1]
    check.fits_in_memory(
        2 * n * (F + o) + 6 * F * F, 8, "features", of, "fewer contexts or coordinates"
    )
    if n < F and ridge == 0:
        raise bad(
            "tokens",
            of,
            f"at least as many contexts as there are features, p D(D+1)/2 = {F}",
            f"{n} contexts: infinitely many layers fit them",
            f"{F} contexts or more, fewer coordinates, or ridge=1e-6",
        )
    return _fit_arrays(z, q, y, ridge)


def _fit_arrays(
    z: np.ndarray, q: np.ndarray, y: np.ndarray, ridge: float
) -> LinearAttentionFit:
    n, L, D = z.shape
    o = y.shape[1]
    units = units_of(z, q)
    size = np.abs(y).max(axis=0)
    output = np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0))))
    rows, sizes = cubic_features(z, q, units, extra=o)
    F = len(sizes)
    rows[F:] = (y / output).T
    targets = np.linalg.norm(rows[F:], axis=1)
    R, QtY, rest = _qr_triangle(rows.T, F)
    U, S, Vt = svd(R, check_finite=False)
    g = (L + F + ROUNDINGS_PER_FEATURE) * EPS
    e = g * float(np.linalg.norm(sizes))
    rank = int(np.sum(2 * e < S))
    along = U.T @ QtY
    least = S[rank - 1] if rank else np.inf
    rho = np.sqrt(rest**2 + np.sum(along[rank:] ** 2, axis=0))  # (o,) of the optimum
    W = Vt[:rank].T @ (along[:rank] / S[:rank, None])
    moved = 2 * (e / least) * (np.linalg.norm(W, axis=0) + rho / least)
    lost = e * (np.linalg.norm(W, axis=0) + moved) + g * targets
    optimum = _mean_squared_loss(rho, lost, output, n)
    loss = optimum
    if ridge:
        W, moved, rho, shifted = _solve_ridge(R, QtY, rest, units, n * ridge, sizes, g)
        lost = e * (np.linalg.norm(W, axis=0) + moved) + g * targets + shifted
        loss = _mean_squared_loss(rho, lost, output, n)
    theta = tensor_of((W * output) / units.features[:, None], D)
    seen = S[:rank, None] * Vt[:rank]
    blur = e / least + g
    solved = _Solution(units, output, R, seen, Vt[rank:], W, moved, blur)
    return LinearAttentionFit(theta, optimum, loss, F, F - rank, n, ridge, solved)


def _qr_triangle(rows: np.ndarray, F: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R (F, F) and Q^T Y (F, o) of (features, targets) (n, F + o), and (o,) what Y has besides."""
    if len(rows) < rows.shape[1]:
        rows = np.concatenate([rows, np.zeros((rows.shape[1] - len(rows), rows.shape[1]))])
    # recursive panels: a sixth faster than dgeqrf at 5000 x 289; rows are not needed again
    R = np.triu(
        dgeqrt(min(QR_PANEL_COLUMNS, rows.shape[1]), rows, overwrite_a=True)[0][
            : rows.shape[1]
        ]
    )
    return R[:F, :F], R[:F, F:], np.linalg.norm(R[F:, F:], axis=0)


def _solve_ridge(
    R: np.ndarray,
    QtY: np.ndarray,
    rest: np.ndarray,
    units: Units,
    penalty: float,
    sizes: np.ndarray,
    g: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients in balanced units, bounds of their change by rounding, the rest of Y, and bounds
    of what the change does to it.

    In the data's own units the ridge is isotropic: least squares of [R; diag] and [Q^T Y; 0], its
    columns scaled to length 1 by powers of two, rounded by g times their sizes.
    """
    F = len(R)
    root = penalty**0.5 / units.features
    length = np.hypot(np.linalg.norm(R, axis=0), root)
    column = np.exp2(np.round(np.log2(length)))
    augmented = np.concatenate([R, np.diag(root)]) / column
    Q, A = qr(augmented, mode="economic", check_finite=False)
    W = np.linalg.solve(A, Q[:F].T @ QtY)
    least = float(svdvals(A)[-1])
    e = g * float(np.linalg.norm(np.hypot(sizes, length) / column))
    rho = np.sqrt(rest**2 + np.sum((QtY - (R / column) @ W) ** 2, axis=0))
    penalised = np.sum((root[:, None] * W / column[:, None]) ** 2, axis=0)
    whole = np.sqrt(rho**2 + penalised) + g * np.linalg.norm(QtY, axis=0)
    moved = 2 * (e / least) * (np.linalg.norm(W, axis=0) + whole / least)
    shifted = float(np.linalg.norm(R / column)) * moved
    return W / column[:, None], moved / column.min(), rho, shifted


def _mean_squared_loss(
    rho: np.ndarray, lost: np.ndarray, output: np.ndarray, n: int
) -> Estimate:
    """Mean squared error over contexts, summed over outputs, with its rounding error."""
    value = float(np.sum(output**2 * rho**2)) / n
    error = float(np.sum(output**2 * (2 * rho + lost) * lost)) / n
    return estimate(value, error + 8 * EPS * value, "least squares")


def _check_contexts(tokens: object, mask: object, of: str, dim: int | None) -> np.ndarray:
    """Tokens (n, L, D) as float64, 0 where the mask is False."""
    z, _ = check.tokens_array(tokens, of, None, dim, mask)
    return _check_size(z, "tokens", of)


def _check_targets(target: object, of: str, n: int) -> np.ndarray:
    """(n, o) of (n,) or (n, o)."""
    try:
        flat = np.ndim(target) == 1  # type: ignore[arg-type]
    except ValueError:  # ragged: the check below refuses it
        flat = False
    hint = "an array (n,) or (n, o)"
    y = check.array(target, "target", of, (n,) if flat else (n, None), hint)
    return _check_size(y.reshape(n, -1), "target", of)


def _check_array(x: object, what: str, of: str, shape: tuple[int | None, ...]) -> np.ndarray:
    return _check_size(check.array(x, what, of, shape), what, of)


def _check_size(x: np.ndarray, what: str, of: str) -> np.ndarray:
    x = x.astype(np.float64, copy=False)
    top = max(-float(x.min()), float(x.max()))
    if top > MAX_ENTRY_SIZE:
        raise bad(what, of, f"of size <= {MAX_ENTRY_SIZE:g}", f"an entry of size {top:.3g}")
    return x
