"""The claims of helpers.claim_contract.LONG run in `make test-all` and in `make reproduce`, not in
`make test`.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import LONG


# before pytest itself leaves out what is marked
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if call and call.params.get("name") in LONG:
            item.add_marker(pytest.mark.slow)
