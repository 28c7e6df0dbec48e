"""positional_loss, positional_gradient, positional_minima, positional_phases, positional_basins."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import CORNER, choice, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import positional_semantic as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROOM = 1e-12  # of a comparison of two losses beyond their errors: rounding


def _draw(rng: np.random.Generator) -> Setting:
    position = log_uniform(rng, 0.05, 4.0, [1.0, 4.0])
    angle = (
        choice(rng, [0.0, np.pi / 2]) if rng.random() < CORNER else 2 * np.pi * rng.random()
    )
    radius = (
        choice(rng, [0.0, 1.0]) if rng.random() < CORNER else float(np.sqrt(rng.random()))
    )
    return {
        "mix": choice(rng, [0.0, 1.0]) if rng.random() < CORNER else float(rng.random()),
        "contrast": log_uniform(rng, 0.05, 5.0, [0.0, 1e6, -1.0]),
        "position": position,
        "e": float(position * radius * np.sin(angle)),
        "m": float(radius * np.cos(angle)),
    }


def _task(s: Setting) -> at.PositionalSemantic:
    return at.PositionalSemantic(10, s["mix"], s["contrast"], s["position"])


def _contrast(s: Setting) -> float:
    return min(abs(s["contrast"]), 10.0)  # S(200) is 1


def _call_loss(s: Setting) -> Answer:
    found = at.positional_loss(_task(s), s["e"], s["m"])
    return Answer(found.value, found.error)


def _true_loss(s: Setting) -> Truth:
    return Truth(*reference.loss(s["e"], s["m"], s["mix"], _contrast(s)))


def _loss_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    turned = at.positional_loss(task, -s["e"], s["m"])
    yield same("even in e", a.value, turned.value, 0.0)
    turned = at.positional_loss(task, s["e"], -s["m"])
    yield same("even in m", a.value, turned.value, 0.0)
    longer = at.PositionalSemantic(10, s["mix"], s["contrast"], min(1.5 * s["position"], 4.0))
    again = at.positional_loss(longer, s["e"], s["m"])
    yield same("another table", a.value, again.value, a.error + again.error)
    yield at_most("a mean of squares", 0.0, a.value, 0.0)


def _call_gradient(s: Setting) -> Answer:
    found = at.positional_gradient(_task(s), s["e"], s["m"])
    return Answer(found.gradient, found.gradient_error)


def _true_gradient(s: Setting) -> Truth | None:
    if abs(s["m"]) > 0.999:
        return None
    return Truth(*reference.gradient(s["e"], s["m"], s["mix"], _contrast(s)))


def _gradient_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    """The Hessian against central differences of the gradient."""
    if (s["e"] / s["position"]) ** 2 + s["m"] ** 2 > 0.98:
        return
    task = _task(s)
    found = at.positional_gradient(task, s["e"], s["m"])
    for i, step in enumerate((1e-3 * s["position"], 1e-3)):
        moves = step * np.arange(-2, 3)[:, None] * np.eye(2)[i]
        near = at.positional_gradient(task, s["e"] + moves[:, 0], s["m"] + moves[:, 1])
        g = near.gradient
        slope = (8 * (g[3] - g[1]) - g[4] + g[0]) / (12 * step)
        # fourth order: fifth derivatives of the loss are below 1000 inside this radius
        slack = (
            found.hessian_error + 2 * near.gradient_error.max() / step + 40 * step**4 * 1e3
        )
        yield same(f"row {i} of the Hessian", found.hessian[i], slope, slack)


def _draw_diagram(rng: np.random.Generator) -> Setting:
    setting = _draw(rng)
    setting["mix"] = float(choice(rng, [0.0, 0.97, 0.999, float(rng.random())]))
    setting["seed"] = int(rng.integers(2**31))
    return setting


def _call_minima(s: Setting) -> Answer:
    lowest = at.positional_minima(_task(s))[0]
    return Answer(lowest.loss.value, lowest.loss.error)


def _feasible(s: Setting, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    radius = np.sqrt(rng.random(count))
    radius[: count // 2] = 1.0
    angle = np.pi / 2 * rng.random(count)
    return s["position"] * radius * np.sin(angle), radius * np.cos(angle)


def _minima_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    minima = at.positional_minima(task)
    ends, error = reference.end_losses(s["position"], s["mix"], _contrast(s))
    yield at_most("no end of the arc is lower", a.value, ends.min(), a.error + error)
    if minima[0].phase == "semantic":
        yield same("the semantic loss", a.value, ends[0], a.error + error)
    if minima[0].phase == "positional" and minima[0].e == s["position"]:
        yield same("the positional loss", a.value, ends[1], a.error + error)
    drawn = at.positional_loss(task, *_feasible(s, 200))
    lowest = float(np.min(drawn.value))
    yield at_most("no point is lower", a.value, lowest, a.error + np.max(drawn.error))
    found = at.positional_phases([s["mix"]], [s["contrast"]], s["position"])
    yield same("the diagram", float(found.loss[0, 0]), a.value, a.error + 1e-10)


def _draw_basins(rng: np.random.Generator) -> Setting:
    """Where the flow is quick: rates fall with 1 - w and with P^2."""
    setting = _draw_diagram(rng)
    return setting | {"mix": 0.95 * float(rng.random()), "position": 0.5 + 2 * rng.random()}


def _call_basins(s: Setting) -> Answer:
    e, m = 0.99 * np.stack(_feasible(s, 4))  # not on the arc, which may end in a saddle
    return Answer(at.positional_basins(_task(s), e, m).astype(float), 0.0)


def _basin_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    e, m = 0.99 * np.stack(_feasible(s, 4))
    turned = at.positional_basins(task, -e, m)
    yield same("turned starts", a.value, turned.astype(float), 0.0)
    minima = at.positional_minima(task)
    ends = [minima[int(i)] for i in a.value]
    start = at.positional_loss(task, e, m)
    final = [end.loss.value for end in ends]
    yield at_most("the flow goes down", final, start.value, start.error + ROOM)
    at_ends = at.positional_basins(task, [end.e for end in minima], [end.m for end in minima])
    yield same("minima stay", at_ends.astype(float), np.arange(len(minima)) * 1.0, 0.0)


SUBJECTS: list[Subject] = [
    Subject(
        "positional_loss",
        ("positional_loss",),
        _draw,
        _call_loss,
        _true_loss,
        _loss_relations,
        truths=0.3,
        weight=0.5,
    ),
    Subject(
        "positional_gradient",
        ("positional_gradient",),
        _draw,
        _call_gradient,
        _true_gradient,
        _gradient_relations,
        truths=0.2,
        weight=0.3,
    ),
    Subject(
        "positional_minima, positional_phases",
        ("positional_minima", "positional_phases"),
        _draw_diagram,
        _call_minima,
        relations=_minima_relations,
        weight=0.2,
    ),
    Subject(
        "positional_basins",
        ("positional_basins",),
        _draw_basins,
        _call_basins,
        relations=_basin_relations,
        weight=0.05,
    ),
]
