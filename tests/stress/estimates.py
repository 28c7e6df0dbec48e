"""What the stress tests ask of every Estimate of a risk:
who is sampled, who is below whom, what a sibling says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from stress.judged import Answer, Relation, at_most, same
from stress.subject import Setting

__all__ = [
    "answer_of",
    "below",
    "budget",
    "noise_adds",
    "ordered",
    "sampled_call",
    "several",
    "sibling",
    "strong",
]

# of sampled risks in most settings: a fraction of the time of the defaults, the same promise
SAMPLES = 4000
DEFAULT = 0.03  # share of the settings at the default number of samples


def answer_of(found: Any) -> Answer:
    """The excess risk of an Estimate with its error; sampled where the method says so."""
    sampled = (
        "Monte Carlo" in found.method or "sampled" in found.method or "monte" in found.method
    )
    return Answer(found.excess, found.error, sampled)


def several(*found: Any) -> Answer:
    """Deterministic Estimates side by side."""
    return Answer(np.array([x.excess for x in found]), np.array([x.error for x in found]))


def budget(rng: np.random.Generator) -> dict[str, int]:
    """Keyword arguments of a sampled risk."""
    chosen = {} if rng.random() < DEFAULT else {"samples": SAMPLES}
    return chosen | {"seed": int(rng.integers(1 << 31))}


def sibling(risk: Callable[[], Any]) -> Any:
    """Another task's Estimate, or None where that one refuses."""
    try:
        return risk()
    except AttnscopeError:
        return None


def strong(signal: float) -> str:
    return "the Bayes integral serves signals up to 1e5" if signal > 1e5 else ""


def below(name: str, bayes: Answer, other: Any) -> Relation:
    return at_most(name, bayes.value, other.excess, bayes.error + other.error, bayes.sampled)


def ordered(
    build: Callable[[Setting], Any],
) -> Callable[[Setting, Answer], Iterable[Relation]]:
    def relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
        task = build(setting)
        yield at_most("a risk is at least 0", 0.0, answer.value, answer.error, answer.sampled)
        yield below("Bayes <= null", answer, task.null_risk())
        if hasattr(task, "linear_risk"):
            yield below("Bayes <= affine", answer, task.linear_risk())

    return relations


def sampled_call(build: Callable[[Setting], Any]) -> Callable[[Setting], Answer]:
    return lambda setting: answer_of(build(setting).bayes_risk(**setting["budget"]))


def noise_adds(
    build: Callable[[Setting], Any],
) -> Callable[[Setting, Answer], Iterable[Relation]]:
    basic = ordered(build)

    def relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
        yield from basic(setting, answer)
        noisy = build(setting | {"noise": 0.5}).null_risk()
        yield same("noise^2 adds", noisy.value, noisy.excess + 0.25, 0.0)

    return relations
