"""What moved between two reports: states, numbers against their tolerance, claims that are new or
gone, and what the two were made with.

Comparisons are matched by what they compare. A number counts as moved if it differs at all; its
shift is how far predicted or measured went, in the smaller of the two tolerances. Format 1 of
verdicts.json (before 0.2.0) has one comparison a claim and no environment: against it only the
comparison nearest to breaking is compared, and a sentence says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnscope.claims.verdict import WORDS
from attnscope.errors import AttnscopeError, bad

__all__ = ["Change", "Difference", "Moved", "Saved", "difference", "read_saved"]

READ_FORMATS = (1, 2)  # of verdicts.json that are read
NEAREST_COMPARISON = "the comparison nearest to breaking"
NUMBER_FIELDS = ("predicted", "measured", "tolerance")
FORMAT_1_NOTE = (
    "has format 1, which holds one comparison a claim, that nearest to breaking, and neither "
    "provenance nor environment: only that comparison is compared, and states are derived from "
    "holds, expected and condition."
)


@dataclass(frozen=True)
class Saved:
    """A verdicts.json: where it lies, its format, seed, version, environment,
    and its records by id.
    """

    place: str
    format: int
    seed: int
    version: str
    environment: dict[str, str]
    records: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Moved:
    """A comparison that has other numbers: (before, after) of each, None where there was none.

    shift: in tolerances; None where a side is missing or the tolerance is zero.
    """

    what: str
    predicted: tuple[float | None, float | None]
    measured: tuple[float | None, float | None]
    tolerance: tuple[float | None, float | None]
    holds: tuple[bool | None, bool | None]
    shift: float | None


@dataclass(frozen=True)
class Change:
    """A claim that is in both reports and not the same: its states, and what moved."""

    id: str
    title: str
    state: tuple[str, str]
    moved: tuple[Moved, ...]

    @property
    def shift(self) -> float:
        """The largest of its shifts."""
        return max((m.shift for m in self.moved if m.shift is not None), default=0.0)


@dataclass(frozen=True)
class Difference:
    """Of two reports. `same` claims have equal states and numbers; new and gone are ids."""

    places: tuple[str, str]
    changes: tuple[Change, ...]
    same: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    made_with: dict[str, tuple[str, str]]
    notes: tuple[str, ...]

    @property
    def states(self) -> tuple[Change, ...]:
        """The changes of state."""
        return tuple(c for c in self.changes if c.state[0] != c.state[1])

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


VERDICTS_BYTES = (
    2**28
)  # bytes of verdicts.json: that of all claims has a few hundred thousand


def read_saved(report: str | os.PathLike[str]) -> Saved:
    """The verdicts of a report's folder, or of its verdicts.json, whatever its format."""
    given = Path(report)
    must = "a folder with the verdicts.json that attnscope reproduce writes, or that file"
    hint = "attnscope reproduce --out report first"

    def refusal(got: str) -> AttnscopeError:
        return bad("REPORT", "attnscope", must, f"{given} ({got})", hint)

    try:
        path = given / "verdicts.json" if given.is_dir() else given
        with open(path, "rb") as file:
            content = json.loads(
                file.read(VERDICTS_BYTES).decode("utf-8")
            )  # /dev/zero has no end
    except OSError as error:
        raise refusal((error.strerror or "not readable").lower()) from None
    except (ValueError, RecursionError):
        raise refusal("no JSON") from None
    try:
        number = content.get("format", 1)
        if number not in READ_FORMATS:
            raise refusal(f"format {number!r} of another version")
        records = {r["id"]: _record(r, number) for r in content["verdicts"]}
        head = content["seed"], str(content["version"]), content.get("environment", {})
    except (AttributeError, KeyError, TypeError):
        raise refusal("other content") from None
    return Saved(str(given), number, *head, records)


