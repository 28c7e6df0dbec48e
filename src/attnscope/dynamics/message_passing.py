"""Message passing for single-location regression: the estimator that attains the Bayes-optimal
curve.

notation: n bags of L tokens X_l in R^d, alpha = n/d, nu = strength, D = noise^2, pi the prior of
the position; k, v the posterior means, each with prior N(0, I/d); S the posterior variances times
d, one for k and one for v.

Fields, with the correction that removes a bag's own contribution, and the posterior of its location
given its label:

    u_l = X_l.k - g^u_l S_k,    w_l = X_l.v - g^w_l S_v,    e_l = y - w_l,    V = D + S_v,
    r_l ~ pi_l exp(sqrt(nu) u_l - e_l^2/(2 V)),     g^u_l = sqrt(nu) r_l,     g^w_l = r_l e_l/V.

Precisions, sums over all tokens of all bags, and the new means:

    P_k = (nu/d) sum r^2,     P_v = (1/d) sum [r/V - r (1 - r) e^2/V^2],     S = 1/(1 + P),
    k <- (X^T g^u/d + (P_k - alpha nu) k) S_k,      v <- (X^T g^w/d + P_v v) S_v.

alpha nu is the tilt -nu |k|^2/2 of each bag; P_k - alpha nu is the mean slope of g^u, exactly,
since a bag's r sum to 1. All of g, P, k, v move half of the way each step: the second moment of the
tokens along k* is 1 + nu at the informative ones, which the Gaussian derivation neglects, and v.k*
overshoots without damping. The start is k = v = 0: the first step finds both directions.

As d -> inf the overlaps k.k* and v.v* of step t follow state_evolution.py, and end at the "reached"
branch of learning_curve. At finite d they scatter around it by O(1/sqrt d).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.planted.random_length import RandomLength
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["MessagePassing", "message_passing"]

DAMPING = 0.5  # share of a step that is taken; module docstring
DAMPING_REDUCTION = 0.5  # factor on that share after a run that did not settle
MOST_TRIES = 4
MOST_STEPS = 400
STOP_CHANGE = 1e-5  # change of k and v a step: a hundredth of their error at d = 10^6
DIVERGED_SQUARED_LENGTH = 4.0  # |k|^2 or |v|^2 beyond this: the truth has 1
SMALLEST_VARIANCE = (
    1e-12  # of a label given its token; labels without noise count as having this
)


@dataclass(frozen=True)
class MessagePassing:
    """The posterior that message passing found.

    Attributes:
        key, value: posterior means (d,) of the unit vectors k*, v*.
        key_variance, value_variance: what is left of |k*|^2 = 1 and |v*|^2 = 1, so that 1 less
            these are the overlaps that the method itself expects.
        expected: (steps, 2) those expected overlaps step by step.
        overlaps: (steps, 2) k.k* and v.v* themselves, where the truth was given.
        converged: whether it came to rest.
        strength, noise, location_probs: the task's parameters, as given.

    >>> import attnscope as at
    >>> task = at.SingleLocation.spiked(dim=50, length=3, strength=5.0, noise=0.3)
    >>> found = at.message_passing(task.sample(400, seed=0), strength=5.0, noise=0.3)
    >>> found.key.shape, found.converged, bool(found.key @ task.key > 0.9)
    ((50,), True, True)
    """

    key: np.ndarray
    value: np.ndarray
    key_variance: float
    value_variance: float
    expected: np.ndarray
    overlaps: np.ndarray | None
    converged: bool
    strength: float
    noise: float
    location_probs: np.ndarray | None

    @property
    def steps(self) -> int:
        """Iterations made."""
        return len(self.expected)

    def predict(self, tokens: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """E[Y | X, the bags], (n,): softmax attention with key sqrt(nu) k and value v."""
        x, real = self._checked_tokens(tokens, mask, "predict")
        return np.sum(self._location_weights(x, real) * (x @ self.value), axis=1)

    def locate(
        self,
        tokens: np.ndarray,
        target: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> np.ndarray:
        """P(J = l | X, the bags), (n, L); with the label seen where `target` (n,) is given."""
        x, real = self._checked_tokens(tokens, mask, "locate")
        if target is None:
            return self._location_weights(x, real)
        y = check.array(target, "target", "message_passing.locate", (len(x),))
        variance = max(self.noise**2 + self.value_variance, SMALLEST_VARIANCE)
        return self._location_weights(
            x, real, -((y[:, None] - x @ self.value) ** 2) / (2 * variance)
        )

    def _checked_tokens(
        self, tokens: object, mask: object, method: str
    ) -> tuple[np.ndarray, np.ndarray | None]:
        length = None if self.location_probs is None else len(self.location_probs)
        return check.tokens_array(
            tokens, f"message_passing.{method}", length, len(self.key), mask
        )

    def _location_weights(
        self, x: np.ndarray, real: np.ndarray | None, label: Any = 0.0
    ) -> np.ndarray:
        scores = math.sqrt(self.strength) * (x @ self.key) + label
        return softmax(scores + _log_prior(self.location_probs, real), axis=1)


class _Bags(NamedTuple):
    tokens: np.ndarray  # (n L, d)
    target: np.ndarray  # (n,)
    log_prior: Any  # (n, L), or 0
    nu: float
    D: float


class _State(NamedTuple):
    k: np.ndarray
    v: np.ndarray
    P: np.ndarray  # (2,)
    g: np.ndarray  # (n L, 2)


def message_passing(
    batch: Any,
    strength: float,
    noise: float,
    location_probs: np.ndarray | None = None,
    task: SingleLocation | RandomLength | None = None,
    steps: int = MOST_STEPS,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> MessagePassing:
    """Estimate key and value from bags, as well as the "reached" branch of learning_curve says.

    Args:
        batch: what `task.sample` gives: tokens (n, L, d), target (n,), and a mask (n, L) where
            lengths differ. Tokens must be as in SingleLocation.spiked: background N(0, I).
        strength: nu > 0, the squared length of the informative token's mean.
        noise: standard deviation of the label noise, >= 0.
        location_probs: (L,) of the positions, uniform if None.
        task: gives the truth, for the overlaps step by step; the estimate does not use it.
        steps: at most.
        start: (key, value) of length below 1 to begin with, instead of zero; from near the truth it
            ends at the "informed" branch.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=200, length=3, strength=5.0, noise=0.3)
    >>> found = message_passing(task.sample(800, seed=1), 5.0, 0.3, task=task)
    >>> found.converged, found.overlaps[-1].round(2)
    (True, array([0.92, 0.97]))
    """
    bags = _checked_bags(batch, strength, noise, location_probs)
    steps = check.integer(steps, "steps", "message_passing", 1)
    n = len(bags.target)
    L = len(bags.tokens) // n
    probs = None
    if location_probs is not None:
        probs = check.probabilities(location_probs, "location_probs", "message_passing", L)
    truth = None if task is None else np.stack([task.key, task.value])
    first = _first_state(bags, start)
    share = DAMPING
    for _ in range(MOST_TRIES):
        state, expected, overlaps, settled = _run_iterations(
            bags, first, L, truth, steps, share
        )
        if settled is not None:
            break
        share *= DAMPING_REDUCTION
    else:
        raise AttnscopeError(
            "the bags of message_passing must come from a spiked task of this strength and noise, got "
            "ones on which it diverges; try standardised tokens, or SingleLocationRegressor."
        )
    S = 1 / (1 + state.P)
    return MessagePassing(
        state.k,
        state.v,
        float(S[0]),
        float(S[1]),
        np.array(expected),
        None if truth is None else np.array(overlaps),
        bool(settled),
        bags.nu,
        math.sqrt(bags.D),
        probs,
    )


def _checked_bags(
    batch: Any, strength: object, noise: object, location_probs: object
) -> _Bags:
    """The arguments in the form that the loop works with."""
    if not isinstance(batch, tuple) or len(batch) < 2:
        raise bad(
            "batch",
            "message_passing",
            "tokens (n, L, d) and target (n,)",
            batch,
            "task.sample(1000)",
        )
    mask = getattr(batch, "mask", None)
    x, real = check.tokens_array(batch[0], "message_passing", mask=mask)
    n, L, d = x.shape
    y = check.float_array(batch[1], "target of the batch", "message_passing", (n,))
    if L < 2:
        raise bad(
            "batch",
            "message_passing",
            "bags of at least 2 tokens",
            "1: there is no location to find",
            "ridge regression",
        )
    nu = check.real(
        strength, "strength", "message_passing", 0, strict=True, hint="strength=5.0"
    )
    eps = check.real(noise, "noise", "message_passing", 0, hint="noise=0.3")
    probs = None
    if location_probs is not None:
        probs = check.probabilities(location_probs, "location_probs", "message_passing", L)
    return _Bags(x.reshape(n * L, d), y, _log_prior(probs, real), nu, eps**2)


def _log_prior(probs: np.ndarray | None, real: np.ndarray | None) -> Any:
    """Logarithm of the prior, -inf on padding and impossible positions; a constant is left out."""
    with np.errstate(divide="ignore"):
        prior: Any = 0.0 if probs is None else np.log(probs)
    return prior if real is None else np.where(real, prior, -np.inf)


def _first_state(bags: _Bags, start: Any) -> _State:
    """Where it begins: at zero, or at given means with the precisions that go with them."""
    d = bags.tokens.shape[1]
    g = np.zeros((len(bags.tokens), 2))
    if start is None:
        return _State(np.zeros(d), np.zeros(d), np.zeros(2), g)
    if not isinstance(start, (tuple, list)) or len(start) != 2:
        raise bad(
            "start",
            "message_passing",
            "a key and a value, each (d,)",
            start,
            "start=(key, value)",
        )
    k, v = (check.float_array(x, "start", "message_passing", (d,)) for x in start)
    q = np.array([k @ k, v @ v])
    if not (q < 1).all():
        got = f"{math.sqrt(float(q.max())):.6g}"
        raise bad(
            "start",
            "message_passing",
            "vectors of length below 1",
            got,
            "0.99 times a unit vector",
        )
    return _State(k, v, q / (1 - q), g)


def _run_iterations(
    bags: _Bags,
    first: _State,
    L: int,
    truth: np.ndarray | None,
    steps: int,
    share: float,
) -> tuple[_State, list, list, bool | None]:
    """(last state, expected overlaps, true overlaps, whether it came to rest); None for the last
    where it diverged.
    """
    state = first
    zero = not first.P.any()
    expected = []
    overlaps = []
    for step in range(steps):
        new = _next_state(bags, state, L, 1.0 if step == 0 and zero else share)
        moved = max(
            float(np.linalg.norm(new.k - state.k)), float(np.linalg.norm(new.v - state.v))
        )
        state = new
        expected.append(state.P / (1 + state.P))
        if truth is not None:
            overlaps.append([state.k @ truth[0], state.v @ truth[1]])
        size = max(float(state.k @ state.k), float(state.v @ state.v))
        if not size < DIVERGED_SQUARED_LENGTH:  # NaN too
            return state, expected, overlaps, None
        if step and moved < STOP_CHANGE * share:
            return state, expected, overlaps, True
    return state, expected, overlaps, False


def _next_state(bags: _Bags, state: _State, L: int, share: float) -> _State:
    """One step, of which this share is taken."""
    n = len(bags.target)
    d = bags.tokens.shape[1]
    S = 1 / (1 + state.P)
    V = max(bags.D + float(S[1]), SMALLEST_VARIANCE)
    fields = bags.tokens @ np.stack([state.k, state.v], axis=1) - state.g * S
    u = fields[:, 0].reshape(n, L)
    e = bags.target[:, None] - fields[:, 1].reshape(n, L)
    r = softmax(math.sqrt(bags.nu) * u - e * e / (2 * V) + bags.log_prior, axis=1)
    g = np.stack([math.sqrt(bags.nu) * r.ravel(), (r * e).ravel() / V], axis=1)
    g = state.g + share * (g - state.g)
    P_k = bags.nu / d * float(np.sum(r * r))
    P_v = float(np.sum(r / V - r * (1 - r) * (e / V) ** 2)) / d
    # a sum that is positive on average; on few bags it need not be
    P = state.P + share * (np.array([P_k, max(P_v, 0.0)]) - state.P)
    S = 1 / (1 + P)
    votes = g.T @ bags.tokens / d
    k = (votes[0] + (P[0] - n / d * bags.nu) * state.k) * S[0]
    v = (votes[1] + P[1] * state.v) * S[1]
    return _State(
        state.k + share * (k - state.k),
        state.v + share * (v - state.v),
        P,
        g,
    )
