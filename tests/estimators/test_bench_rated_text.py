"""The bench of rated texts, its own code: what it draws, and its verdicts on results made by hand."""

import numpy as np
import pytest
from helpers.bench_modules import bench_modules

from attnscope.corpora.rated_text import RatedBags, RatedText


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found.rated_text


def seed(gain, ours=1.0, peer=2.0, level=0.5):
    """What one seed measured: ours better by `gain` in R2."""
    base = {"R2": level, "seconds": peer, "one training": 0.5, "coverage": 0.9}
    models = dict.fromkeys(("ABMIL", "mean-pool", "boosting"), base)
    return models | {"ours": base | {"R2": level + gain, "seconds": ours}}


def test_texts_to_fit_and_to_test_differ(bench, monkeypatch):
    texts = RatedText([str(i) for i in range(2000)], np.arange(2000.0))
    monkeypatch.setattr(bench, "load_rated_text", lambda name, folder: texts)
    monkeypatch.setattr(
        RatedText,
        "bags",
        lambda self, layer: RatedBags(
            [np.full((1, 1), x) for x in self.rating], self.rating, []
        ),
    )
    part = bench.split("tweets", ".", "static", 0)
    assert len(part.bags) == bench.FIT and len(part.test_y) == bench.TEST
    assert not set(part.y) & set(part.test_y)
    assert [float(bag[0, 0]) for bag in part.test_bags] == part.test_y.tolist()


def test_verdicts(bench):
    lines = "\n".join(bench.table(3, [seed(0.1), seed(0.2)]))
    assert "2 SE: yes" in lines and "seconds <= its: yes (0.50 of its grid, 2.00" in lines
    # mean -0.2, standard error 0.05: two of them do not reach
    lines = "\n".join(bench.table(3, [seed(-0.15, ours=2.1), seed(-0.25, ours=2.1)]))
    assert "2 SE: NO" in lines and "seconds <= its: NO" in lines
    assert "(standard error 0.050)" in lines
    assert "not judged" in bench.table(3, [seed(0.1, level=-0.1), seed(0.2, level=-0.1)])[-1]
