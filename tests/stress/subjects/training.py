"""Training: engines against vectors stepped in float64, SGD in law, flows.

A deterministic engine is exact up to rounding, ROUNDING per overlap times what the steps themselves
make of a difference of that size, which the reference measures by starting twice. SGD is compared
by the means of overlaps and of their squared changes over runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jax import numpy as jnp

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import training as reference
from stress.subject import Setting, Subject
from stress.tokens import orthonormal, unit

__all__ = ["SUBJECTS", "draw", "task_of"]

# of an overlap after a few steps: gradients are sums of some ten terms of size up to a hundred
ROUNDING = 2e-14
NUDGE = 1e-6  # difference of starts by which the reference measures what steps make of one
RUNS = 400  # SGD runs on either side
# global error of a flow at the solver's default tolerance of 1e-10 per step, over a time of order 1
FLOW = 1e-9
HEADS: dict[str, Any] = {
    "erf": at.Erf,
    "tanh": lambda lam: at.Componentwise(jnp.tanh, lam),
    "linear": lambda lam: at.LinearAttention(lam, 0.0),
    "softmax": at.Softmax,
}
KINDS = ("erf", "erf", "tanh", "linear")


def draw(rng: np.random.Generator) -> Setting:
    d = log_integer(rng, 4, 40, (4,))
    stars = orthonormal(rng, 2, d)
    k, v = unit(rng, d), unit(rng, d)
    return {
        "kind": choice(rng, KINDS),
        "inverse_temperature": log_uniform(rng, 1e-3, 3.0, (0.0,)),
        "length": log_integer(rng, 1, 30, (1, 2)),
        "gamma": log_uniform(rng, 0.2, 2.0, (1.0,)),
        "signal": log_uniform(rng, 1e-2, 4.0, (0.0,)),
        "noise": log_uniform(rng, 1e-3, 2.0, (0.0,)),
        "stars": stars,
        "k": k,
        "v": v,
        "step_size": log_uniform(rng, 1e-4, 0.05),
        "steps": log_integer(rng, 1, 6, (1,)),
        "batch_size": log_integer(rng, 1, 4, (1,)),
        "seed": int(rng.integers(1 << 31)),
    }


def task_of(setting: Setting) -> at.SingleLocation:
    key, value = setting["stars"]
    numbers = (setting["length"], setting["gamma"], setting["noise"], setting["signal"])
    return at.SingleLocation(len(key), *numbers, key=key, value=value)


def _train(setting: Setting, **more: Any) -> Any:
    numbers = {
        "runs": 1,
        "steps": setting["steps"],
        "step_size": setting["step_size"],
        "log_every": 1,
        "seed": 0,
    }
    head = HEADS[setting["kind"]](setting["inverse_temperature"])
    start = (setting["k"], setting["v"])
    return at.train(
        task_of(setting), head, **(numbers | {"start": start, "progress": False} | more)
    )


def _risk(setting: Setting) -> Any:
    numbers = (
        setting["inverse_temperature"],
        setting["gamma"],
        setting["signal"],
        setting["length"],
    )
    return lambda o: reference.head_excess(setting["kind"], o, *numbers)


def _nudged(setting: Setting, run: Any) -> tuple[np.ndarray, np.ndarray]:
    """The reference's overlaps, and how much a difference at the start has grown,
    at least by one.
    """
    k = setting["k"]
    v = setting["v"]
    stars = setting["stars"]
    rng = np.random.default_rng(0)
    there = run(k, v)
    aside = run(_turned(k, rng), _turned(v, rng))
    start = NUDGE * np.ones(5)
    return there, np.maximum(1.0, np.abs(aside - there).max() / start) * len(stars)


def _turned(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = x + NUDGE * rng.standard_normal(len(x))
    return y / np.linalg.norm(y)


def _call_population(setting: Setting) -> Answer:
    return Answer(_train(setting).log[:, 0, -1], np.full(5, ROUNDING))


def _truth_population(setting: Setting) -> Truth:
    risk = _risk(setting)

    def run(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return reference.descend(
            k, v, setting["stars"], risk, setting["step_size"], setting["steps"]
        )

    there, grown = _nudged(setting, run)
    return Truth(there, ROUNDING * grown)


def _feasible(log: np.ndarray) -> Relation:
    """Gram matrices of logged overlaps (5, n) have no eigenvalue below rounding."""
    kap, eta, the, nu, rho = log.reshape(5, -1)
    one = np.ones_like(kap)
    zero = np.zeros_like(kap)
    rows = [
        [one, rho, kap, eta],
        [rho, one, the, nu],
        [kap, the, one, zero],
        [eta, nu, zero, one],
    ]
    gram = np.moveaxis(np.array(rows), -1, 0)
    smallest = float(np.linalg.eigvalsh(gram)[:, 0].min())
    # the tolerance of Overlaps
    return at_most("overlaps of unit vectors", -smallest, 0.0, 1e-9)


def _continued(setting: Setting, **more: Any) -> Relation:
    whole = _train(setting, **more)
    if setting["steps"] < 2:
        return same("extend", 0.0, 0.0, 0.0)
    cut = _train(setting, **(more | {"steps": 1})).extend(
        setting["steps"] - 1, progress=False
    )
    return same("extend is bit for bit the longer run", cut.log, whole.log, 0.0)


def _relations_population(setting: Setting, answer: Answer) -> Iterable[Relation]:
    run = _train(setting)
    yield _feasible(run.log)
    yield _continued(setting)
    start = at.Overlaps(*run.log[:, 0, 0])
    huge = at.SingleLocation(
        10**9, *(setting[name] for name in ("length", "gamma", "noise", "signal"))
    )
    head = HEADS[setting["kind"]](setting["inverse_temperature"])
    numbers = {name: setting[name] for name in ("steps", "step_size")}
    far = at.train(huge, head, start, runs=1, log_every=1, progress=False, **numbers)
    yield same("the dimension does not matter", far.log, run.log, 2 * ROUNDING)
    risk = at.risk(
        task_of(setting),
        HEADS[setting["kind"]](setting["inverse_temperature"]),
        at.Overlaps(*run.log[:, 0, -1]),
    )
    # two routes through the same closed form: the trajectory's own is not checked to lie on the
    # spheres
    yield same(
        "Trajectory.excess is the risk",
        run.excess[0, -1],
        risk.excess,
        2 * risk.error + 1e-12 * risk.excess,
    )


def _call_full(setting: Setting) -> Answer:
    return Answer(_train(setting, engine="full").log[:, 0, -1], np.full(5, ROUNDING))


def _call_sgd(setting: Setting) -> Answer:
    run = _train(
        setting | {"kind": "erf", "steps": 1},
        runs=RUNS,
        batch_size=setting["batch_size"],
        seed=setting["seed"],
    )
    return _means(run.log[:, :, -1], run.log[:, 0, 0])


def _means(log: np.ndarray, start: np.ndarray) -> Answer:
    """Means over runs of the changes of overlaps and of their squares, with standard errors."""
    moved = log - start[:, None]
    both = np.concatenate([moved, moved**2])
    error = both.std(axis=1, ddof=1) / np.sqrt(both.shape[1])
    return Answer(both.mean(axis=1), error + 1e-12, sampled=True)


def _truth_sgd(setting: Setting) -> Truth:
    k = setting["k"]
    v = setting["v"]
    stars = setting["stars"]
    task = (setting["length"], setting["gamma"], setting["signal"], setting["noise"])
    numbers = (
        setting["inverse_temperature"],
        setting["step_size"],
        setting["batch_size"],
        4 * RUNS,
        setting["seed"],
    )
    log = reference.sgd_step(k, v, stars, task, *numbers)
    start = np.array([k @ stars[0], k @ stars[1], v @ stars[0], v @ stars[1], k @ v])
    found = _means(log, start)
    return Truth(found.value, found.error)


def _relations_sgd(setting: Setting, answer: Answer) -> Iterable[Relation]:
    more = {"runs": 3, "batch_size": setting["batch_size"], "seed": setting["seed"]}
    erf = setting | {"kind": "erf"}
    yield _feasible(_train(erf, **more).log)
    yield _continued(erf, **more)


def _call_flow(setting: Setting) -> Answer:
    head = HEADS[setting["kind"]](setting["inverse_temperature"])
    time = 10 * setting["step_size"]
    found = at.gradient_flow(
        task_of(setting), head, (setting["k"], setting["v"]), [0.0, time]
    )
    return Answer(found.log[:, 0, -1], np.full(5, FLOW))


def _truth_flow(setting: Setting) -> Truth | None:
    risk = _risk(setting)
    time = 10 * setting["step_size"]
    start = (setting["k"], setting["v"], setting["stars"])
    # Runge-Kutta steps too long for the flow may end anywhere
    with np.errstate(over="ignore", invalid="ignore"):
        fine, coarse = (reference.flow(*start, risk, time, n) for n in (24, 16))
    if not np.isfinite(fine - coarse).all():
        return None
    return Truth(fine, np.abs(fine - coarse) + 1e-12)


def _relations_flow(setting: Setting, answer: Answer) -> Iterable[Relation]:
    head = HEADS[setting["kind"]](setting["inverse_temperature"])
    times = np.linspace(0, 10 * setting["step_size"], 4)
    found = at.gradient_flow(task_of(setting), head, (setting["k"], setting["v"]), times)
    yield _feasible(found.log)
    scale = FLOW * (1 + float(found.excess.max()) * 10)
    yield at_most("the risk never rises", np.diff(found.excess[0]), 0.0, scale)


SUBJECTS = [
    Subject(
        "train population",
        ("train", "Trajectory.excess", "Trajectory.extend"),
        draw,
        _call_population,
        _truth_population,
        _relations_population,
        weight=0.6,
    ),
    Subject("train full", ("train",), draw, _call_full, _truth_population, weight=0.03),
    Subject("train sgd", ("train",), draw, _call_sgd, _truth_sgd, _relations_sgd, weight=0.6),
    Subject(
        "gradient_flow",
        ("gradient_flow",),
        draw,
        _call_flow,
        _truth_flow,
        _relations_flow,
        truths=0.5,
        weight=0.3,
    ),
]
