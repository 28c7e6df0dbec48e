"""In-context regression: tokens are (key, value) pairs of one latent linear map of any features of
the key.

notation: L = length, phi = features (p of them), Phi (L, p) = rows phi(k_l), V (L, d_v) = values,
lam = prior_variance, s = noise.

    W ~ N(0, lam) entrywise, (d_v, p);   keys k_l independent of one law;
        v_l = W phi(k_l) + s N(0, I);   target: the value at a new key q

    P = Phi^T Phi/s^2 + I/lam,   rows of W | context ~ N((P^-1 Phi^T V/s^2)^T, P^-1),
        v | q, context ~ N(mean phi(q), s^2 + phi(q)^T P^-1 phi(q))
    log p(values | keys), per output: -1/2 [L log(2 pi s^2) + log det(lam P) + |v - Phi m|^2/s^2 +
    |m|^2/lam],  m the posterior mean

all exact given the context, for every L including 0, by the singular values of Phi: no system is
formed that little noise makes singular. The same numbers in dual form are CME attention with the
constant ridge s^2/lam and kernel phi.phi: claim exch-06. Masked-token prediction is the same task:
hide the value of one of L + 1 tokens and ask for it at its key; tokens are exchangeable, so which
one is hidden does not matter (`masked`, `hold_out`).

Bayes risk: s^2 d_v + d_v E[phi(q)^T P^-1 phi(q)]. Normal keys with phi = identity: the mean of a
Wishart resolvent, exact (numerics.integrals.wishart). Otherwise a mean over sampled keys, exact
given the keys: each of L + 1 keys in turn is the query, and with leverage h = phi^T (P + phi
phi^T/s^2)^-1 phi/s^2 the left-out value is phi^T P^-1 phi = s^2 h/(1 - h).
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import affordable, widened
from attnscope.numerics.border.sampled_mean import tail_size, unseen_above
from attnscope.numerics.integrals.wishart import LARGEST_SIDE, resolvent_trace
from attnscope.tasks.exchangeable.latent_map import EPS, LatentMap

__all__ = ["LinearMap", "unseen"]

BLOCK_FEATURE_ENTRIES = 1 << 20  # feature entries worked on at a time: 8 MB
WELL_CONDITIONED_NUMBER = (
    1e4  # of P: up to here 1 - h keeps 8 digits through the normal equations
)
LEVERAGE_ROUNDING = 1e-8  # see WELL_CONDITIONED_NUMBER
# 1 - h below this is computed from the other rows: 1 - sum of squares lost its digits
SMALL_COMPLEMENT = 1e-6
# multiplications of one sampled risk, about 6 s: fewer contexts are drawn where they would need
# more
RISK_MULTIPLICATIONS = 8e9
FEWEST_CONTEXTS = 16  # contexts that an error can be taken from


class LinearMap(LatentMap):
    """Values v = W phi(k) + noise with a Gaussian latent W; predict the value at a new key.

    Args:
        dim_key, dim_value: d_k, d_v >= 1.
        prior_variance: lam > 0, of each entry of W.
        noise: s > 0, standard deviation of each coordinate of a value around W phi(k).
        features: phi, a function of keys (..., d_k) with values (..., p); None is the identity, p =
            d_k.
        keys: their law, "normal" (N(0, I)) or "sphere" (uniform, unit length).

    >>> task = LinearMap(dim_key=3, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> batch = task.sample(4, length=8, seed=0)
    >>> task.bayes_predict(batch.query, batch.keys, batch.values).shape
    (4, 1)
    >>> [round(task.bayes_risk(length).value, 6) for length in (0, 8, 64)]
    [3.25, 0.414583, 0.262445]
    """

    # -- inference ---------------------------------------------------------------------------------

    def bayes_risk(self, length: int, samples: int = 2000, seed: int = 0) -> Estimate:
        """E|v - E[v | q, context]|^2 over contexts of that length; where no closed form is known,
        at most `samples` key sets are drawn.

        Fewer are drawn where that many would take more than seconds; the error knows, and `method`
        says how many.
        """
        of = f"{type(self).__name__}.bayes_risk"
        length = check.integer(length, "length", of, 0)
        samples = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        noise = self.noise * self.dim_value**0.5
        if (
            self._features is None
            and self.keys == "normal"
            and min(length, self.dim_key) <= LARGEST_SIDE
        ):
            trace = resolvent_trace(
                length, self.dim_key, self.prior_variance / self.noise / self.noise
            )
            scale = self.dim_value * self.prior_variance
            excess = scale * trace.value
            error = scale * trace.error + 4 * EPS * excess  # c and the product are rounded
            return estimate(excess, error, "Wishart resolvent", noise)
        contexts = self._affordable_contexts(length, samples, of)
        blocks = [
            self._left_out(length, m, [seed, i])
            for i, m in enumerate(self._block_sizes(length, contexts))
        ]
        spread = np.concatenate([block[0] for block in blocks])
        most = max(block[1] for block in blocks)
        excess = self.dim_value * spread.mean()
        error = self.dim_value * (
            spread.std(ddof=1) / len(spread) ** 0.5 + unseen(spread, most)
        )
        rounding = LEVERAGE_ROUNDING * excess
        return estimate_over_keys(excess, error, rounding, contexts, samples, noise)

    def _affordable_contexts(self, length: int, samples: int, of: str) -> int:
        """How many contexts RISK_MULTIPLICATIONS lets in, at most `samples`."""
        keys = length + 1
        p = self.dim_features
        # a multiplication in a product of matrices costs a quarter of one in a decomposition
        each = (
            0.0
            if self._features is None
            else float(getattr(self._features, "work", None) or p)
        )
        one = keys * p * float(min(keys, p)) + keys * each / 4
        contexts = affordable(samples, one, RISK_MULTIPLICATIONS, FEWEST_CONTEXTS)
        if not contexts:
            most = f"one that takes at most {RISK_MULTIPLICATIONS / FEWEST_CONTEXTS:.3g} multiplications a context"
            raise bad(
                "length",
                of,
                most,
                f"{length}, with {p} features",
                "a smaller length, or fewer features",
            )
        return contexts

    def _left_out(
        self, length: int, samples: int, seed: list[int]
    ) -> tuple[np.ndarray, float]:
        """phi(q)^T P^-1 phi(q) for sampled sets of length + 1 keys, averaged over which is the
        query.

        (samples,), and the largest value phi(q)^T phi(q) lam that no context would leave.
        """
        keys = self.draw_keys(np.random.default_rng(seed), (samples, length + 1))
        Phi = self.features(keys)
        squares = np.sum(Phi**2, axis=-1)
        ridge = self.noise**2 / self.prior_variance
        most = self.prior_variance * float(squares.max())
        calm = ridge * WELL_CONDITIONED_NUMBER > float(squares.sum(axis=-1).max())
        # fewer keys than features: a small decomposition is faster
        if calm and length >= self.dim_features:
            solved = np.linalg.solve(
                self._posterior_precision(Phi), Phi.swapaxes(-1, -2)
            ).swapaxes(-1, -2)
            h = np.sum(solved * Phi, axis=-1) / self.noise**2  # leverages in (0, 1)
            return np.mean(self.noise**2 * h / (1 - h), axis=-1), most
        left = np.array([_left_out_one(rows, ridge) for rows in Phi])
        return np.mean(self.prior_variance * left, axis=-1), most

    def _block_sizes(self, length: int, samples: int) -> list[int]:
        block = max(1, BLOCK_FEATURE_ENTRIES // ((length + 1) * self.dim_features))
        return [min(block, samples - i) for i in range(0, samples, block)]

    def _posterior_precision(self, Phi: np.ndarray) -> np.ndarray:
        return (
            Phi.swapaxes(-1, -2) @ Phi / self.noise**2
            + np.eye(self.dim_features) / self.prior_variance
        )


def _left_out_one(Phi: np.ndarray, ridge: float) -> np.ndarray:
    """phi_q^T (Psi^T Psi/ridge + I)^-1 phi_q, (n,), Psi the other rows of Phi (n, p).

    By the singular values S of Phi: with t = S^2/(S^2 + ridge) the leverages are h = U^2 t and
    1 - h = U^2 (1 - t) + what the columns of U leave of 1, without cancellation.
    """
    U, S, _ = np.linalg.svd(Phi, full_matrices=False)
    weights = U**2
    h = weights @ (S**2 / (S**2 + ridge))
    rest = weights @ (ridge / (S**2 + ridge))
    if len(Phi) > Phi.shape[1]:
        rest = rest + np.maximum(1 - weights.sum(axis=1), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = ridge * h / rest
    for q in np.flatnonzero(rest < SMALL_COMPLEMENT) if len(Phi) > Phi.shape[1] else ():
        _, S, V = np.linalg.svd(np.delete(Phi, q, axis=0))
        along = (V @ Phi[q]) ** 2
        kept = np.ones(len(along))
        kept[: len(S)] = ridge / (S**2 + ridge)
        out[q] = along @ kept
    return out


def estimate_over_keys(
    excess: float, error: float, rounding: float, contexts: int, samples: int, noise: float
) -> Estimate:
    """A mean over contexts, with a wider error where fewer than `samples` were affordable."""
    method = "Monte Carlo over keys"
    if contexts < samples:
        error = widened(error, contexts)
        method += f", {contexts} contexts"
    return estimate(excess, error + rounding, method, noise)


def unseen(spread: np.ndarray, most: float) -> float:
    """What contexts with more left to learn than all of the sample may add to its mean, in standard
    errors (sampled_mean.py), up to the largest possible value.

    Near L = p with little noise a context that misses a direction is rare and decides the mean: the
    power alpha of the top is then 1/2. Nothing where a context leaves nothing to learn.
    """
    n = len(spread)
    top = np.sort(spread)[-(tail_size(n) + 1) :]
    return unseen_above(top, n, most) if top[0] > 0 else 0.0
