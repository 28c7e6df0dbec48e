"""The bench of shortcuts: who holds which token, and its line. Sums over 300 bags, 5 errors each."""

import numpy as np
import pytest
from helpers.bench_modules import bench_modules


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found.poison


# mean sum over a bag's tokens on axes 0 and 1, of labels 0 and 1
SUMS = {
    ("poison", False): ([0, 3], [3, 0]),
    ("poison", True): ([0, 3], [0, 3]),
    ("witness", False): ([0, 3], [0, 0]),
    ("mean", False): ([0, 3.5], [0, 0]),
    ("noise", True): ([0, 0], [0, 0]),
}


@pytest.mark.parametrize(("case", "test"), SUMS)
def test_who_holds_which_token(bench, case, test):
    bags, y = bench.draw(case, 0, test)
    assert len(bags) == (bench.TEST if test else bench.TRAIN)
    assert {len(bag) for bag in bags} == set(range(5, 16))
    sums = np.array([bag.sum(axis=0) for bag in bags])
    for axis, expected in enumerate(SUMS[case, test]):
        for label in (0, 1):
            own = sums[y == label, axis]
            error = own.std(ddof=1) / np.sqrt(len(own))
            assert abs(own.mean() - expected[label]) < 5 * error


def test_other_seeds_and_other_parts_are_other_bags(bench):
    one, other = bench.draw("noise", 0, False)[0][0], bench.draw("noise", 1, False)[0][0]
    assert one.shape != other.shape or (one != other).all()
    assert (bench.draw("noise", 0, True)[0][0].ravel()[:5] != one.ravel()[:5]).all()


def test_the_line(bench):
    areas = np.array([[0.1, 0.9, 0.8], [0.3, 0.95, 1.0]])
    assert bench.line("poison", areas, 1) == (
        "poison   AUC single 0.100 0.200 0.300, witness 0.900 0.925 0.950, auto 0.800 0.900 1.000; "
        "shortcut named in 1 of 2"
    )
