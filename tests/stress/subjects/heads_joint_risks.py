"""Several heads at once: heads_risk against polynomial moments and siblings, heads_gram against its
definition.

notation: as in references.heads.
"""

from __future__ import annotations

import numpy as np

import attnscope as at
from stress.draws import CORNER, choice, log_integer, log_uniform, overlaps
from stress.estimates import answer_of
from stress.judged import Answer, Truth
from stress.predictors import HEADS
from stress.references import heads as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

SAMPLES = 4000  # of sampled risks; their promise does not depend on it

# -- several heads ---------------------------------------------------------------------------------


def _draw_heads(rng: np.random.Generator) -> Setting:
    F = log_integer(rng, 1, 2)
    H = log_integer(rng, 1, 3)
    d = log_integer(rng, 2 * F, 8)
    K, V = rng.standard_normal((2, H, d)) / np.sqrt(d) * log_uniform(rng, 0.1, 10.0, (1.0,))
    if rng.random() < CORNER:
        K[-1] = rng.choice([-1, 1]) * K[0]
    return {
        "kind": choice(rng, ["linear", "linear", "doubled", "doubled sampled"]),
        "head": choice(rng, ["erf", "softmax"]),
        "inverse_temperature": log_uniform(rng, 1e-3, 3.0, (0.0,)),
        "offset": log_uniform(rng, 1e-3, 1e2, (0.0,)),
        "dim": d,
        "length": log_integer(rng, F, 100, (F,)),
        "directions": F,
        "gamma": log_uniform(rng, 0.1, 10.0, (1.0,)),
        "signal": log_uniform(rng, 0.1, 10.0, (0.0,)),
        "K": K,
        "V": V,
        "overlaps": overlaps(rng),
        "seed": int(rng.integers(1 << 31)),
    }


def _heads_task(setting: Setting) -> at.MultiDirection:
    names = ("dim", "length", "directions", "gamma", "signal")
    return at.MultiDirection(**{name: setting[name] for name in names})


def _one_task(setting: Setting) -> at.SingleLocation:
    return at.SingleLocation(8, setting["length"], setting["gamma"], 0.0, setting["signal"])


def _call_heads(setting: Setting) -> Answer:
    if setting["kind"] == "linear":
        head = at.LinearAttention(setting["inverse_temperature"], setting["offset"])
        model = at.MultiHead(head, len(setting["K"]))
        return answer_of(
            at.heads_risk(_heads_task(setting), model, (setting["K"], setting["V"]))
        )
    head = HEADS[setting["head"]](setting["inverse_temperature"])
    method = "monte-carlo" if setting["kind"] == "doubled sampled" else "best"
    # the same head twice: Gram matrix of (k, v, k, v, k*, v*)
    order = [0, 1, 0, 1, 2, 3]
    gram = _gram(setting)[np.ix_(order, order)]
    model = at.MultiHead(head, 2)
    found = at.heads_risk(
        _one_task(setting), model, gram, samples=SAMPLES, seed=setting["seed"], method=method
    )
    return answer_of(found)


def _gram(setting: Setting) -> np.ndarray:
    """Of (k, v, k*, v*)."""
    kap, eta, the, nu, rho = setting["overlaps"]
    return np.array(
        [[1, rho, kap, eta], [rho, 1, the, nu], [kap, the, 1, 0], [eta, nu, 0, 1.0]]
    )


def _truth_heads(setting: Setting) -> Truth | None:
    if setting["kind"] == "linear":
        task = _heads_task(setting)
        numbers = (
            setting["inverse_temperature"],
            setting["offset"],
            task.length,
            task.gamma,
            task.signal,
        )
        value, size = reference.linear_heads(
            setting["K"], setting["V"], (task.keys, task.values), *numbers
        )
        return Truth(value, 1e-14 * size)
    # a head counted twice is T -> 2 T: E(Y - 2T)^2 = 2 R - E Y^2 + 2 E T^2, with E T^2 from the
    # risks of T and -T
    head = HEADS[setting["head"]](setting["inverse_temperature"])
    one = _one_task(setting)
    kap, eta, the, nu, rho = setting["overlaps"]
    plus = at.risk(one, head, at.Overlaps(kap, eta, the, nu, rho))
    minus = at.risk(one, head, at.Overlaps(kap, eta, -the, -nu, -rho))
    second = one.gamma**2
    value = 3 * plus.excess + minus.excess - 3 * second
    return Truth(
        value,
        3 * plus.error + minus.error + 1e-15 * (3 * plus.excess + minus.excess + 3 * second),
    )


def _call_gram(setting: Setting) -> Answer:
    gram = at.heads_gram(_heads_task(setting), setting["K"], setting["V"])
    size = max(
        1.0,
        float(np.abs(setting["K"]).sum(1).max()),
        float(np.abs(setting["V"]).sum(1).max()),
    )
    return Answer(gram, np.full(gram.shape, 1e-15 * setting["dim"] * size**2))


def _truth_gram(setting: Setting) -> Truth:
    task = _heads_task(setting)
    trained = [row for pair in zip(setting["K"], setting["V"], strict=True) for row in pair]
    teachers = [row for pair in zip(task.keys, task.values, strict=True) for row in pair]
    rows = trained + teachers
    return Truth(np.array([[float(np.sum(a * b)) for b in rows] for a in rows]))


SUBJECTS: list[Subject] = [
    Subject(
        "heads_risk", ("heads_risk",), _draw_heads, _call_heads, _truth_heads, weight=2.0
    ),
    Subject("heads_gram", ("heads_gram",), _draw_heads, _call_gram, _truth_gram, weight=0.3),
]
