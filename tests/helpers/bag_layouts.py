"""The same bags in every layout that `attnscope fit` reads."""

from importlib.util import find_spec

import numpy as np
import pandas as pd

import attnscope as at
from helpers.commands import run

PYARROW = find_spec("pyarrow") is not None  # parquet is optional


# EM alone: a second instead of ten
QUICK = ("--loss", "mixture", "--alpha", "inf,1", "--n-starts", "4")


BATCH = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1).sample(120, seed=1)


def frame_of(batch, shuffled=False):
    """One token per row; bags are words, and shuffled rows keep the order of the tokens within a
    bag.
    """
    n, length, d = batch.tokens.shape
    frame = pd.DataFrame(
        batch.tokens.reshape(n * length, d), columns=[f"f{i}" for i in range(d)]
    )
    frame.insert(0, "bag", np.repeat([f"b{i:03d}" for i in range(n)], length))
    frame["y"] = np.repeat(batch.target, length)
    frame["word"] = "some text"
    return (
        frame.sample(frac=1, random_state=0).sort_index(key=lambda i: i % length)
        if shuffled
        else frame
    )


def write_layouts(path):
    """Data in every layout, and a model fitted from the .npz and one from the .csv."""
    x = BATCH.tokens
    y = BATCH.target
    np.savez(path / "data.npz", bags=x, y=y, word=np.where(y > 0, "up", "down"))
    padded = np.concatenate([x, np.full((120, 2, 5), np.nan)], axis=1)
    np.savez(
        path / "masked.npz", bags=np.nan_to_num(padded), mask=np.isfinite(padded[..., 0]), y=y
    )
    np.savez(path / "flat.npz", tokens=x.reshape(-1, 5), offsets=np.arange(121) * 4, y=y)
    np.savez(
        path / "named.npz", tokens=x.reshape(-1, 5), bag=np.repeat(np.arange(120), 4), y=y
    )
    frame_of(BATCH).to_csv(path / "data.csv", index=False)
    if PYARROW:
        frame_of(BATCH).to_parquet(path / "data.parquet", index=False)
    for name in ("data.npz", "data.csv"):
        code, out, err = run("fit", path / name, "--out", path / f"{name}.model.npz", *QUICK)
        assert code == 0, err + out
    return path
