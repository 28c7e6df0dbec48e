"""Any planted task: risks on nodes against closed forms, SGD in law, and the compiled engines.

    python bench/bench_planted.py

Times are CPU seconds, the least of repeats. Nothing of a part is printed unless its gate holds:
risks on nodes within 5 standard errors of the closed forms at 200 random overlaps; laws by
Kolmogorov-Smirnov tests over inner products (false alarm 1 % together), which must reject a planted
error. The baseline of the compiled engines is the JAX engine, which trained these heads before.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

from time import process_time

import numpy as np
from numba import njit
from scipy.stats import ks_2samp
from table import heading, limit, row

import attnscope as at
from attnscope.dynamics.engines.compiled_heads import CompiledSgd
from attnscope.dynamics.engines.full_planted import FullPlanted
from attnscope.dynamics.engines.gram_sgd import GenericSgd
from attnscope.dynamics.engines.losses import squared_loss
from attnscope.dynamics.engines.planted_sgd import PlantedSgd
from attnscope.dynamics.engines.sgd_erf import SgdErf
from attnscope.numerics.compiled.fast_erf import FUSED_FLAGS, exp_negative
from attnscope.numerics.compiled.fast_normal import normals, seed_generators
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.theory.overlaps import Overlaps

POINTS = 200
SURE = 5  # standard errors
RUNS = 32  # one tile of the JAX engine, two of the compiled one
LENGTH = 10
BATCH = 5
ALARM = 0.01
START = np.array([0.3, -0.2, 0.25, 0.4, 0.3])


def cpu(call, repeats=5):
    """Least CPU seconds of a call; the first, warming one is not counted."""
    call()
    best = np.inf
    for _ in range(repeats):
        started = process_time()
        call()
        best = min(best, process_time() - started)
    return best


# -- risks on nodes --------------------------------------------------------------------------------


def random_overlaps(count, rng):
    """Of uniform unit vectors in four dimensions, where all overlaps are large."""
    k, v = rng.standard_normal((2, count, 4))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return [
        Overlaps(*map(float, (a[0], a[1], b[0], b[1], a @ b)))
        for a, b in zip(k, v, strict=True)
    ]


def risk_rows():
    task = at.SingleLocation(20, 5, signal=2)
    null = task.null_risk().value
    places = random_overlaps(POINTS, np.random.default_rng(0))
    for predictor in (at.Erf(1.0), at.Softmax(1.0)):
        exact = np.array([at.risk(task, predictor, o).excess for o in places])
        for bar, count, most in ((1e-3, 1 << 17, 0.05), (1e-4, 1 << 21, 1.0)):
            options = {"method": "quasi-monte-carlo", "samples": count}
            found = [at.risk(task, predictor, o, **options) for o in places]
            away = np.array([x.excess for x in found]) - exact
            error = np.array([x.error for x in found])
            assert (np.abs(away) <= SURE * error).all(), "nodes: a wrong risk"
            worst = error.max() / null
            spent = cpu(lambda: at.risk(task, predictor, places[0], **options))
            kind = type(predictor).__name__
            limit(f"{kind}: {worst:.1e} of the null risk at worst, warm", spent, most)
            print(
                f"{'':<52}largest error {worst:.1e}, bar {bar:.0e}: {'yes' if worst <= bar else 'NO'}"
            )


# -- laws ------------------------------------------------------------------------------------------


def smallest_p(one, other):
    """Over the rows of two arrays (statistics, runs)."""
    return min(ks_2samp(a, b).pvalue for a, b in zip(one, other, strict=True))


def moved(engine, start, lam, seed, steps=1):
    state = engine.advance(engine.init(start, seed), np.full(steps, lam))
    return engine.overlaps(state)


def generic_gate():
    """PlantedSgd against the dedicated and the full engine; a dimension too many is rejected."""
    task = at.SingleLocation(6, 4, signal=1.5, noise=0.3)
    runs = 20_000
    start = np.tile(START[:, None], runs)
    setting = (at.Erf(0.8), 0.5, 2)
    generic = PlantedSgd(task, *setting)
    ours = moved(generic, start, 0.8, 1)
    for other in (SgdErf(task, 0.5, 2), FullPlanted(task, *setting)):
        p = smallest_p(ours, moved(other, start, 0.8, 2))
        assert p > ALARM / 10, f"generic SGD: another law than {type(other).__name__}"
    wrong = PlantedSgd(task, *setting)
    wrong.task = at.SingleLocation(7, 4, signal=1.5, noise=0.3)
    p = smallest_p(moved(wrong, start, 0.8, 3), moved(SgdErf(task, 0.5, 2), start, 0.8, 2))
    assert p < ALARM / 10, "generic SGD: a planted error passes"


def generic_rows():
    generic_gate()
    calls = []
    for dim in (10**6, 80):
        task = at.SingleLocation(dim, LENGTH)
        engine = PlantedSgd(task, at.Softmax(1.0), 1e-3 / dim, BATCH)
        state = engine.init(np.tile(START[:, None], RUNS), 0)
        calls.append(lambda engine=engine, state=state: engine.advance(state, np.ones(50)))
    ratio_row("generic SGD at d = 10^6 over d = 80", *calls, 50 * RUNS, 1.1)


# -- the compiled engines --------------------------------------------------------------------------


@njit(**FUSED_FLAGS)
def numbers_alone(g, pairs, exponentials, steps, lanes):
    """The normals and exponentials of some steps, nothing else, by the functions of the engine."""
    z = np.empty(2 * LANES)
    total = np.zeros(LANES)
    for _ in range(steps):
        for j in range(pairs):
            normals(z, g, lanes)
            if j < exponentials:
                for i in range(lanes):
                    total[i] += exp_negative(abs(z[i]))
    return total


def numbers_of(heads):
    """(pairs of normals, exponentials) of a step of one run, one informative token."""
    m, r = 2 * heads, 2
    sequence = (
        LENGTH * heads + r // 2 + 1
    )  # tokens, the informative one's rest, the label noise
    # along the axes beyond m; first proposals of chi-squares; below the diagonal of Bartlett's factor
    below = sum((m - b) // 2 for b in range(m))
    return BATCH * sequence + r * heads + heads + below, BATCH * LENGTH * heads


def entries(grams, m):
    pairs = [(i, j) for i in range(m) for j in range(i + 1, m + 2)]
    return np.stack([grams[:, i, j] for i, j in pairs])


def compiled_rows():
    task = at.SingleLocation(80, LENGTH)
    small = at.SingleLocation(9, LENGTH, signal=1.5)
    steps = 200
    for head, heads in ((at.Softmax(1.0), 1), (at.Softmax(1.0), 2), (at.Erf(0.5), 2)):
        m = 2 * heads
        x = np.random.default_rng(3).standard_normal((m + 2, 9))
        x[m:] = np.eye(9)[:2]
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        gram = x @ x.T
        lam = head.inverse_temperature

        def both(task, alpha, head=head, heads=heads, m=m):
            loss = squared_loss(head, heads)
            return (
                CompiledSgd(task, head, alpha, BATCH, heads=heads),
                GenericSgd(task, loss, alpha, BATCH, parameters=m),
            )

        many = np.repeat(gram[None], 20_000, axis=0)
        ends = [
            entries(e.advance(e.start(many, 7), np.full(1, lam))["gram"], m)
            for e in both(small, 0.3)
        ]
        assert smallest_p(*ends) > ALARM / len(ends[0]), "compiled SGD: another law"
        wrong = both(small, 0.3)[0]
        wrong.freedom += 2
        off = entries(wrong.advance(wrong.start(many, 7), np.full(1, lam))["gram"], m)
        assert smallest_p(off, ends[1]) < ALARM / len(off), "compiled SGD: an error passes"

        few = np.repeat(gram[None], RUNS, axis=0)
        times = []
        for engine in both(task, 1e-3):
            state = engine.start(few, 0)
            call = lambda e=engine, s=state: e.advance(s, np.full(steps, lam))
            times.append(cpu(call) / steps / RUNS)
        what = f"{heads} head{'s' * (heads > 1)} of {type(head).__name__}"
        row(f"SGD of {what}, d = 80, L = 10, batch 5", times[0], times[1], 8)
        engine = both(task, 1e-3)[0]
        state = engine.start(few[:LANES], 0)
        step = lambda e=engine, s=state: e.advance(s, np.full(100, lam))
        g = np.ascontiguousarray(seed_generators(0, LANES).T).ravel()
        counts = numbers_of(heads)
        alone = lambda g=g, counts=counts: numbers_alone(g, *counts, 100, LANES)
        ratio_row(f"{what} over its normals and exponentials", step, alone, 100 * LANES, 3)


def ratio_row(what, ours, other, number, bar, repeats=30):
    """A ratio of two CPU times that must stay below the bar, measured in turn."""
    best = [np.inf, np.inf]
    ours()
    other()
    for _ in range(repeats):
        for i, call in enumerate((ours, other)):
            started = process_time()
            call()
            best[i] = min(best[i], (process_time() - started) / number * 1e6)
    ratio = best[0] / best[1]
    print(
        f"{what:<52}{best[0]:>9.3g} us{best[1]:>9.3g} us{ratio:>8.2f}x{bar:>7.3g}x  "
        f"{'yes' if ratio <= bar else 'NO'}"
    )


if __name__ == "__main__":
    heading("Any planted task (CPU time; SGD: per step and run)")
    compiled_rows()
    generic_rows()
    risk_rows()
