"""Which claims there are: those that installed packages announce (plugins.py, group attnscope.claims).

An entry point is one of

    a package    one file per claim: FAMILY_NUMBER_WORDS.py holds CLAIM with the id
                 FAMILY-NUMBER-WORDS, in the package or in a folder of it. A claim is known by the
                 name of its file and imported when it is asked for. FAMILIES of the package, if it
                 has one, is the order of the families; docs_page(id) the page of the documentation.
    a Claim, or a list of them

attnscope announces the package attnscope_claims. An id is taken once: who repeats one is left out,
with a sentence in `broken`.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from attnscope import plugins
from attnscope.errors import AttnscopeError, bad, listed

if TYPE_CHECKING:  # a shell that completes ids loads no NumPy
    from attnscope.claims.claim import Claim

__all__ = [
    "ClaimList",
    "ListedClaim",
    "all_claims",
    "docs_page",
    "listed_claims",
    "one_claim",
    "own_claims",
    "selected_claims",
]

IDS_SHOWN = 3  # in a sentence
OWN = "attnscope "  # how the origin of our own claims begins
CLAIM_ID = re.compile(r"\w[\w-]*")
CLAIM_FILE = re.compile(r"[a-z][a-z0-9]*_\d+_\w+")  # slr_13_swapped_beats_oracle


class ListedClaim(NamedTuple):
    """A claim by its id: the package and version that brings it, how to import it, its page."""

    origin: str
    load: Callable[[], Claim]
    page: str = "claims"


class ClaimList(NamedTuple):
    """Claims by id, ours first; broken: a sentence for each entry point that was left out."""

    claims: dict[str, ListedClaim]
    broken: list[str]


def listed_claims() -> ClaimList:
    """Every claim that can be asked for; the files of a package are named, not imported.

    >>> listed_claims().claims["slr-13-swapped-beats-oracle"].load().headline
    'gap'
    """
    return _claims_on_path(tuple(sys.path))


@lru_cache(maxsize=plugins.PATHS_KEPT)
def _claims_on_path(path: tuple[str, ...]) -> ClaimList:
    found = ClaimList({}, [])
    for point in plugins.announced(plugins.CLAIMS):
        try:
            rows = _rows_of(point)
            for name in rows:
                if name in found.claims:
                    raise point.refusal(f"{name}, which is taken", "a claim with a new id")
        except AttnscopeError as error:
            found.broken.append(str(error))
            continue
        found.claims.update(rows)
    return found


def _rows_of(point: plugins.EntryPoint) -> dict[str, ListedClaim]:
    """The claims of one entry point, by id."""
    loaded = point.load()
    if isinstance(loaded, ModuleType):
        with point.guarded("a package of claims"):
            return _rows_of_package(loaded, point)
    from attnscope.claims.claim import Claim

    claims = list(loaded) if isinstance(loaded, (list, tuple)) else [loaded]
    for claim in claims:
        if not isinstance(claim, Claim):
            must = "a Claim of attnscope.claims.claim, a list of them, or a package of claims"
            raise point.refusal(type(claim).__name__, must)
        if not CLAIM_ID.fullmatch(str(claim.id)):
            must = "a claim whose id has letters, digits and hyphens"
            raise point.refusal(listed([claim.id]), must)
    return {
        claim.id: ListedClaim(point.origin, partial(_claim_itself, claim)) for claim in claims
    }


def _rows_of_package(
    package: ModuleType, point: plugins.EntryPoint
) -> dict[str, ListedClaim]:
    """The claims of a package, in the order of its families and then of ids."""
    families = list(getattr(package, "FAMILIES", ()))
    page_of = getattr(package, "docs_page", lambda name: "claims")
    homes = {}
    for folder in getattr(package, "__path__", ()):
        for file in sorted(Path(folder).rglob("*.py")):
            if CLAIM_FILE.fullmatch(file.stem):
                parts = file.relative_to(folder).with_suffix("").parts
                homes[file.stem.replace("_", "-")] = ".".join((package.__name__, *parts))
    if not homes:
        must = "a package with files such as paper_01_first_claim.py"
        raise point.refusal(package.__name__, must)

    def rank(name: str) -> tuple[int, str]:
        family = name.split("-")[0]
        return (families.index(family) if family in families else len(families), name)

    return {
        name: ListedClaim(
            point.origin, partial(_claim_in, homes[name], name, point), str(page_of(name))
        )
        for name in sorted(homes, key=rank)
    }


def _claim_itself(claim: Claim) -> Claim:
    return claim


def _claim_in(module: str, name: str, point: plugins.EntryPoint) -> Claim:
    """CLAIM of a file, or one sentence that names the package."""
    from attnscope.claims.claim import Claim

    with point.guarded(f"a package whose {name} loads", own_refusals=False):
        claim = import_module(module).CLAIM
    if not isinstance(claim, Claim) or claim.id != name:
        got = getattr(claim, "id", type(claim).__name__)
        raise point.refusal(
            str(got), f"a package whose file for {name} has a Claim with that id"
        )
    return claim


def all_claims() -> list[Claim]:
    """Every claim: ours, and those of installed plugins that can be loaded."""
    return selected_claims()


def own_claims() -> list[Claim]:
    """The claims of attnscope."""
    rows = listed_claims().claims.values()
    return [row.load() for row in rows if row.origin.startswith(OWN)]


def docs_page(claim_id: str) -> str:
    """Name of the page (docs/NAME.md) that has the mathematics of a claim.

    >>> docs_page("slr-13-swapped-beats-oracle")
    'risk'
    """
    row = listed_claims().claims.get(claim_id)
    return "claims" if row is None else row.page


def selected_claims(only: Sequence[str] | None = None) -> list[Claim]:
    """Claims whose id matches one of the patterns ("slr-*", "slr-04*"), all that can be loaded if
    there is none. Only these are imported.
    """
    rows = listed_claims().claims
    if not only:
        return [claim for row in rows.values() if (claim := _loaded_or_none(row)) is not None]
    for pattern in only:
        if not fnmatch.filter(rows, pattern):
            must = "a pattern that matches a claim"
            raise bad(
                "only", "reproduce", must, f"{pattern!r}", _closest_ids(pattern, list(rows))
            )
    chosen = [
        name for name in rows if any(fnmatch.fnmatch(name, pattern) for pattern in only)
    ]
    return [rows[name].load() for name in chosen]


def _loaded_or_none(row: ListedClaim) -> Claim | None:
    """A claim of ours must load; one of a plugin that does not is left out."""
    try:
        return row.load()
    except AttnscopeError:
        if row.origin.startswith(OWN):
            raise
        return None


def one_claim(word: str) -> Claim:
    """The claim of this id, or the only one that begins with it or matches it as a pattern."""
    rows = listed_claims().claims
    if word in rows:
        return rows[word].load()
    found = [name for name in rows if name.startswith(word)] if word else []
    found = found or fnmatch.filter(rows, word)
    if len(found) == 1:
        return rows[found[0]].load()
    must = "the id of one claim, its beginning, or a pattern that only it matches"
    if not found:
        raise bad("ID", "attnscope show", must, f"{word!r}", _closest_ids(word, list(rows)))
    raise bad(
        "ID", "attnscope show", must, f"{word!r} ({len(found)} claims)", _first_ids(found)
    )


def _closest_ids(word: str, ids: Sequence[str]) -> str:
    """What may have been meant: ids that contain the word, or look like it."""
    core = word.strip("*").lower()
    holding = [name for name in ids if core and core in name]
    if holding:
        return f"'*{core}*' ({_first_ids(holding)})"
    close = difflib.get_close_matches(core, ids, IDS_SHOWN, cutoff=0.5)
    if not close:
        close = [name for name in ids if core and core.split("-")[0] == name.split("-")[0]]
    return _first_ids(close) if close else "attnscope claims for the list"


def _first_ids(ids: Sequence[str]) -> str:
    """The first few of them in words."""
    shown = list(ids[:IDS_SHOWN])
    if len(ids) > IDS_SHOWN:
        shown.append(f"{len(ids) - IDS_SHOWN} more")
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
