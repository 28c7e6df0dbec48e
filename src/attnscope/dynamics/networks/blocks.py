"""Training of whole sequence models on single-location regression, by Adam on fresh batches, and
what is watched meanwhile.

notation: T the model, X_J the informative token, k*, v* the task's directions, s_i the singular
values of a head's query-key matrix W_Q'W_K.

Each of `steps` updates draws a fresh batch and takes one Adam step on its squared loss, clipped to
a gradient norm of GRADIENT_CLIP_NORM; the step size rises linearly over the first WARM_UP_SHARE of the steps to
`step_size` and then falls to 0 along a cosine. Logged on one fixed test batch:

    excess   mean of (T(X) - X_J.v*)^2 with its standard error: the risk over noise^2, measured
        without the label's noise
    key_alignment   cosine of each head's key direction with k*
        (attention only; directions as predictors.blocks.transformer defines them)
    value_alignment   cosine of each head's value direction with v*    (attention only)
    sensitivity       v*.E[dT/dX_J], 1 for a predictor that reads X_J.v*: defined for every model
    concentration   s_1^2/sum s_i^2 and effective_rank exp(entropy of s_i^2/sum s^2) of each head
        (blocks only)

By Stein's lemma E[dT/dX_J] = E[T(X) (X_J - s k*)]/gam^2 and, over background tokens, E[grad S(x)] =
E[S(x) x] for a logit S: both can be had without a derivative, which is how they are tested.

Approximate by nature: training is in float32 by default (its rounding, 1e-7 a step, is
far below the noise of the batches), and measured risks have sampling errors, which are given. Run i
depends on (seed, i) only: all runs go through one executable one by one. The exact risk of a
trained SimplifiedAttention is `simplified_risk`: the risk is quadratic in |v| = a with value E[Y^2]
at a = 0, so with R+ and
R- the exact risks of unit vectors k, v and k, -v,
    R(a) = (1 - a^2) E[Y^2] + (a^2 + a)/2 R+ + (a^2 - a)/2 R-.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.dynamics.engines.full_vectors import draw_batch
from attnscope.dynamics.engines.jax_stepper import FAST_COMPILE, GENERATOR
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.optional import needs
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.blocks.compared_models import SimplifiedAttention, has_two_vectors
from attnscope.predictors.blocks.sequence_model import (
    Parameters,
    SequenceModel,
    is_sequence_model,
)
from attnscope.predictors.blocks.transformer import has_query_key
from attnscope.progress import progress as progress_bar
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import checked_task, risk

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BlockHistory",
    "check_fits",
    "cosine",
    "mean_and_error",
    "noiseless_batch",
    "simplified_risk",
    "train_block",
]

# gradient norm: ordinary batches are below it after the first steps, so it only tames the start and
# rare outliers
GRADIENT_CLIP_NORM = 1.0
# share of the steps; Adam's second moments need some tens of steps before full steps are safe
WARM_UP_SHARE = 0.05
TEST_STREAM = 11  # of the seed, apart from training's, which are JAX keys
# of the three terms of simplified_risk, relative: a handful of roundings each
RISK_TERM_ROUNDING = 1e-15
DIRECTION_SEQUENCES = 128  # test sequences whose gradients are averaged for directions


@dataclass(frozen=True, eq=False)
class BlockHistory:
    """What `train_block` returns.

    Attributes:
        task, model: what was trained, and on what.
        step: (logs,) 0, log_every, ..., always ending with the last step.
        excess, error: (runs, logs) measured risk over noise^2 on the fixed test batch, and its
            standard error.
        watched: what the module docstring lists, by name: (runs, logs) or (runs, logs, heads).
            Names that a model has not are absent.
        parameters: one dict per run, float64, after the last step; what model.predict takes.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=8, length=4)
    >>> run = at.train_block(task, at.SimplifiedAttention(8), steps=20, progress=False)
    >>> run.step.shape, run.excess.shape, len(run.parameters)
    ((21,), (1, 21), 1)
    """

    task: SingleLocation
    model: SequenceModel
    step: np.ndarray
    excess: np.ndarray
    error: np.ndarray
    watched: dict[str, np.ndarray]
    parameters: tuple[Parameters, ...]

    def __repr__(self) -> str:
        end = np.median(self.excess[:, -1])
        return (
            f"BlockHistory({self.model!r}, {self.runs} runs, {int(self.step[-1])} steps: median "
            f"excess {end:.4g})"
        )

    @property
    def runs(self) -> int:
        return len(self.excess)

    @property
    def references(self) -> dict[str, float]:
        """Exact excess risks to compare with: Bayes, best linear, null."""
        exact = {
            "bayes": self.task.bayes_risk(),
            "linear": self.task.linear_risk(),
            "null": self.task.null_risk(),
        }
        return {name: float(estimated.excess) for name, estimated in exact.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row per run and logged step: run, step, excess, error,
        then what was watched (one column per head).
        """
        import pandas as pd

        logs = len(self.step)
        columns: dict[str, Any] = {
            "run": np.repeat(np.arange(self.runs), logs),
            "step": np.tile(self.step, self.runs),
        }
        columns |= {"excess": self.excess.ravel(), "error": self.error.ravel()}
        for name, x in self.watched.items():
            parts = (
                {name: x}
                if x.ndim == 2
                else {f"{name}_{h}": x[:, :, h] for h in range(x.shape[2])}
            )
            columns |= {label: part.ravel() for label, part in parts.items()}
        return pd.DataFrame(columns)


