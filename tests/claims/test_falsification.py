"""Three mutations of each family of claims, others at every commit; `make test-all` runs them all
(ClaimContract.test_every_mutation_changes_the_verdict).

The choice is a hash of the commit (without git: of the version), so a red run can be repeated.
"""

from __future__ import annotations

import hashlib

import pytest
from helpers.mutation import mutations_of, survivor
from helpers.slow_shares import commit, version

from attnscope.claims.registry import own_claims

A_FAMILY = 3  # mutations of each family in one run of `make test`


def chosen() -> list[pytest.param]:
    turn = commit() or version()
    families: dict[str, list] = {}
    for claim in own_claims():
        for mutation in mutations_of(claim):
            families.setdefault(claim.id.split("-")[0], []).append((claim, mutation))
    out = []
    for pairs in families.values():
        rank = lambda pair: hashlib.sha256(
            f"{turn} {pair[0].id} {pair[1].key} {pair[1].words}".encode()
        ).hexdigest()
        for claim, mutation in sorted(pairs, key=rank)[:A_FAMILY]:
            name = f"{claim.id}: {mutation.key}: {mutation.words}"
            out.append(pytest.param(claim, mutation, id=name))
    return out


@pytest.mark.parametrize(("claim", "mutation"), chosen())
def test_a_false_sentence_changes_the_verdict(claim, mutation):
    assert survivor(claim, mutation) == ""
