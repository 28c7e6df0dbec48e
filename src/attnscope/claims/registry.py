"""All claims of this room and of its folders, found by file name: by family, then by number."""

from __future__ import annotations

import fnmatch
import pkgutil
from collections.abc import Sequence
from importlib import import_module

import attnscope.claims as room
from attnscope.claims.claim import Claim
from attnscope.errors import bad

__all__ = ["all_claims", "selected_claims"]

PREFIXES = ("slr_", "exch_", "beyond_")  # the families, in the order of the report


def all_claims() -> list[Claim]:
    """Every claim, in the order of PREFIXES and then of ids."""
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
    for pattern in only:
        if not fnmatch.filter([claim.id for claim in claims], pattern):
            hint = "'slr-*', or attnscope claims for the list"
            raise bad(
                "only", "reproduce", "a pattern that matches a claim", f"{pattern!r}", hint
            )
    return [
        claim
        for claim in claims
        if any(fnmatch.fnmatch(claim.id, pattern) for pattern in only)
    ]