def train_block(
    task: SingleLocation,
    model: SequenceModel,
    steps: int = 2000,
    batch_size: int = 64,
    step_size: float = 5e-3,
    runs: int = 1,
    log_every: int | None = None,
    seed: int = 0,
    test_size: int = 4096,
    dtype: str = "float32",
    progress: bool = True,
) -> BlockHistory:
    """Train `runs` copies of a model on fresh batches of the task (module docstring).

    Args:
        task: a SingleLocation.
        model: a TransformerBlock, SimplifiedAttention, DenseNet or GatedRecurrent for its dim.
        steps: updates of Adam.
        batch_size: fresh sequences a step.
        step_size: the largest, after warm-up; it falls to 0.
        runs: copies, each from its own start.
        log_every: steps between log points; None logs some 20 times.
        seed: run i is a function of (seed, i).
        test_size: sequences of the fixed test batch, >= 2.
        dtype: "float32" or "float64" of the training.
        progress: show a bar on stderr if that is a terminal.

    >>> from attnscope.predictors.blocks.compared_models import SimplifiedAttention
    >>> run = train_block(SingleLocation(dim=8, length=4), SimplifiedAttention(8), steps=20, progress=False)
    >>> int(run.step[-1]), run.excess.shape == run.error.shape == (1, 21)
    (20, True)
    """
    of = "train_block"
    needs("jax", of)
    needs("optax", of)
    check_fits(checked_task(task, of), model, of)
    steps = check.integer(steps, "steps", of, 1)
    runs = check.integer(runs, "runs", of, 1)
    every = (
        max(1, steps // 20)
        if log_every is None
        else check.integer(log_every, "log_every", of, 1)
    )
    test = noiseless_batch(
        task, check.integer(test_size, "test_size", of, 2), check.seed_value(seed, of)
    )
    trainer = _Trainer(
        task,
        model,
        steps,
        check.integer(batch_size, "batch_size", of, 1),
        check.real(step_size, "step_size", of, 0, 1e30, strict=True),  # a float32 number
        check.float_dtype(dtype, of),
    )
    logged = np.unique(np.append(np.arange(0, steps, every), steps))
    with progress_bar(
        steps * runs, f"training {type(model).__name__}", disable=not progress
    ) as bar:
        results = [trainer.run(seed, i, logged, bar.advance) for i in range(runs)]
    rows = [[_logged_quantities(task, model, p, test) for p in run] for run in results]
    watched = {
        name: np.array([[row[name] for row in run] for run in rows]) for name in rows[0][0]
    }
    excess = watched.pop("excess")
    error = watched.pop("error")
    return BlockHistory(
        task, model, logged, excess, error, watched, tuple(run[-1] for run in results)
    )


def check_fits(task: SingleLocation, model: object, of: str) -> None:
    if not is_sequence_model(model):
        raise bad("model", of, "a sequence model", model, "TransformerBlock(dim=task.dim)")
    if model.dim != task.dim:
        raise bad("model", of, f"one for tokens of dimension {task.dim}", f"dim={model.dim}")
    length = getattr(model, "length", task.length)  # that of a model for one length
    if length != task.length:
        must = f"one for sequences of {task.length} tokens"
        raise bad("model", of, must, f"length={length}")


def noiseless_batch(task: SingleLocation, n: int, seed: int) -> Batch:
    """A batch whose targets have no noise: X_J.v*."""
    stream = int(np.random.SeedSequence([seed, TEST_STREAM]).generate_state(1)[0])
    batch = task.sample(n, stream, "float32")
    informative = batch.tokens[np.arange(n), batch.location].astype(np.float64)
    return Batch(batch.tokens, informative @ task.value, batch.location)


class _Trainer:
    """One executable that advances parameters and optimiser by any number of steps."""

    def __init__(
        self,
        task: SingleLocation,
        model: SequenceModel,
        steps: int,
        batch_size: int,
        step_size: float,
        dtype: np.dtype,
    ) -> None:
        import optax

        self.task = task
        self.model = model
        self.batch_size = batch_size
        self.step_size = step_size
        self.dtype = dtype
        rise = max(1, int(WARM_UP_SHARE * steps))
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, step_size, rise, max(steps, rise + 1)
        )
        self.optimiser = optax.chain(
            optax.clip_by_global_norm(GRADIENT_CLIP_NORM), optax.adam(schedule)
        )
        self.compiled: Callable[..., Any] | None = None

    def run(
        self, seed: int, number: int, logged: np.ndarray, advance: Callable[[float], None]
    ) -> list[Parameters]:
        """The parameters at the logged steps of run `number`."""
        import jax

        start = self.model.init(
            int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        )
        with jax.enable_x64(self.dtype == np.float64), jax.ensure_compile_time_eval():
            if self.compiled is None:
                self.compiled = jax.jit(self._train_steps, compiler_options=FAST_COMPILE)
            p = {name: jax.numpy.asarray(x, self.dtype) for name, x in start.items()}
            memory = self.optimiser.init(p)
            key = jax.random.key_data(
                jax.random.fold_in(jax.random.key(seed, impl=GENERATOR), number)
            )
            out = [start]
            for before, after in pairwise(logged):
                p, memory = self.compiled(p, memory, key, int(before), int(after))
                out.append({name: np.asarray(x, np.float64) for name, x in p.items()})
                if not all(np.isfinite(x).all() for x in out[-1].values()):
                    raise AttnscopeError(
                        "step_size of train_block must keep the parameters finite, got "
                        f"{self.step_size:g}, at which run {number} "
                        f"left the finite numbers before step {after}; try {self.step_size / 10:g}."
                    )
                advance(int(after - before))
        return out

    def _train_steps(
        self, p: Any, memory: Any, key_data: Any, first: Any, last: Any
    ) -> tuple[Any, Any]:
        import jax
        import optax

        key = jax.random.wrap_key_data(key_data, impl=GENERATOR)

        def step(t: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            p, memory = state
            tokens, label = draw_batch(self.task, jax.random.fold_in(key, t), self.batch_size)
            loss = lambda q: ((self.model.output(q, tokens) - label) ** 2).mean()
            move, memory = self.optimiser.update(jax.grad(loss)(p), memory, p)
            return optax.apply_updates(p, move), memory

        return jax.lax.fori_loop(first, last, step, (p, memory))


def _logged_quantities(
    task: SingleLocation, model: SequenceModel, p: Parameters, test: Batch
) -> dict[str, Any]:
    """Everything that is logged of one set of parameters."""
    loss = (model.predict(p, test.tokens) - test.target) ** 2
    found: dict[str, Any] = dict(zip(("excess", "error"), mean_and_error(loss)))
    found["sensitivity"] = float(
        model.sensitivity(
            p, test.tokens[:DIRECTION_SEQUENCES], test.location[:DIRECTION_SEQUENCES]
        )
        @ task.value
    )
    if hasattr(model, "directions"):
        key, value = model.directions(p, test.tokens[:DIRECTION_SEQUENCES])
        found |= {
            "key_alignment": cosine(key, task.key),
            "value_alignment": cosine(value, task.value),
        }
    if has_query_key(model):
        squares = np.linalg.svd(model.query_key(p), compute_uv=False) ** 2  # (heads, d)
        share = squares / squares.sum(axis=1, keepdims=True)
        entropy = -np.sum(share * np.log(np.maximum(share, 1e-300)), axis=1)
        found |= {"concentration": share.max(axis=1), "effective_rank": np.exp(entropy)}
    return found


def cosine(rows: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Cosines (h,) of rows (h, d) with a unit vector; 0 for a row without direction."""
    size = np.linalg.norm(rows, axis=1)
    return rows @ unit / np.where(size > 0, size, 1.0)


def mean_and_error(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(len(x))


def simplified_risk(
    task: SingleLocation, model: SimplifiedAttention, parameters: Parameters
) -> Estimate:
    """Exact risk of a trained SimplifiedAttention, vectors of any length (module docstring).

    Args:
        task: a SingleLocation.
        model: a SimplifiedAttention.
        parameters: its vectors "k" and "v", of any positive length.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=8, length=4)
    >>> parameters = {"k": 0.5 * task.key, "v": task.value}
    >>> round(at.simplified_risk(task, at.SimplifiedAttention(8), parameters).value, 4)
    0.2712
    """
    of = "simplified_risk"
    if not has_two_vectors(model):
        raise bad(
            "model", of, "a SimplifiedAttention", model, "length_curve for other models"
        )
    check_fits(checked_task(task, of), model, of)
    p = model._checked_parameters(parameters, of)
    size_k = np.linalg.norm(p["k"])
    size_v = np.linalg.norm(p["v"])
    if not (size_k > 0 and size_v > 0):
        raise bad("parameters", of, "vectors k and v of positive length", "a zero vector")
    kind = Softmax if model.kind == "softmax" else Erf
    predictor = kind(float(model.inverse_temperature * size_k))
    plus, minus = (
        risk(task, predictor, Overlaps.of(task, p["k"] / size_k, sign * p["v"] / size_v))
        for sign in (1, -1)
    )
    second = task.gamma**2 + (task.signal * task.alignment) ** 2  # E[Y^2] without noise
    up = (size_v**2 + size_v) / 2
    down = (size_v**2 - size_v) / 2
    excess = (1 - size_v**2) * second + up * plus.excess + down * minus.excess
    terms = abs(1 - size_v**2) * second + up * plus.excess + abs(down) * minus.excess
    error = up * plus.error + abs(down) * minus.error + RISK_TERM_ROUNDING * terms
    return estimate(float(excess), float(error), plus.method, task.noise)
