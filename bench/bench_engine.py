"""The reduced engines of the erf predictor against plain vector steps, measured in one run.

The baseline is the step a careful researcher would write: jitted JAX in vectors, one run, numbers
on the device, keys drawn ahead. Every row is gated on a correctness check (a frozen state is fast
too); compile time is printed apart.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from numba import njit
from scipy.stats import ks_2samp
from table import heading, row, seconds

from attnscope.dynamics.engines import population_erf
from attnscope.dynamics.engines.population_erf import population_steps
from attnscope.dynamics.engines.sgd_erf import seed_generators, sgd_steps
from attnscope.dynamics.experiments import EXPERIMENTS, run_experiment
from attnscope.dynamics.train import train
from attnscope.numerics.border.x64 import x64
from attnscope.numerics.compiled.fast_erf import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES, to_tiles
from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law

GAMMA = 0.5**0.5
LENGTH = 10
NOISE = 0.1
BATCH = 5
RUNS = 30
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
ROOT_PI = np.pi**0.5


# ------------------------------------------------ the baseline: steps in vectors, k*, v* the first
# two axes


def erf1(x):
    return 2 / ROOT_PI * jnp.exp(-x * x)


def second_moment(a, q):
    """Z = erf(a)^2 + (4/pi) int_{1/q}^1 e^{-a^2(1+x^2)} / (1+x^2) dx."""
    width = 1 - 1 / q
    y = 1 + (1 / q + width * 0.5 * (NODES + 1)) ** 2
    return erf(a) ** 2 + 2 / np.pi * width * jnp.sum(WEIGHTS * jnp.exp(-a * a * y) / y)


def risk(k, v, lam, gam, s, length):
    kap = k[0]
    eta = k[1]
    the = v[0]
    nu = v[1]
    rho = k @ v
    S = jnp.sqrt(1 + 2 * (lam * gam) ** 2)
    q = jnp.sqrt(1 + 4 * (lam * gam) ** 2)
    others = length - 1
    m = lam * s / S
    n = lam * gam**2 / S
    C = 2 * lam / jnp.sqrt(jnp.pi * (1 + 2 * lam**2))
    a = m * kap
    A = erf(a)
    E = erf1(a)
    B = erf(a / q)
    F = erf1(a / q)
    H = (
        8 / np.pi * lam**2 / (jnp.sqrt(1 + 4 * lam**2) * (1 + 2 * lam**2))
        + (length - 2) * C**2
    )
    out = (s**2 * the**2 + gam**2) * second_moment(a, q) - 2 * gam**2 * (
        nu * A + m * eta * the * E
    )
    out += 4 * n**2 * rho * a * E * (eta - rho * B) + 4 * gam**2 * m * the * rho * B * E
    out += 2 * n**2 * rho**2 * E * F / q + others * H * rho**2
    return out + 2 * others * C * rho * (s * the * A + n * rho * E)


def sphere_step(x, gradient, alpha):
    x = x - alpha * (gradient - (x @ gradient) * x)
    return x / jnp.linalg.norm(x)


@jax.jit
def population_vector_step(k, v, lam, gam, s, length, alpha):
    gk, gv = jax.grad(risk, (0, 1))(k, v, lam, gam, s, length)
    return sphere_step(k, gk, alpha), sphere_step(v, gv, alpha)


@jax.jit
def sgd_vector_step(k, v, lam, gam, s, eps, alpha, key):
    token_key, noise_key = jax.random.split(key)
    tokens = jax.random.normal(token_key, (BATCH, LENGTH, k.size))
    tokens = tokens.at[:, 0].multiply(gam).at[:, 0, 0].add(s)
    target = tokens[:, 0, 1] + eps * jax.random.normal(noise_key, (BATCH,))
    u = lam * tokens @ k
    w = tokens @ v
    sigma = erf(u)
    factor = 2 / BATCH * (jnp.sum(sigma * w, axis=1) - target)[:, None]
    gk = jnp.einsum("bl,bld->d", factor * lam * erf1(u) * w, tokens)
    gv = jnp.einsum("bl,bld->d", factor * sigma, tokens)
    return sphere_step(k, gk, alpha), sphere_step(v, gv, alpha)


def vector_seconds(step, start, extra, steps=2000):
    """Seconds per step of a Python loop over the jitted step: the least of three loops."""
    best = np.inf
    for _ in range(3):
        k, v = jax.block_until_ready(step(*start, *extra[0]))
        clock = time.perf_counter()
        for i in range(steps):
            k, v = step(k, v, *extra[i % len(extra)])
        jax.block_until_ready((k, v))
        best = min(best, (time.perf_counter() - clock) / steps)
    return best


# ------------------------------------------------ starts and gates


def sphere_vectors(runs, dim, seed=0):
    x = np.random.default_rng(seed).normal(size=(2, runs, dim))
    return x / np.linalg.norm(x, axis=2, keepdims=True)


def overlaps_of(k, v):
    return np.array([k[:, 0], k[:, 1], v[:, 0], v[:, 1], np.sum(k * v, axis=1)])


def on_device(*numbers):
    """On the device once: a Python float would cost dispatch time at every step."""
    return tuple(jnp.asarray(x, float) for x in numbers)


def gate_population(k, v, numbers, law):
    """200 steps of three runs, in vectors and in overlaps."""
    vectors = [(jnp.asarray(k[i]), jnp.asarray(v[i])) for i in range(3)]
    for _ in range(200):
        vectors = [population_vector_step(*pair, *numbers) for pair in vectors]
    expected = overlaps_of(*(np.array([pair[j] for pair in vectors]) for j in (0, 1)))
    start = overlaps_of(k[:3], v[:3])
    got = population_steps(start, np.full(200, 0.1), 4e-3, law)
    assert np.abs(got - start).max() > 1e-3, "the state is frozen"
    assert np.abs(got - expected).max() < 1e-12, "population engine: wrong overlaps"


def gate_sgd(k, v, numbers, setting, paths=2000):
    """One step of 2,000 paths: Kolmogorov-Smirnov on the five overlaps,
    false alarm 1 % together.
    """
    keys = jax.random.split(jax.random.key(1), paths)
    step = jax.jit(
        jax.vmap(
            lambda key: sgd_vector_step(k[0], v[0], *numbers[:-1], jnp.asarray(0.02), key)
        )
    )
    expected = overlaps_of(*(np.asarray(x) for x in step(keys)))
    start = np.tile(overlaps_of(k[:1], v[:1]), paths)
    got, _ = sgd_steps(start, seed_generators(1, paths), np.array([0.1]), 0.02, **setting)
    assert np.std(got, axis=1).min() > 1e-4, "the state is frozen"
    assert min(ks_2samp(a, b).pvalue for a, b in zip(got, expected)) > 0.01 / 5, (
        "SGD engine: wrong law"
    )


@njit(**FUSED_FLAGS)
def transcendentals_alone(tile, rows, steps, lanes):
    """The four transcendental values of a step, nothing else, by the functions of the engine."""
    x = np.empty((11, LANES))
    for i in range(lanes):
        x[0, i] = tile[0, i]
    for t in range(steps):
        # two inverse temperatures in turn: nothing to hoist
        population_erf._write_exp_and_erf(x, rows[t % 2], lanes)
    return x[9, 0]


# ------------------------------------------------ the rows


def population_rows():
    dim, steps = 400, 20_000
    k, v = sphere_vectors(RUNS, dim)
    law = Law(GAMMA, (dim / 2) ** 0.5, LENGTH)
    numbers = on_device(0.1, GAMMA, law.signal, LENGTH, 4e-3)
    gate_population(k, v, numbers, law)
    baseline = vector_seconds(
        population_vector_step, (jnp.asarray(k[0]), jnp.asarray(v[0])), [numbers]
    )
    start, lams = overlaps_of(k, v), np.full(steps, 0.1)
    ours = seconds(lambda: population_steps(start, lams, 4e-3, law)) / steps / RUNS
    row(f"population step per run, {RUNS} runs, d = 400", ours, baseline, 2000)

    tile = to_tiles(start)[:1]
    steps = 2000
    rows = population_erf._constant_rows(np.array([0.1, 0.1001]), 4e-3, *law[:3])
    step = lambda: population_erf._advance_tiles(tile.copy(), rows[:1], steps, LANES)
    alone = lambda: transcendentals_alone(tile[0], rows, steps, LANES)
    ratio_row(
        "a step over its four transcendentals, one thread", step, alone, steps * LANES, 2.5
    )
    return baseline


def sgd_rows():
    dim, steps = 80, 2000
    k, v = sphere_vectors(RUNS, dim)
    law = Law(GAMMA, (dim / 2) ** 0.5, LENGTH)
    setting = {"law": law, "dim": dim, "batch_size": BATCH, "noise": NOISE}
    numbers = on_device(0.1, GAMMA, law.signal, NOISE, 1e-3)
    gate_sgd(k, v, numbers, setting)
    keys = [(*numbers, key) for key in jax.random.split(jax.random.key(0), 1000)]
    baseline = vector_seconds(sgd_vector_step, (jnp.asarray(k[0]), jnp.asarray(v[0])), keys)
    start, generators, lams = overlaps_of(k, v), seed_generators(0, RUNS), np.full(steps, 0.1)

    ours = seconds(lambda: sgd_steps(start, generators, lams, 1e-3, **setting)) / steps / RUNS
    row(f"SGD step per run, {RUNS} runs, d = 80, L = 10, batch 5", ours, baseline, 250)

    def one_tile(dim):
        task = setting | {"dim": dim}
        return lambda: sgd_steps(
            start[:, :LANES], generators[:LANES], lams[:100], 1e-3, **task
        )

    ratio_row(
        "SGD step at d = 10^6 over d = 80, one thread",
        one_tile(10**6),
        one_tile(80),
        100 * LANES,
        1.1,
    )
    return baseline


def experiments_row(population, sgd):
    """The paper's five experiments with risks logged,
    against steps x runs of the baselines measured above.
    """
    clock = time.perf_counter()
    results = {name: run_experiment(name, runs=RUNS, progress=False) for name in EXPERIMENTS}
    for run in results.values():
        assert np.isfinite(run.excess).all()
    ours = time.perf_counter() - clock
    assert np.all(results["init_manifold"].outcome == "oracle"), "experiments: wrong outcome"
    steps = {
        name: e.steps * RUNS * (population if e.batch_size is None else sgd)
        for name, e in EXPERIMENTS.items()
    }
    row(
        f"all five experiments, {RUNS} runs each (extrapolated)",
        ours,
        sum(steps.values()),
        250,
    )


def large_run_row():
    """10,000 runs x 100,000 population steps:
    wall time, and the peak memory of this process up to here.
    """
    clock = time.perf_counter()
    run = train(
        SingleLocation(400, LENGTH),
        Erf(0.1),
        runs=10_000,
        steps=100_000,
        log_every=10_000,
        progress=False,
    )
    assert set(run.outcome) == {"oracle", "swapped"}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kB -> GB
    what = f"10,000 runs x 100,000 steps in {time.perf_counter() - clock:.0f} s: peak memory"
    print(f"{what:<52}{peak:>9.2f} GB{'':>21}{'1 GB':>8}  {'yes' if peak < 1 else 'NO'}")


def ratio_row(what, ours, other, number, bar):
    """A ratio of two times that must stay below the bar:
    short calls in turn, so that both meet the same machine.
    """
    best = [np.inf, np.inf]
    for _ in range(200):
        for i, call in enumerate((ours, other)):
            clock = time.perf_counter()
            call()
            best[i] = min(best[i], (time.perf_counter() - clock) / number * 1e9)
    ratio = best[0] / best[1]
    print(
        f"{what:<52}{best[0]:>9.3g} ns{best[1]:>9.3g} ns{ratio:>8.2f}x{bar:>7.3g}x  "
        f"{'yes' if ratio <= bar else 'NO'}"
    )


def compile_seconds():
    clock = [time.perf_counter()]
    population_steps(np.zeros((5, 1)), np.array([0.1, 0.2]), 0.1, Law(GAMMA, 1.0, LENGTH))
    clock.append(time.perf_counter())
    setting = {"law": Law(GAMMA, 2.0, 2), "dim": 8, "batch_size": 1, "noise": 0.1}
    sgd_steps(np.zeros((5, 1)), seed_generators(0, 1), np.array([0.1]), 0.1, **setting)
    clock.append(time.perf_counter())
    return np.diff(clock)


if __name__ == "__main__":
    compiled = compile_seconds()
    heading(
        "Reduced engines of the erf predictor against vector steps (times per step and run)"
    )
    with x64():
        baselines = population_rows(), sgd_rows()
    experiments_row(*baselines)
    large_run_row()
    print(
        "compile, once, or load from the cache: population {:.2g} s, SGD {:.2g} s".format(
            *compiled
        )
    )
