"""What a claim is, and when it holds.

A claim states something in sentences, names its source, and compares numbers from two independent
routes: `predicted` by one, `measured` by the other. It holds if every comparison does; nothing else
enters the verdict. Every assertion of a sentence names the comparison that tests it (sentence.py),
and one comparison is the headline, the number that a reader remembers. A claim declares beforehand
whether it is expected to hold: a paper's statement may be declared expected false, with the
condition under which it would hold.

One file is one claim: a module with `CLAIM = Claim(...)`, its `check` beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from attnscope.claims.provenance import Provenance
from attnscope.claims.sentence import Sentence, sentences_of
from attnscope.claims.table import Table
from attnscope.errors import bad
from attnscope.figures.figure import Figure

__all__ = ["Claim", "Comparable", "Comparison", "Context", "Evidence", "Skipped", "Table"]

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

    Args:
        what: the quantity in words, as tables show it.
        why: the reason of the tolerance: standard errors with the false-alarm rate, a remainder
            bound with its formula, rounding, printed digits.
        routes: (predicted by, measured by), where they are not the claim's.
        key: a short name, unique in its claim, by which sentences refer to it.
        scale: the size against which a deviation counts where it is not the prediction: of a
            prediction of zero, the size that the effect would have.
        coarse: why the order of magnitude is the content, where a deviation of half the scale
            would pass.
    """

    what: str
    predicted: float
    measured: float
    tolerance: float
    rule: str = "equal"
    why: str = ""
    routes: tuple[str, str] | None = None
    key: str = ""
    scale: float | None = None
    coarse: str = ""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise bad("rule", "Comparison", f"one of {RULES}", self.rule)
        for name in ("predicted", "measured", "tolerance"):
            value = float(getattr(self, name))
            if value != value or abs(value) == float("inf"):
                raise bad(name, f"Comparison {self.what!r}", "finite", value)
            object.__setattr__(self, name, value)
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise bad("scale", f"Comparison {self.what!r}", "positive and finite", self.scale)

    @property
    def detectable(self) -> float:
        """The least deviation that breaks the comparison, as a share of `scale` or else of the
        prediction: tolerance over size (infinite for a prediction of zero without a scale).

        >>> Comparison("risk", 0.1, 0.1, 1e-3).detectable
        0.01
        >>> Comparison("runs at the oracle", 0, 0, 0.5, scale=30).detectable
        0.016666666666666666
        """
        size = abs(self.predicted) if self.scale is None else self.scale
        return self.tolerance / size if size else float("inf")

    @property
    def holds(self) -> bool:
        return self._excess <= self.tolerance

    @property
    def _excess(self) -> float:
        """How far measured is from predicted, to the side that the rule forbids."""
        difference = self.measured - self.predicted
        return {"equal": abs(difference), "at most": difference, "at least": -difference}[
            self.rule
        ]

    @property
    def strain(self) -> float:
        """How much of the tolerance is used up (above 1: it does not hold);
        for one-sided rules below 0 is slack.
        """
        used = self._excess
        if self.tolerance:
            return used / self.tolerance
        return float("inf") * used if used else 0.0

    def perturbed(self) -> Comparison:
        """The measured route moved by three tolerances and 5 % of the prediction, to the side where
        the comparison should break.
        """
        shift = 3 * self.tolerance + 0.05 * abs(self.predicted)
        down = self.rule == "at least" or (
            self.rule == "equal" and self.measured < self.predicted
        )
        return replace(
            self, measured=self.measured - shift if down else self.measured + shift
        )


class Comparable(Protocol):
    """Anything with a comparison of its own: a `Series`."""

    @property
    def comparison(self) -> Comparison: ...


@dataclass(frozen=True)
class Evidence:
    """What a check returns: the comparisons (a `Series` stands for its own), the figure as plain
    data, and a sentence or two on what was seen; `tables` where that would be a list of numbers.

    reduced: where the check could not run as stated and ran on less: on what ("" otherwise). The
    verdict then has it as its condition.
    """

    comparisons: tuple[Any, ...]  # of Comparison | Comparable; Comparison after construction
    figure: Figure
    notes: str = ""
    reduced: str = ""
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        found = tuple(
            entry if isinstance(entry, Comparison) else entry.comparison
            for entry in self.comparisons
        )
        object.__setattr__(self, "comparisons", found)
        if not found:
            raise bad("comparisons", "Evidence", "at least one", "none")
        twice = [key for key, n in Counter(c.key for c in found).items() if key and n > 1]
        if twice:
            raise bad("key", "Evidence", "of one comparison", f"{twice[0]!r} twice")

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.comparisons)

    def headline(self, key: str = "") -> Comparison:
        """The comparison of this key; without a key the one nearest to breaking (or broken)."""
        named = [c for c in self.comparisons if key and c.key == key]
        return (
            named[0]
            if named
            else max(self.comparisons, key=lambda c: (not c.holds, c.strain))
        )


@dataclass(frozen=True)
class Claim:
    """A statement that can be run.

    Args:
        id: "slr-01-...", "exch-01-...", "beyond-01-...".
        title: at most 60 characters.
        statement: its sentences, with [words](key) around every assertion and the key of the
            comparison that tests it (sentence.py); a plain string is not tied to any comparison.
        headline: key of the comparison that a reader remembers; "" for the one nearest to breaking.
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
    statement: str | Sequence[str]
    provenance: Provenance
    hypotheses: str
    routes: tuple[str, str]
    check: Callable[[Context], Evidence]
    snippet: str
    expected: bool = True
    condition: str = ""
    rests_on: tuple[str, ...] = ()
    headline: str = ""

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The statement, sentence by sentence."""
        return sentences_of(self.statement)

    @property
    def words(self) -> str:
        """The statement as a reader sees it."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def source(self) -> str:
        """The provenance in a line."""
        return self.provenance.line
