"""No claim without its contract: each claim of the registry is in exactly one test file's
ClaimContract.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

from helpers.claim_contract import ClaimContract

from attnscope.claims.registry import all_claims


def contracted(module) -> list[str]:
    """The ids for which a test file subclasses the contract."""
    kinds = [
        x
        for x in vars(module).values()
        if isinstance(x, type) and issubclass(x, ClaimContract)
    ]
    subclasses = [kind for kind in kinds if kind is not ClaimContract]
    marks = [
        mark for kind in subclasses for mark in kind.pytestmark if mark.name == "parametrize"
    ]
    return [getattr(name, "values", (name,))[0] for mark in marks for name in mark.args[1]]


def test_every_claim_has_its_contract_once():
    files = sorted(Path(__file__).parent.rglob("test_claims_*.py"))
    found = Counter(
        name for file in files for name in contracted(import_module(f"claims.{file.stem}"))
    )
    assert found == Counter(claim.id for claim in all_claims())
