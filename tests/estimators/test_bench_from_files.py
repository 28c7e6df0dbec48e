"""The bench of bags in files, on small ones: it writes what it says, and finds it."""

import numpy as np
import pytest
from helpers.bench_modules import bench_modules

import attnscope as at


def test_small_files(tmp_path, monkeypatch):
    with bench_modules() as modules:
        check(modules.from_files, tmp_path, monkeypatch)


def check(from_files, tmp_path, monkeypatch):
    for name, size in {"LENGTH": 60, "WIDTH": 16, "LEADING": 8, "TEST": 20}.items():
        monkeypatch.setattr(from_files, name, size)
    from_files.write(tmp_path / "train", 30, 1, 10)
    from_files.write(tmp_path / "test", 20, 1, 1000)
    truth = np.load(tmp_path / "train.truth.npz")
    bags = at.open_bags(tmp_path / "train", truth["y"])
    assert bags.lengths.tolist() == [60] * 30 and bags[0].dtype == np.float32
    got = from_files.measure(tmp_path / "train", tmp_path / "test", "files")
    assert got["auc"] == 1.0 and got["located"] == 1.0
    assert got["seconds"] > 0 and 0.05 < got["gigabytes"] < 20
    with pytest.raises(KeyError):
        from_files.write(tmp_path / "other", 2, 7, 0)
