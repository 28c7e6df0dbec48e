"""All claims of this room and of its folders, found by file name: by family, then by number; after
them those that installed packages announce (packs.py), by origin and id.
"""

from __future__ import annotations

import difflib
import fnmatch
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import attnscope.claims as room
from attnscope import packs
from attnscope.claims.claim import Claim
from attnscope.errors import AttnscopeError, bad

__all__ = ["all_claims", "announced_claims", "one_claim", "own_claims", "selected_claims"]

NAMED = 3  # ids in a sentence
PREFIXES = (
    "slr_",
    "exch_",
    "beyond_",
    "samples_",
    "around_",
)  # the families, in the order of the report


def all_claims() -> list[Claim]:
    """Every claim: ours, and those of installed packages that can be loaded."""
    return [*own_claims(), *announced_claims().claims]


class AnnouncedClaims(NamedTuple):
    """Claims of installed packages; origins: package and version by id; broken: a sentence for
    each entry point that gives none.
    """

    claims: list[Claim]
    origins: dict[str, str]
    broken: list[str]


def announced_claims() -> AnnouncedClaims:
    """What the installed packages announce."""
    taken = {claim.id for claim in own_claims()}
    found = AnnouncedClaims([], {}, [])
    for point in packs.announced(packs.CLAIMS):
        try:
            for claim in _claims(point):
                if claim.id in taken:
                    raise point.refusal(
                        f"{claim.id}, which is taken", "a claim with a new id"
                    )
                taken.add(claim.id)
                found.claims.append(claim)
                found.origins[claim.id] = point.origin
        except AttnscopeError as error:
            found.broken.append(str(error))
    return found


def _claims(point: packs.Announced) -> list[Claim]:
    """A Claim, or a list of them."""
    loaded = point.load()
    claims = list(loaded) if isinstance(loaded, (list, tuple)) else [loaded]
    for claim in claims:
        if not isinstance(claim, Claim):
            must = "a Claim of attnscope.claims.claim, or a list of them"
            raise point.refusal(type(claim).__name__, must)
    return claims


def own_claims() -> list[Claim]:
    """The claims of attnscope, in the order of PREFIXES and then of ids."""
    files = pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    names = [info.name for info in files if info.name.rpartition(".")[2].startswith(PREFIXES)]
    claims = [import_module(name).CLAIM for name in names]
    return sorted(
        claims, key=lambda claim: (PREFIXES.index(claim.id.split("-")[0] + "_"), claim.id)
    )


def selected_claims(only: Sequence[str] | None = None) -> list[Claim]:
    """Claims whose id matches one of the patterns ("slr-*", "slr-04*"),
    all of them if there is none.
    """
    claims = all_claims()
    if not only:
        return claims
    ids = [claim.id for claim in claims]
    for pattern in only:
        if not fnmatch.filter(ids, pattern):
            must = "a pattern that matches a claim"
            raise bad("only", "reproduce", must, f"{pattern!r}", _near(pattern, ids))
    return [
        claim
        for claim in claims
        if any(fnmatch.fnmatch(claim.id, pattern) for pattern in only)
    ]


def one_claim(word: str) -> Claim:
    """The claim of this id, or the only one that begins with it or matches it as a pattern."""
    claims = {claim.id: claim for claim in all_claims()}
    if word in claims:
        return claims[word]
    found = [name for name in claims if name.startswith(word)] if word else []
    found = found or fnmatch.filter(claims, word)
    if len(found) == 1:
        return claims[found[0]]
    must = "the id of one claim, its beginning, or a pattern that only it matches"
    if not found:
        raise bad("ID", "attnscope show", must, f"{word!r}", _near(word, list(claims)))
    raise bad("ID", "attnscope show", must, f"{word!r} ({len(found)} claims)", _some(found))


def _near(word: str, ids: Sequence[str]) -> str:
    """What may have been meant: ids that contain the word, or look like it."""
    core = word.strip("*").lower()
    holding = [name for name in ids if core and core in name]
    if holding:
        return f"'*{core}*' ({_some(holding)})"
    close = difflib.get_close_matches(core, ids, NAMED, cutoff=0.5)
    if not close:
        close = [name for name in ids if core and core.split("-")[0] == name.split("-")[0]]
    return _some(close) if close else "attnscope claims for the list"


def _some(ids: Sequence[str]) -> str:
    """The first few of them in words."""
    shown = list(ids[:NAMED])
    if len(ids) > NAMED:
        shown.append(f"{len(ids) - NAMED} more")
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
