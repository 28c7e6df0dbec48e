"""What came of one check: a verdict, and how much of what was allowed is used up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.optional import NotInstalled
from attnscope.plugins import error_line

__all__ = [
    "FAILS",
    "PASSES",
    "SKIPPED",
    "CheckFailed",
    "CheckRecord",
    "CheckSkipped",
    "checks",
]

PASSES = "passes"
FAILS = "fails"
SKIPPED = "skipped"


@dataclass(frozen=True)
class CheckRecord:
    """One check of one thing that a plugin brings.

    Args:
        plugin: the distribution and its version.
        kind: task, predictor, claim, paper, command, or the group of an unknown entry point.
        name: of the thing.
        checked: what was checked, in a few words.
        verdict: "passes", "fails" or "skipped".
        worst: the largest |difference| / allowed among its comparisons; None without any.
        reason: why it fails or is skipped, in one sentence.
    """

    plugin: str
    kind: str
    name: str
    checked: str
    verdict: str
    worst: float | None = None
    reason: str = ""


class CheckFailed(AttnscopeError):
    """A check that does not hold, in one sentence."""

    def __init__(self, sentence: str, worst: float | None = None) -> None:
        super().__init__(sentence)
        self.worst = worst


class CheckSkipped(Exception):
    """A check that does not apply, in one sentence."""


def checks(
    plugin: str,
    kind: str,
    name: str,
    steps: Iterable[tuple[str, Callable[[], float | None]]],
) -> Iterator[CheckRecord]:
    """Runs the steps (what is checked, function that returns the worst |difference| / allowed) in
    order. The first that fails ends them: what comes later relies on it.
    """
    for checked, step in steps:
        record: dict[str, Any] = {"verdict": PASSES}
        try:
            record["worst"] = step()
        except (CheckSkipped, NotInstalled) as reason:
            record = {"verdict": SKIPPED, "reason": str(reason)}
        except CheckFailed as error:
            record = {"verdict": FAILS, "reason": str(error), "worst": error.worst}
        except AttnscopeError as error:
            record = {"verdict": FAILS, "reason": str(error)}
        except (Exception, SystemExit) as error:  # whatever somebody else's code does
            record = {"verdict": FAILS, "reason": error_line(error)}
        yield CheckRecord(plugin, kind, name, checked, **record)
        if record["verdict"] == FAILS:
            return
