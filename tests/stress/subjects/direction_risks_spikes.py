"""Risks of SpikeMixture: against few-token integrals and siblings (spikes that coincide are one
spike).
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.estimates import (
    answer_of,
    budget,
    noise_adds,
    sampled_call,
    sibling,
)
from stress.judged import Answer, Truth
from stress.references import planted_risks as reference
from stress.subject import Setting, Subject
from stress.tokens import gamma_and_signal, orthonormal, unit

__all__ = ["SUBJECTS"]

# -- SpikeMixture ----------------------------------------------------------------------------------


def _draw_spikes(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["coincide", "line", "any"])
    H = log_integer(rng, 1, 3)
    gamma, signal = gamma_and_signal(rng)
    d = log_integer(rng, 3, 50)
    L = log_integer(rng, 1, 12, (1, 2))
    frame = orthonormal(rng, 3, d)
    prior = np.maximum(pmf(rng, H), 1e-20)
    means = np.repeat(signal * frame[:1], H, axis=0)
    outputs = frame[1]
    if kind == "line":
        gamma, L = 1.0, 2
        means = (
            rng.choice([-1, 1], H)[:, None]
            * log_uniform(rng, 0.05, 8.0, (0.0,))
            * rng.random((H, 1))
            * frame[:1]
        )
    elif kind == "any":
        means = np.stack([signal * unit(rng, d) for _ in range(H)])
        outputs = np.stack([unit(rng, d) for _ in range(H)])
    return {
        "kind": kind,
        "dim": d,
        "length": L,
        "gamma": gamma,
        "means": means,
        "outputs": outputs,
        "prior": prior / prior.sum(),
        "budget": budget(rng),
    }


def _spikes(setting: Setting) -> at.SpikeMixture:
    return at.SpikeMixture(
        **{name: x for name, x in setting.items() if name not in ("kind", "budget")}
    )


def _truth_spikes(setting: Setting) -> Truth | None:
    task = _spikes(setting)
    if setting["kind"] == "coincide":
        signal = float(np.linalg.norm(task.means[0]))
        one = sibling(
            at.SingleLocation(task.dim, task.length, task.gamma, 0.0, signal).bayes_risk
        )
        return one and Truth(
            one.excess, one.error + 1e-14 * one.excess * (1 + signal**2 / task.gamma**2)
        )
    if setting["kind"] == "line":
        axis = task.means[int(np.argmax((task.means**2).sum(1)))]
        size = float(np.linalg.norm(axis))
        strengths = task.means @ (axis / size if size else axis)
        return Truth(*reference.line_spikes(strengths, task.prior))
    return None


def _too_long(setting: Setting) -> str:
    g2 = setting["gamma"] ** 2
    d = setting["dim"]
    longest = float((setting["means"] ** 2).sum(1).max())
    size = (
        d * abs(math.log(setting["gamma"]))
        + longest / g2
        + abs(1 / g2 - 1) * (longest + max(1.0, g2) * d)
    )
    return (
        "log-likelihood ratios beyond 1e9 are known to 1e-7 at best" if size > 0.99e9 else ""
    )


def _call_spikes_null(setting: Setting) -> Answer:
    return answer_of(_spikes(setting).null_risk())


def _truth_spikes_null(setting: Setting) -> Truth:
    task = _spikes(setting)
    with mp.workdps(40):
        said = [
            mp.fdot(m.tolist(), v.tolist())
            for m, v in zip(task.means, task.outputs, strict=True)
        ]
        prior = [mp.mpf(float(p)) for p in task.prior]
        mean = mp.fdot(prior, said)
        return Truth(
            float(mp.mpf(task.gamma) ** 2 + mp.fdot(prior, [(x - mean) ** 2 for x in said]))
        )


SUBJECTS: list[Subject] = [
    Subject(
        "SpikeMixture.bayes_risk",
        ("SpikeMixture.bayes_risk",),
        _draw_spikes,
        sampled_call(_spikes),
        _truth_spikes,
        noise_adds(_spikes),
        _too_long,
        weight=2.0,
    ),
    Subject(
        "SpikeMixture.null_risk",
        ("SpikeMixture.null_risk",),
        _draw_spikes,
        _call_spikes_null,
        _truth_spikes_null,
    ),
]
