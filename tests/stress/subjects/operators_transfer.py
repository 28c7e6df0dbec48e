"""Transfer of a representation: its condition number, the bound that follows, the law of the
bottleneck.

Promises without a stated error (docs/accuracy.md): ROUNDING times the squared condition number of
the map.
"""

from __future__ import annotations

import numpy as np

import attnscope as at
from stress.draws import log_integer, log_uniform
from stress.judged import Answer, Truth
from stress.references import operators as reference
from stress.subject import Setting, Subject
from stress.subjects.operators import ROUNDING

__all__ = ["SUBJECTS"]

# -- transfer --------------------------------------------------------------------------------------


def _draw_transfer(rng: np.random.Generator) -> Setting:
    rows = int(rng.integers(1, 4))
    return {
        "rows": rows,
        "columns": rows + int(rng.integers(0, 3)),
        "weak": log_uniform(rng, 1e-8, 1.0, [1.0]),
        "size": log_uniform(rng, 1e-6, 1e6, [1.0]),
        "excess": log_uniform(rng, 1e-12, 1e3, [0.0]),
        "inside": bool(rng.random() < 0.8),
        "seed": int(rng.integers(2**31)),
    }


def _transfer(s: Setting) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    T = rng.standard_normal((s["rows"], s["columns"]))
    T[-1] *= s["weak"]
    label = (
        T.T @ rng.standard_normal(s["rows"])
        if s["inside"]
        else rng.standard_normal(s["columns"])
    )
    return T, s["size"] * label


def _call_transfer(s: Setting) -> Answer:
    T, label = _transfer(s)
    kap = at.condition_number(T, label)
    bound = at.transfer_bound(T, label, s["excess"])
    singular = np.linalg.svd(T, compute_uv=False)
    relative = (
        1e-9 if not np.isfinite(kap) else ROUNDING * (singular[0] / singular[-1]) ** 2 + 1e-9
    )
    if not np.isfinite(kap):
        # not readable: said, not numbered
        return Answer([-1.0, 0.0 if s["excess"] else -1.0], [0.0, 0.0])
    return Answer([kap, bound], [relative * kap, 3 * relative * bound + 1e-300])


def _true_transfer(s: Setting) -> Truth | None:
    T, label = _transfer(s)
    kap = reference.least_norm(T, label)
    if kap is None or (not s["inside"] and s["columns"] > s["rows"]):
        return None
    return Truth([kap, kap**2 * float(np.sum(label**2)) * s["excess"]])


def _draw_law(rng: np.random.Generator) -> Setting:
    return {
        "condition": log_uniform(rng, 1, 1e6, [1.0]),
        "samples": log_integer(rng, 1, 10**12),
        "length": log_integer(rng, 1, 10**12, [1, 2]),
        "dim": int(rng.integers(4, 30)),
        "rank": int(rng.integers(1, 4)),
        "target_noise": log_uniform(rng, 1e-6, 1e3, [0.0]),
        "token_noise": log_uniform(rng, 1e-6, 1e3, [1.0]),
    }


def _call_law(s: Setting) -> Answer:
    value = float(at.bottleneck_law(*s.values()))
    return Answer(value, ROUNDING * value)


def _true_law(s: Setting) -> Truth:
    """(p - r)(s_t^2 kap^2 + 1 - c)/n with 1 - c from its definition c = L/(L + s^2)."""
    with reference.mp.workdps(reference.DIGITS):
        n = {name: reference.mp.mpf(x) for name, x in s.items()}
        c = n["length"] / (n["length"] + n["token_noise"] ** 2)
        return Truth(
            float(
                (n["dim"] - n["rank"])
                * (n["target_noise"] ** 2 * n["condition"] ** 2 + 1 - c)
                / n["samples"]
            )
        )


SUBJECTS: list[Subject] = [
    Subject(
        "condition_number, transfer_bound",
        ("condition_number", "transfer_bound"),
        _draw_transfer,
        _call_transfer,
        _true_transfer,
    ),
    Subject(
        "bottleneck_law", ("bottleneck_law",), _draw_law, _call_law, _true_law, weight=0.3
    ),
]
