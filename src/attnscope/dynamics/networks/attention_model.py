"""A small attention model, fitted to contexts by least squares: one code for supervised and for
masked objectives.

notation: k_l, v_l = keys (n, L, d) and values (n, L, d_v) of a context, q = queries (n, M, d), y =
targets (n, M, d_y), r = o - y.

    o = O z,   z = sum_l w_l v_l,   w_l = exp(q'A k_l)/(exp(b) + sum_j exp(q'A k_j)),
        parameters A (d, d), sink logit b or none, O (d_y,
    d_v),

and the risk is the mean over sequences and queries of |o - y|^2. A supervised objective has labels
as targets; a masked one hides tokens: the query is the key of a hidden token and the target its
value. With C = sum_l w_l (v_l - z) k_l' (d_v, d) and w_0 the sink's weight

    do/dA_ij = q_i (O C)_j,     do/db = -w_0 O z,     do_y/dO_yc = z_c,

so one pass gives all derivatives, and `fit` runs Levenberg-Marquardt on them: seconds, no step size
to choose.

What a fit on n sequences is worth: fit_statistics.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.progress import progress as progress_bar
from attnscope.tasks.exchangeable.linear_map import LinearMap

__all__ = [
    "AttentionParameters",
    "Contexts",
    "Fit",
    "Pass",
    "attend",
    "checked_contexts",
    "checked_parameters",
    "fit",
    "losses",
    "task_contexts",
]

# beyond |b| = 30 the sink's weight is 0 or 1 to roundoff: the fit need not follow it further
SINK_RANGE = 30.0
RIDGE_SHARE = (
    # relative damping that is always there: keeps directions without effect (a vanished sink) from
    # blowing up
    1e-12
)
# a fit ends when a step promises less than this share of the risk; statistical errors are above
# 1e-5
FIT_TOLERANCE = 1e-9


class Contexts(NamedTuple):
    """keys (n, L, d), values (n, L, d_v), queries (n, M, d), targets (n, M, d_y)."""

    keys: np.ndarray
    values: np.ndarray
    queries: np.ndarray
    targets: np.ndarray


class AttentionParameters(NamedTuple):
    """Parameters of the small attention model: o = O sum_l softmax(q'A k_l) v_l.

    Args:
        query_key: A (d, d), of the scores q'A k.
        sink: logit b of one more token of value 0; None: no sink.
        output: O (d_y, d_v).

    >>> import attnscope as at
    >>> import numpy as np
    >>> parameters = at.AttentionParameters(query_key=np.eye(2), sink=None, output=np.eye(2))
    >>> parameters.query_key.shape, parameters.sink
    ((2, 2), None)
    """

    query_key: np.ndarray
    sink: float | None
    output: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        """All parameters as one vector: A, b if there is one, O."""
        b = [] if self.sink is None else [self.sink]
        return np.concatenate([np.ravel(self.query_key), b, np.ravel(self.output)])

    def with_vector(self, x: np.ndarray) -> AttentionParameters:
        """The parameters of this shape with the numbers x, in the order of `vector`."""
        a = np.size(self.query_key)
        o = np.size(self.output)
        size = a + o + (self.sink is not None)
        x = check.array(x, "x", "AttentionParameters.with_vector", (size,), finite=False)
        b = None if self.sink is None else float(np.clip(x[a], -SINK_RANGE, SINK_RANGE))
        return AttentionParameters(
            x[:a].reshape(np.shape(self.query_key)),
            b,
            x[len(x) - o :].reshape(np.shape(self.output)),
        )


class Fit(NamedTuple):
    """parameters, risk on the fitted contexts after every iteration (the last is the final one),
    whether the tolerance was reached.
    """

    parameters: AttentionParameters
    risks: np.ndarray
    converged: bool


def task_contexts(
    task: LinearMap,
    n: int,
    length: int,
    objective: str = "masked",
    label: np.ndarray | None = None,
    label_noise: float = 0.0,
    seed: int = 0,
) -> Contexts:
    """n contexts of a task with one query each.

    Args:
        task: a LinearMap, as LinearMap(keys="sphere") or SphereRegression.
        n: how many, >= 1.
        length: tokens in a context.
        objective: "masked": one of length + 1 tokens is hidden, the target is its value.
            "supervised": the target is label @ E[v | k = q, latent] + label_noise, a label of the
            latent that never enters the context.
        label: (d_y, d_v), of the supervised objective; the identity if None.
        label_noise: its standard deviation, >= 0.
        seed: of the draws.

    >>> import attnscope as at
    >>> task = at.LinearMap(dim_key=2, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> contexts = at.task_contexts(task, 50, length=8)
    >>> contexts.keys.shape, contexts.queries.shape, contexts.targets.shape
    ((50, 8, 2), (50, 1, 2), (50, 1, 1))
    """
    of = "task_contexts"
    if not all(callable(getattr(task, name, None)) for name in ("masked", "sample")):
        raise bad("task", of, "a LinearMap or a SphereRegression", task, "LinearMap()")
    if objective not in ("masked", "supervised"):
        raise bad("objective", of, "'masked' or 'supervised'", objective)
    if objective == "masked":
        b = task.masked(n, length, seed)
        return Contexts(b.keys, b.values, b.query[:, None], b.target[:, None])
    b = task.sample(n, length, seed)
    T = (
        np.eye(task.dim_value)
        if label is None
        else check.array(label, "label", of, (None, task.dim_value))
    )
    y = task.conditional_mean(b.latent, b.query) @ T.T
    noise = check.real(label_noise, "label_noise", of, 0) * np.random.default_rng(
        [seed, 2]
    ).standard_normal(y.shape)
    return Contexts(b.keys, b.values, b.query[:, None], (y + noise)[:, None])


def attend(parameters: AttentionParameters, contexts: Contexts) -> np.ndarray:
    """Outputs o (n, M, d_y).

    Args:
        parameters: of the model.
        contexts: keys (n, L, d), values (n, L, d_v) and queries (n, M, d); `task_contexts` makes
            them.

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.LinearMap(dim_key=2, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> contexts = at.task_contexts(task, 50, length=8)
    >>> alike = at.AttentionParameters(np.zeros((2, 2)), None, np.eye(1))
    >>> bool(np.allclose(at.attend(alike, contexts)[:, 0], contexts.values.mean(axis=1)))
    True
    """
    given = checked_contexts(contexts, "attend")
    return _layer_outputs(checked_parameters(parameters, given, "attend"), given)


def _layer_outputs(parameters: AttentionParameters, contexts: Contexts) -> np.ndarray:
    weights, _ = _attention_weights(parameters, contexts)
    return weights @ contexts.values @ parameters.output.T


def losses(parameters: AttentionParameters, contexts: Contexts) -> np.ndarray:
    """Mean over queries of |o - y|^2, per sequence (n,)."""
    return np.mean(
        np.sum((_layer_outputs(parameters, contexts) - contexts.targets) ** 2, axis=2), axis=1
    )


def fit(
    contexts: Contexts,
    start: AttentionParameters | None = None,
    sink: bool = True,
    iterations: int = 100,
    progress: bool = True,
) -> Fit:
    """Least squares by Levenberg-Marquardt; `iterations` bounds the accepted and refused steps
    together.

    `start`: identity scores, sink logit 0 if `sink`, and the least-squares output map for them, if
    None.
    """
    contexts = checked_contexts(contexts)
    run = Pass(contexts)
    theta = run.start(sink) if start is None else start
    residual, jacobian = run.linearised(theta)
    risks = [run.risk(residual)]
    damping = 1e-3
    converged = False
    with progress_bar(iterations, "fitting attention", disable=not progress) as bar:
        for _ in range(iterations):
            bar.advance()
            gram = jacobian.T @ jacobian
            slope = jacobian.T @ residual
            scale = np.diag(gram) + RIDGE_SHARE * np.trace(gram)
            step = np.linalg.solve(gram + np.diag((damping + RIDGE_SHARE) * scale), slope)
            if slope @ step <= FIT_TOLERANCE * (residual @ residual):
                converged = True
                break
            new = theta.with_vector(theta.vector - step)
            trial = run.linearised(new)
            if run.risk(trial[0]) < risks[-1]:
                theta, (residual, jacobian), damping = new, trial, damping / 5
                risks.append(run.risk(residual))
            else:
                damping *= 4
    return Fit(theta, np.array(risks), converged)


def _attention_weights(p: AttentionParameters, c: Contexts) -> tuple[np.ndarray, np.ndarray]:
    """Attention weights (n, M, L) and the sink's (n, M)."""
    scores = (c.queries @ p.query_key) @ c.keys.transpose(0, 2, 1)  # (n, M, L)
    top = scores.max(axis=2, keepdims=True)
    if p.sink is not None:
        top = np.maximum(top, p.sink)
    w = np.exp(np.subtract(scores, top, out=scores), out=scores)
    rest = np.zeros_like(top) if p.sink is None else np.exp(p.sink - top)
    total = w.sum(axis=2, keepdims=True) + rest
    return np.divide(w, total, out=w), (rest / total)[:, :, 0]


class Pass:
    """Residuals and their derivatives on fixed contexts; products v k' are formed once."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        k = contexts.keys
        v = contexts.values
        n, L, _ = k.shape
        self.features = np.concatenate(
            [v, k, (v[:, :, :, None] * k[:, :, None, :]).reshape(n, L, -1)], axis=2
        )

    def linearised(self, p: AttentionParameters) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (N,) and their derivatives (N, p), N = n M d_y."""
        c, (w, w0) = self.contexts, _attention_weights(p, self.contexts)
        n, M, d = c.queries.shape
        dv = c.values.shape[2]
        dy = c.targets.shape[2]
        mixed = w @ self.features
        z = mixed[:, :, :dv]
        wk = mixed[:, :, dv : dv + d]
        wvk = mixed[:, :, dv + d :].reshape(n, M, dv, d)
        o = z @ p.output.T
        OC = p.output @ (wvk - z[:, :, :, None] * wk[:, :, None, :])  # (n, M, d_y, d)
        parts = [
            (c.queries[:, :, None, :, None] * OC[:, :, :, None, :]).reshape(n, M, dy, d * d)
        ]
        if p.sink is not None:
            parts.append(-(w0[:, :, None] * o)[:, :, :, None])
        parts.append(
            (np.eye(dy)[:, :, None] * z[:, :, None, None, :]).reshape(n, M, dy, dy * dv)
        )
        return (o - c.targets).ravel(), np.concatenate(parts, axis=3).reshape(n * M * dy, -1)

    def risk(self, residual: np.ndarray) -> float:
        n, M = self.contexts.queries.shape[:2]
        return float(residual @ residual) / (n * M)

    def gradients(self, p: AttentionParameters) -> np.ndarray:
        """Gradient of every sequence's loss (n, p)."""
        residual, jacobian = self.linearised(p)
        n, M = self.contexts.queries.shape[:2]
        return (
            2
            / M
            * np.sum((residual[:, None] * jacobian).reshape(n, -1, jacobian.shape[1]), axis=1)
        )

    def start(self, sink: bool) -> AttentionParameters:
        d = self.contexts.queries.shape[2]
        dv = self.contexts.values.shape[2]
        dy = self.contexts.targets.shape[2]
        first = AttentionParameters(np.eye(d), 0.0 if sink else None, np.zeros((dy, dv)))
        z = (_attention_weights(first, self.contexts)[0] @ self.contexts.values).reshape(
            -1, dv
        )
        return first._replace(
            output=np.linalg.lstsq(z, self.contexts.targets.reshape(-1, dy), rcond=None)[0].T
        )


def checked_contexts(contexts: Contexts, of: str = "fit") -> Contexts:
    """Contexts whose shapes agree, as float64."""
    if not isinstance(contexts, tuple) or len(contexts) != 4:
        raise bad("contexts", of, "Contexts", contexts, "task_contexts(task, n, length)")
    contexts = Contexts(*contexts)
    k = check.array(contexts.keys, "keys", of, (None, None, None))
    n, L, d = k.shape
    v = check.array(contexts.values, "values", of, (n, L, None))
    q = check.array(contexts.queries, "queries", of, (n, None, d))
    return Contexts(
        k, v, q, check.array(contexts.targets, "targets", of, (n, q.shape[1], None))
    )


def checked_parameters(
    parameters: AttentionParameters, contexts: Contexts, of: str
) -> AttentionParameters:
    """Parameters whose shapes agree with those of the contexts, as float64."""
    if not isinstance(parameters, tuple) or len(parameters) != 3:
        raise bad("parameters", of, "AttentionParameters", parameters)
    query_key, sink, output = parameters
    d, d_v, d_y = (x.shape[-1] for x in (contexts.keys, contexts.values, contexts.targets))
    return AttentionParameters(
        check.array(query_key, "query_key", of, (d, d)),
        None if sink is None else check.real(sink, "sink", of),
        check.array(output, "output", of, (d_y, d_v)),
    )
