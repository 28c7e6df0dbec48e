"""What a claim is, and when it holds.

A claim states something in words, names its source, and compares numbers from two independent
routes: `predicted` by one, `measured` by the other. It holds when every comparison does; nothing
else enters the verdict. A claim declares beforehand whether it is expected to hold: a paper's
statement may be declared expected false, with the condition under which it would hold.

One file of this room is one claim: a module with `CLAIM = Claim(...)`, its `check` beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from attnscope.claims.provenance import Provenance
from attnscope.claims.table import Table
from attnscope.errors import bad
from attnscope.figures.figure import Figure

__all__ = ["Claim", "Comparison", "Context", "Evidence", "Skipped", "Table"]

RULES = ("equal", "at most", "at least")


class Skipped(Exception):
    """Raised by a check that cannot run here; the message says what to install."""


@dataclass(frozen=True)
class Context:
    """What a check may depend on: the seed, and whether sizes are raised (`--full`)."""

    seed: int = 0
    full: bool = False

    def pick(self, default: Any, full: Any) -> Any:
        """The default size, or the full one."""
        return full if self.full else default


@dataclass(frozen=True)
class Comparison:
    """One number by two routes; `tolerance` is absolute.

    rule: "equal" |measured - predicted| <= tolerance; "at most" measured <= predicted + tolerance;
    "at least" the mirror image.

    >>> Comparison("risk", predicted=0.1135, measured=0.1134, tolerance=1e-3).holds
    True

    why: the reason of the tolerance: standard errors with the false-alarm rate, a remainder bound
    with its formula, roundoff, printed digits. routes: (predicted by, measured by), where they are
    not the claim's.
    """

    what: str
    predicted: float
    measured: float
    tolerance: float
    rule: str = "equal"
    why: str = ""
    routes: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise bad("rule", "Comparison", f"one of {RULES}", self.rule)
        for name in ("predicted", "measured", "tolerance"):
            value = float(getattr(self, name))
            if value != value or abs(value) == float("inf"):
                raise bad(name, f"Comparison {self.what!r}", "finite", value)
            object.__setattr__(self, name, value)

    @property
    def holds(self) -> bool:
        difference = self.measured - self.predicted
        return {"equal": abs(difference), "at most": difference, "at least": -difference}[
            self.rule
        ] <= self.tolerance

    @property
    def strain(self) -> float:
        """How much of the tolerance is used up (above 1: it does not hold);
        for one-sided rules below 0 is slack.
        """
        difference = self.measured - self.predicted
        used = {"equal": abs(difference), "at most": difference, "at least": -difference}[
            self.rule
        ]
        return (
            used / self.tolerance if self.tolerance else float("inf") * used if used else 0.0
        )

    def perturbed(self) -> Comparison:
        """The measured route moved by three tolerances, at least 5 %,
        to the side where the comparison should break.
        """
        shift = max(3 * self.tolerance, 0.05 * abs(self.predicted))
        down = self.rule == "at least" or (
            self.rule == "equal" and self.measured < self.predicted
        )
        return replace(
            self, measured=self.measured - shift if down else self.measured + shift
        )


@dataclass(frozen=True)
class Evidence:
    """What a check returns: the comparisons, the figure as plain data,
    and a sentence or two on what was seen; `tables` where that would be a sentence of many numbers.

    reduced: where the check could not run as stated and ran on less: on what ("" otherwise). The
    verdict then has it as its condition.
    """

    comparisons: tuple[Comparison, ...]
    figure: Figure
    notes: str = ""
    reduced: str = ""
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        if not self.comparisons:
            raise bad("comparisons", "Evidence", "at least one", "none")

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.comparisons)

    @property
    def headline(self) -> Comparison:
        """The comparison nearest to breaking (or broken): what the summary table shows."""
        return max(self.comparisons, key=lambda c: (not c.holds, c.strain))


@dataclass(frozen=True)
class Claim:
    """A statement that can be run.

    Args:
        id: "slr-01-...", "exch-01-...", "beyond-01-...".
        title: at most 60 characters.
        statement: the claim in words, a sentence or a short paragraph.
        provenance: the statements of papers that it checks, its relation to them, what is ours.
        hypotheses: under which it is claimed.
        routes: (predicted by, measured by), two independent routes in a few words each.
        check: Context -> Evidence.
        snippet: the Python lines that redo its central number.
        expected: whether it is expected to hold; False for a statement that fails as stated.
        condition: where it holds only under a condition: which.
        rests_on: ids of claims whose result its own check uses.
    """

    id: str
    title: str
    statement: str
    provenance: Provenance
    hypotheses: str
    routes: tuple[str, str]
    check: Callable[[Context], Evidence]
    snippet: str
    expected: bool = True
    condition: str = ""
    rests_on: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The provenance in a line."""
        return self.provenance.line
