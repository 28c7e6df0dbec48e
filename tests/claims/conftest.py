"""The claims of helpers.claim_contract.LONG run in `make test-all` and in `make reproduce`; of
`make test` they have what needs no run of theirs.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import LONG, ClaimContract

WITHOUT_RUN = {
    test.__name__
    for test in (
        ClaimContract.test_words_are_in_place,
        ClaimContract.test_every_sentence_names_its_comparisons,
        ClaimContract.test_every_sentence_has_a_mutation,
    )
}


# before pytest itself leaves out what is marked
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        words = getattr(item, "originalname", None) in WITHOUT_RUN
        if call and call.params.get("name") in LONG and not words:
            item.add_marker(pytest.mark.slow)
