"""What the plain files compute by themselves, against the library: risks, gradients, stationary
points, steps of training.
"""

import math

import numpy as np
import pytest
from helpers.javascript import ASSETS, STATIC, evaluated

import attnscope as at
from attnscope.dynamics.starts import starting_overlaps
from attnscope.theory.optima.stable_step import stable_step
from attnscope.theory.overlaps import gram
from attnscope.theory.risk import risk_gradient
from attnscope_explorer.flow import descent

SCRIPTS = [ASSETS / "numbers.js"]
SCRIPTS += [STATIC / name for name in ("closed_forms.js", "points.js", "descent.js")]
KINDS = {"erf": at.Erf, "linear": at.LinearAttention}
CLOSE = 1e-9  # the bar of the page; the two differ by roundings of the same formula
PLACES = 60


def law_of(task):
    return {"gamma": task.gamma, "signal": task.signal, "length": task.length}


def places(seed):
    """Tasks, inverse temperatures and possible overlaps, log-uniform where the knobs are."""
    rng = np.random.default_rng(seed)
    out = []
    while len(out) < PLACES:
        o = rng.uniform(-1, 1, 5)
        if np.linalg.eigvalsh(gram(at.Overlaps(*o)))[0] < 0:
            continue
        dim = round(math.exp(rng.uniform(math.log(4), math.log(1e6))))
        length = round(math.exp(rng.uniform(math.log(2), math.log(1000))))
        task = at.SingleLocation(dim=dim, length=length, gamma=rng.uniform(0.05, 2) ** 0.5)
        out.append((task, math.exp(rng.uniform(math.log(1e-3), math.log(1e2))), o))
    return out


@pytest.mark.parametrize("word", KINDS)
def test_risks_are_the_librarys(word):
    every = places(1) + [
        (task, lam, np.array([1.0, 0, 0, 1, 0])) for task, lam, _ in places(2)
    ]
    given = [[o.tolist(), lam, law_of(task)] for task, lam, o in every]
    page = evaluated(SCRIPTS, f"given.map((x) => attnscopeRisk.excess.{word}(...x))", given)
    for (task, lam, o), value in zip(every, page):
        assert value == pytest.approx(
            at.risk(task, KINDS[word](lam), at.Overlaps(*o)).excess, rel=CLOSE
        )


@pytest.mark.parametrize("word", KINDS)
def test_gradients_and_flow_are_the_librarys(word):
    every = places(3)
    given = [[lam, law_of(task), o.tolist()] for task, lam, o in every]
    call = f"given.map((x) => attnscopeRisk.gradient.{word}(x[0], x[1])(x[2]))"
    flow = f"given.map((x) => attnscopeRisk.velocity(x[2], attnscopeRisk.gradient.{word}(x[0], x[1])(x[2])))"
    gradients, flows = (evaluated(SCRIPTS, text, given) for text in (call, flow))
    for (task, lam, o), gradient, moved in zip(every, gradients, flows):
        there = at.Overlaps(*o)
        exact = np.array(risk_gradient(task, KINDS[word](lam), there)[:5])
        np.testing.assert_allclose(
            gradient, exact, rtol=CLOSE, atol=CLOSE * np.abs(exact).max()
        )
        exact = np.array(descent(task, KINDS[word](lam), there))
        np.testing.assert_allclose(moved, exact, rtol=CLOSE, atol=CLOSE * np.abs(exact).max())


@pytest.mark.parametrize("word", KINDS)
def test_stationary_points_are_the_librarys(word):
    cells = [
        (d, L, lam)
        for d in (5, 20, 400, 10000)
        for L in (2, 10, 100)
        for lam in (0.01, 0.1, 0.5, 2.0)
    ]
    tasks = [at.SingleLocation(dim=d, length=L) for d, L, _ in cells]
    given = [[word, lam, law_of(task), d] for task, (d, _, lam) in zip(tasks, cells)]
    page = evaluated(SCRIPTS, "given.map((x) => attnscopePoints.stationary(...x))", given)
    for task, (_, _, lam), found in zip(tasks, cells, page):
        exact = at.stationary_points(task, KINDS[word](lam))
        assert [(p["name"], p["kind"]) for p in found] == [(p.name, p.kind) for p in exact], (
            task,
            lam,
        )
        for mine, theirs in zip(found, exact):
            np.testing.assert_allclose(mine["overlaps"], theirs.overlaps, atol=1e-7)
            assert mine["excess"] == pytest.approx(theirs.risk.excess, rel=1e-7, abs=1e-13)


@pytest.mark.parametrize(("word", "decay"), [("erf", 0.0), ("erf", 1e-3), ("linear", 0.0)])
def test_training_is_that_of_the_library_from_the_same_starts(word, decay):
    task = at.SingleLocation(dim=400, length=10)
    lam = at.InverseTime(0.1, rate=decay) if decay else 0.1
    run = at.train(
        task,
        KINDS[word](lam),
        start="sphere",
        runs=8,
        steps=4000,
        step_size=4e-3,
        log_every=40,
        progress=False,
    )
    starts = starting_overlaps(task, "sphere", 8, 0).T.tolist()
    setup = {
        "predictor": word,
        "law": law_of(task),
        "dim": 400,
        "inverse_temperature": 0.1,
        "decay": decay,
    }
    setup |= {"stepSize": 4e-3, "steps": 4000, "starts": starts}
    script = "(() => { const run = attnscopeDescent.begin(given); while (!attnscopeDescent.advance(run, 1)); "
    script += "return [run.step, run.log, attnscopeDescent.outcomes(run), run.log.map((_, i) => attnscopeDescent.excessAt(run, i, 57))]; })()"
    step, log, outcome, excess = evaluated(SCRIPTS, script, setup)
    assert step == run.step.tolist()
    # thousands of steps through a saddle multiply a rounding by some powers of ten
    np.testing.assert_allclose(np.array(log).transpose(2, 0, 1), run.log, atol=1e-8)
    assert outcome == run.outcome.tolist()
    np.testing.assert_allclose(excess, run.excess[:, 57], rtol=1e-6)


@pytest.mark.parametrize("kind", ["sphere", "manifold", "moments"])
def test_starts_have_the_law_of_the_librarys(kind):
    """Moments over 4000 runs within 5 standard errors: a false alarm in 10^5 seeds; fixed."""
    dim, runs = 12, 4000
    task = at.SingleLocation(dim=dim, length=3, noise=0.4)
    setting = {"dim": dim, "noise": 0.4}
    given = [kind, setting, law_of(task), runs, 1]
    page = np.array(evaluated(SCRIPTS, "attnscopeDescent.starts(...given)", given))
    exact = starting_overlaps(task, kind, runs, 1).T
    for power in (1, 2, 4):
        a, b = page**power, exact**power
        spread = np.sqrt((a.var(0) + b.var(0)) / runs) + 1e-15
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 5 * spread)


@pytest.mark.parametrize("word", KINDS)
def test_the_stability_limit_is_the_librarys(word):
    cells = [
        (d, L, lam) for d in (5, 400, 10**6) for L in (2, 100) for lam in (0.01, 0.1, 1.0)
    ]
    tasks = [at.SingleLocation(dim=d, length=L) for d, L, _ in cells]
    given = [[word, lam, law_of(task), d] for task, (d, _, lam) in zip(tasks, cells)]
    page = evaluated(SCRIPTS, "given.map((x) => attnscopePoints.stableStep(...x))", given)
    for task, (_, _, lam), limit in zip(tasks, cells, page):
        exact = stable_step(at.stationary_points(task, KINDS[word](lam)))
        assert limit == pytest.approx(exact, rel=1e-7)
