"""The attack: draw settings, call the project, ask the reference, judge.

Setting i of a subject is a function of (seed, subject's name, i) alone, so a failure is repeated by
its number, and the settings of a short run are the first ones of a long run.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from stress import subjects as home
from stress.judged import Answer, ratio
from stress.subject import RULE, Setting, Subject

__all__ = [
    "Outcome",
    "Score",
    "all_subjects",
    "attack",
    "attack_one",
    "families",
    "shares",
    "summary",
]


@dataclass(frozen=True)
class Outcome:
    """One setting: the worst ratio over its rule and where it came from;
    trouble is "" unless the setting failed.
    """

    subject: str
    number: int
    setting: Setting
    # largest ratio / rule over truth and relations; 0 where only manners were checked
    worst: float
    against: str  # "truth", a relation's name, or "refused: ..."
    trouble: str
    sampled: bool
    seconds: float


@dataclass(frozen=True)
class Score:
    """What a subject's settings came to."""

    subject: str
    settings: int
    judged: int  # with a truth or a relation
    refused: int
    worst: float
    worst_number: int
    seconds: float  # the slowest call
    troubles: tuple[Outcome, ...]


def families() -> dict[str, tuple[Subject, ...]]:
    """Every file of subjects/ by its name, with its SUBJECTS."""
    names = sorted(module.name for module in iter_modules(home.__path__))
    return {name: tuple(import_module(f"{home.__name__}.{name}").SUBJECTS) for name in names}


def all_subjects() -> list[Subject]:
    return [subject for group in families().values() for subject in group]


def shares(subjects: Sequence[Subject], settings: int) -> list[int]:
    """How many settings each subject gets, by weight, at least one."""
    total = sum(subject.weight for subject in subjects)
    return [max(1, round(settings * subject.weight / total)) for subject in subjects]


def attack(
    subjects: Sequence[Subject],
    settings: int,
    seed: int,
    watch: Callable[[Subject, int], None] | None = None,
) -> Iterable[Outcome]:
    """Outcomes of `settings` settings spread over the subjects;
    `watch(subject, number)` is told before each.
    """
    for subject, count in zip(subjects, shares(subjects, settings), strict=True):
        for number in range(count):
            if watch is not None:
                watch(subject, number)
            yield attack_one(subject, number, seed)


def attack_one(subject: Subject, number: int, seed: int) -> Outcome:
    """Draw setting `number`, call twice (bits must be equal), judge."""
    rng = np.random.default_rng([seed, zlib.crc32(subject.name.encode()), number])
    setting = subject.draw(rng)
    started = time.perf_counter()

    def outcome(worst: float, against: str, trouble: str, sampled: bool = False) -> Outcome:
        return Outcome(
            subject.name, number, setting, worst, against, trouble, sampled, elapsed
        )

    try:
        answer = subject.call(setting)
        elapsed = time.perf_counter() - started
        again = subject.call(setting)
    except AttnscopeError as refusal:
        elapsed = time.perf_counter() - started
        reason = subject.may_refuse(setting)
        trouble = "" if reason else f"refused without a declared reason: {refusal}"
        return outcome(0.0, f"refused: {reason}", trouble)
    except Exception as error:
        elapsed = time.perf_counter() - started
        return outcome(np.inf, "manners", f"{type(error).__name__}: {error}")
    fault = _manners(answer, again)
    if fault:
        return outcome(np.inf, "manners", fault)
    try:
        judged = _judged(subject, setting, answer, rng)
    except (
        Exception
    ) as error:  # of the reference: it must not end the run, nor pass for a judgement
        return outcome(
            np.inf, "reference", f"the reference failed: {type(error).__name__}: {error}"
        )
    findings = [(name, r / RULE[sampled], sampled) for name, r, sampled in judged]
    name, worst, sampled = max(
        findings, key=lambda finding: finding[1], default=("", 0.0, False)
    )
    trouble = (
        f"{name}: ratio {worst * RULE[sampled]:.3g}, allowed {RULE[sampled]:g}"
        if worst > 1
        else ""
    )
    return outcome(worst, name, trouble, any(s for _, _, s in findings))


def _judged(
    subject: Subject, setting: Setting, answer: Answer, rng: np.random.Generator
) -> list[tuple[str, float, bool]]:
    asked = rng.random() < subject.truths
    truth = subject.truth(setting) if asked else None
    found = [] if truth is None else [("truth", ratio(answer, truth), answer.sampled)]
    return found + [(r.name, r.ratio, r.sampled) for r in subject.relations(setting, answer)]


def _manners(answer: Answer, again: Answer) -> str:
    """What no answer may do: be non-finite, have a negative error, or change when asked again."""
    value, error = (np.asarray(part, dtype=np.float64) for part in answer[:2])
    if np.isnan(value).any() or not np.isfinite(error).all():
        return f"a value or error that is no number: {_short(answer)}"
    if (error < 0).any():
        return f"a negative error: {_short(answer)}"
    if not np.array_equal(value, np.asarray(again.value, dtype=np.float64)):
        return f"two calls differ: {_short(answer)} and {_short(again)}"
    return ""


def _short(answer: Answer) -> str:
    text = " ".join(f"{answer.value!r} +- {answer.error!r}".split())
    return text if len(text) <= 200 else text[:197] + "..."


def summary(outcomes: Iterable[Outcome]) -> list[Score]:
    """One row per subject, in the order of the outcomes."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.subject, []).append(outcome)
    return [_score(name, found) for name, found in rows.items()]


def _score(name: str, found: list[Outcome]) -> Score:
    worst: Any = max(found, key=lambda outcome: outcome.worst)
    judged = sum(bool(o.against) and not o.against.startswith("refused") for o in found)
    refused = sum(o.against.startswith("refused") for o in found)
    troubles = tuple(o for o in found if o.trouble)
    slowest = max(o.seconds for o in found)
    return Score(
        name, len(found), judged, refused, worst.worst, worst.number, slowest, troubles
    )