def difference(first: Saved, second: Saved) -> Difference:
    """What the second report has that the first has not, and the other way round."""
    old = [saved for saved in (first, second) if saved.format == 1]
    changes = []
    shared = [name for name in first.records if name in second.records]
    for name in shared:
        pair = first.records[name], second.records[name]
        moved = _moved_comparisons(
            *(_comparisons_by_name(record, bool(old)) for record in pair)
        )
        states = pair[0]["state"], pair[1]["state"]
        if moved or states[0] != states[1]:
            changes.append(Change(name, pair[1]["title"], states, moved))
    return Difference(
        places=(first.place, second.place),
        changes=tuple(changes),
        same=len(shared) - len(changes),
        new=tuple(name for name in second.records if name not in first.records),
        gone=tuple(name for name in first.records if name not in second.records),
        made_with=_differing_facts(_facts(first), _facts(second)),
        notes=tuple(f"{saved.place} {FORMAT_1_NOTE}" for saved in old),
    )


def _record(record: dict[str, Any], number: int) -> dict[str, Any]:
    """A record with the fields that are compared; format 1 had no state and no list."""
    if number == 1:
        nearest = {name: record[name] for name in NUMBER_FIELDS}
        known = nearest["measured"] is not None
        nearest |= {"what": NEAREST_COMPARISON, "holds": record["holds"], "rule": ""}
        record = {
            **record,
            "comparisons": [nearest] if known else [],
            "state": _state(record),
        }
    for compared in record["comparisons"]:
        if not all(isinstance(compared[name], int | float) for name in NUMBER_FIELDS):
            raise TypeError("a number is none")
    return {**record, "title": str(record["title"]), "state": str(record["state"])}


def _state(record: dict[str, Any]) -> str:
    """The state that a record of format 1 would have today."""
    condition = record["condition"]
    if record["holds"] is None:
        kind = "skipped"
    elif condition.startswith("error: "):
        kind = "error"
    elif record["holds"] != record["expected"]:
        kind = "unexpected"
    elif not record["holds"]:
        kind = "declared"
    else:
        kind = "condition" if condition else "holds"
    return WORDS[kind]


def _comparisons_by_name(record: dict[str, Any], nearest: bool) -> dict[str, dict[str, Any]]:
    """Comparisons by what they compare (a repeated name gets its number), or the nearest alone."""
    if nearest:
        numbers = {name: record[name] for name in NUMBER_FIELDS}
        if numbers["measured"] is None:
            return {}
        return {NEAREST_COMPARISON: {**numbers, "holds": record["holds"]}}
    found: dict[str, dict[str, Any]] = {}
    for compared in record["comparisons"]:
        name = compared["what"]
        seen = sum(key == name or key.startswith(f"{name} #") for key in found)
        found[f"{name} #{seen + 1}" if seen else name] = compared
    return found


def _moved_comparisons(
    first: Mapping[str, dict[str, Any]], second: Mapping[str, dict[str, Any]]
) -> tuple[Moved, ...]:
    """The comparisons whose numbers differ, those of the first report first."""
    out = []
    for what in dict.fromkeys([*first, *second]):
        a = first.get(what, {})
        b = second.get(what, {})
        if all(a.get(name) == b.get(name) for name in NUMBER_FIELDS):
            continue
        pairs = {name: (a.get(name), b.get(name)) for name in (*NUMBER_FIELDS, "holds")}
        out.append(Moved(what, **pairs, shift=_shift(a, b)))
    return tuple(out)


def _shift(a: Mapping[str, Any], b: Mapping[str, Any]) -> float | None:
    if not a or not b or min(a["tolerance"], b["tolerance"]) <= 0:
        return None
    far = max(abs(a[name] - b[name]) for name in ("predicted", "measured"))
    return float(far / min(a["tolerance"], b["tolerance"]))


def _facts(saved: Saved) -> dict[str, str]:
    own = {"format": str(saved.format), "seed": str(saved.seed), "version": saved.version}
    return own | {name: str(value) for name, value in saved.environment.items()}


def _differing_facts(
    first: dict[str, str], second: dict[str, str]
) -> dict[str, tuple[str, str]]:
    """The facts that differ, "" where one is not known."""
    names = dict.fromkeys([*first, *second])
    pairs = {name: (first.get(name, ""), second.get(name, "")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
