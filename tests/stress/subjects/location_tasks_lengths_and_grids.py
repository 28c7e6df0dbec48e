"""RandomLength and GridLocation: exact risks and errors, from those of single locations.

A sequence of random length is a mixture of lengths, a row of a grid a group of cells: both have the
truths of `location_tasks`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, pmf
from stress.judged import Answer, Truth
from stress.location_settings import task_of
from stress.references import location_posterior
from stress.subject import Setting, Subject
from stress.subjects.location_tasks import (
    RARE,
    STANDARD_ERRORS,
    draw_location,
    linear_truth,
    location_task,
    location_truth,
    numbers_of,
    out_of_reach,
)

__all__ = ["SUBJECTS"]

# -- RandomLength and GridLocation -----------------------------------------------------------------


def _draw_lengths(rng: np.random.Generator) -> Setting:
    out = draw_location(rng) | {"probs": None}
    count = int(rng.integers(1, 4))
    lengths = [
        log_integer(rng, 1, 300 if out["dim"] <= 500 else 10**9, (1, 2)) for _ in range(count)
    ]
    return out | {"lengths": tuple(lengths), "law": tuple(float(x) for x in pmf(rng, count))}


def _random_length(setting: Setting) -> at.RandomLength:
    law: dict[int, float] = {}
    for L, q in zip(setting["lengths"], setting["law"], strict=True):
        law[L] = law.get(L, 0.0) + q
    return at.RandomLength(location_task(setting), law)


def _random_answer(which: str, setting: Setting) -> Answer:
    found = getattr(_random_length(setting), which)()
    return Answer(found.excess, found.error)


def _averaged(reference: Any, setting: Setting) -> Truth | None:
    parts = [
        (q, reference(setting | {"length": L}))
        for L, q in zip(setting["lengths"], setting["law"], strict=True)
        if q > 0
    ]
    if any(part is None for _, part in parts):
        return None
    return Truth(
        sum(q * part.value for q, part in parts),
        sum(q * (part.error + 1e-15 * part.value) for q, part in parts),
    )


def _draw_grid(rng: np.random.Generator) -> Setting:
    out = draw_location(rng) | {"probs": None}
    out["rows"], out["columns"] = (
        log_integer(rng, 1, 10**6, (1, 2)),
        log_integer(rng, 1, 10**6, (1, 2)),
    )
    if out["dim"] <= 500:
        out["rows"], out["columns"] = (
            log_integer(rng, 1, 12, (1, 2)),
            log_integer(rng, 1, 12, (1, 2)),
        )
    return out | {
        "length": out["rows"] * out["columns"],
        "side": choice(rng, ["row", "column"]),
    }


def _grid(setting: Setting) -> Answer:
    task = task_of(setting)
    grid = at.GridLocation(
        setting["rows"],
        setting["columns"],
        task.dim,
        task.gamma,
        task.noise,
        task.signal,
        None,
        task.given["key"],
        task.given["value"],
    )
    found = grid.row_error() if setting["side"] == "row" else grid.column_error()
    return Answer(found.excess, found.error)


def _grid_truth(setting: Setting) -> Truth | None:
    """Two cells in different rows: the location error of two tokens;
    otherwise plain draws of the marginal posterior.
    """
    rows = setting["rows"]
    columns = setting["columns"]
    here, beside = (rows, columns) if setting["side"] == "row" else (columns, rows)
    if here == 1:
        return Truth(0.0)
    if beside == 1:
        return location_truth(setting, 1)
    if (
        setting["length"] > 150
        or not 1e-2 <= setting["gamma"] <= 1e2
        or setting["dim"] > 10**6
    ):
        return None
    value, error = location_posterior.sampled_group_error(
        setting["dim"], *numbers_of(setting)[:2], here, beside
    )
    seen = value > RARE * setting["length"] / location_posterior.DRAWS and error < value / 5
    return Truth(value, STANDARD_ERRORS * error) if seen else None


SUBJECTS: list[Subject] = [
    Subject(
        "RandomLength.bayes_risk",
        ("RandomLength.bayes_risk",),
        _draw_lengths,
        lambda s: _random_answer("bayes_risk", s),
        lambda s: _averaged(lambda x: location_truth(x, 0), s),
        may_refuse=out_of_reach,
        truths=0.3,
        weight=0.5,
    ),
    Subject(
        "RandomLength.location_error",
        ("RandomLength.location_error",),
        _draw_lengths,
        lambda s: _random_answer("location_error", s),
        lambda s: _averaged(lambda x: location_truth(x, 1), s),
        may_refuse=out_of_reach,
        truths=0.3,
        weight=0.5,
    ),
    Subject(
        "RandomLength.linear_risk",
        ("RandomLength.linear_risk", "RandomLength.null_risk"),
        _draw_lengths,
        lambda s: _random_answer("linear_risk", s),
        lambda s: _averaged(linear_truth, s),
        weight=0.5,
    ),
    Subject(
        "GridLocation.row_error",
        ("GridLocation.row_error", "GridLocation.column_error"),
        _draw_grid,
        _grid,
        _grid_truth,
        may_refuse=out_of_reach,
        truths=0.5,
        weight=0.5,
    ),
]
