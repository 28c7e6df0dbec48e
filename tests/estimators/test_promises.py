"""The promises of "split" and "cv+" in replicates, and the bench that measures them.

A replicate is a fit on new data and its coverage of 400 bags of new groups; their mean, over
independent replicates, has an expectation of at least what is promised. False-alarm rate: the mean
of R replicates may be 4 of its standard errors below, 3e-5 each for normal means; few replicates
take a standard deviation of .1 instead of their own (that of a coverage around .9 is .05 to .08).
"""

import numpy as np
import pytest
from helpers.bench_modules import bench_modules

FEW = 8
SPREAD = 0.1


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found.interval_coverage


@pytest.mark.parametrize(
    ("way", "shared", "count"), [("split", False, 8), ("split", True, 8), ("cv+", True, 2)]
)
def test_a_few_replicates_keep_the_promise(bench, way, shared, count):
    found = [bench.small_row((shared, way, seed)) for seed in range(1000, 1000 + count)]
    hit, width, promised = np.array(found).T
    assert hit.mean() >= promised.mean() - 4 * SPREAD / np.sqrt(count)
    assert promised.mean() >= (0.9 if way == "split" else 0.78)
    # not by intervals of any length: labels spread over 3.3 deviations at 90 %
    assert width.mean() < 3.3


def test_scores_of_the_fit_itself_would_break_the_promise(bench):
    """The test can fail: bags measured by a model that has seen them."""
    hits = []
    for seed in range(FEW):
        (bags, y, _), (new, truth) = bench.small_set(False, seed)
        model = bench.at.SingleLocationRegressor(interval="split", **bench.QUICK)
        model.fit(bags[:12], y[:12])
        scores = np.abs(y[:12] - model.predict(bags[:12]))
        half = np.sort(scores)[10]
        hits.append(np.mean(np.abs(truth - model.predict(new)) <= half))
    assert np.mean(hits) < 0.9 - 4 * SPREAD / np.sqrt(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("way", ["split", "cv+"])
def test_two_hundred_replicates_keep_the_promise(bench, way, shared):
    found = [bench.small_row((shared, way, seed)) for seed in range(2000, 2200)]
    hit, _, promised = np.array(found).T
    error = hit.std(ddof=1) / np.sqrt(200)
    assert hit.mean() >= promised.mean() - 4 * error
    # nor too wide: split is at most 1/(M + 1) above without groups, M = 15
    if way == "split" and not shared:
        assert hit.mean() <= 0.9 + 1 / 16 + 4 * error


def test_digits_of_the_bench_share_no_image_between_training_and_test(bench):
    for case, distinct in (("no image twice", 80), ("25 deciding images", 25)):
        (bags, y, groups), (new, truth) = bench.digit_set(case, 3)
        assert bags.shape == (80, 8, 64) and len(y) == 80 and len(new) == len(truth) == 89
        own = {row.tobytes() for row in bags.reshape(-1, 64)}
        other = {row.tobytes() for row in new.reshape(-1, 64)}
        assert not own & other and len(np.unique(groups)) <= distinct
        if case == "no image twice":
            assert len(own) == 640 and len(np.unique(groups)) == 80


def test_the_tables_are_printed(bench, capsys):
    def run(function, jobs):
        return [(0.9 + 0.01 * (job[2] % 2), 1.0, 0.8) for job in jobs]

    assert not bench.print_digits(run, 4) and not bench.print_small(run, 4)
    out = capsys.readouterr().out
    assert out.count("yes") == 12 and "NO" not in out
    low = lambda function, jobs: [(0.5 + 0.01 * job[2], 1.0, 0.8) for job in jobs]
    assert bench.print_digits(low, 4) and bench.print_small(low, 4)
