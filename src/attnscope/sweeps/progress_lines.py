"""What a sweep tells: the finished one, one under way, one that is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnscope.sweeps.rows import Row

if TYPE_CHECKING:
    import pandas

__all__ = ["Failure", "Plan", "Report", "Status"]


@dataclass(frozen=True)
class Failure:
    """A cell that failed: its parameters, the error in one line, the traceback,
    the file that keeps it.
    """

    parameters: Row
    error: str
    traceback: str
    file: str


@dataclass(frozen=True)
class Report:
    """A finished sweep: the frame, and how it came about."""

    frame: pandas.DataFrame
    cells: int
    computed: int
    reused: int
    damaged: int  # stored files found truncated or altered, and computed again
    failures: tuple[Failure, ...]
    undefined: dict[str, int]  # result name -> number of rows where the function gave NaN
    seconds: float
    has_older: bool = (
        False  # the store has results of this function from attnscope 0.1 or 0.2
    )

    def troubles(self) -> str:
        """What a reader must know before using the frame, in sentences; "" if nothing."""
        parts = []
        if self.failures:
            first = self.failures[0]
            parts.append(
                f"{len(self.failures)} of {self.cells} cells failed and are not in the frame, the "
                "first with "
                f"{first.error} at {first.parameters} (traceback in {first.file}); "
                "they are tried again next time."
            )
        if self.undefined:
            names = ", ".join(
                f"{name} in {count} rows" for name, count in self.undefined.items()
            )
            parts.append(f"NaN, kept as a missing value: {names}.")
        if self.damaged:
            parts.append(
                f"{self.damaged} stored results were truncated or altered and have been computed "
                "again."
            )
        if self.has_older:
            parts.append(
                "The store has results of attnscope 0.1 or 0.2, which are kept but not reused: what "
                "names a cell has changed."
            )
        return " ".join(parts)


@dataclass(frozen=True)
class Status:
    """How far a sweep is: numbers of cells, and the failures on record."""

    cells: int
    done: int
    failed: int
    missing: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Plan:
    """What a sweep would do: cells to compute,
    and the seconds it should take (None if nothing is known).
    """

    cells: int
    done: int
    todo: int
    seconds: float | None
    measured_on: int  # stored cells behind the estimate
