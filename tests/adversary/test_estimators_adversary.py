"""The estimators on small and nasty bags: deterministic, no false alarms."""

import pytest
from families import LONG, LONG_SEEDS, QUICK, stands


def test_quick():
    stands("estimators", QUICK, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_long(seed):
    stands("estimators", LONG, seed)
