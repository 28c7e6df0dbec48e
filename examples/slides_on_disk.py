"""
Slides on disk: which patch decides, and where it is
====================================================

A folder of .h5 files, one a slide, as feature extractors write them: `features` (N, d) and `coords`
(N, 2) of N patches, and a table of labels. Here the slides are made up: half of them hold one
lesion patch among 400. They stay on disk; the model reads them a piece at a time. Needs h5py.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Panel, Points

SIDE, PIXELS = 20, 256  # a slide is 20 by 20 patches of 256 pixels
WIDTH = 48  # features of each


def write_slides(folder: Path, n: int, seed: int) -> np.ndarray:
    """Replace this by your folder. Returns the lesions' patch numbers, only for comparison."""
    import h5py

    fixed = np.random.default_rng(0)
    rng = np.random.default_rng(seed)
    mix = fixed.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
    lesion = 1.5 * fixed.standard_normal(WIDTH) @ mix
    grid = PIXELS * np.stack(np.divmod(np.arange(SIDE**2), SIDE), axis=1)[:, ::-1]
    there = rng.integers(0, SIDE**2, n)
    rows = ["slide_id,label"]
    for i in range(n):
        features = rng.standard_normal((SIDE**2, WIDTH)) @ mix
        features[there[i]] += lesion * (i % 2)
        with h5py.File(folder / f"slide{i:03d}.h5", "w") as file:
            file["features"] = features.astype(np.float32)
            file["coords"] = grid
        rows.append(f"slide{i:03d},{'lesion' if i % 2 else 'none'}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return there


def main(out: str = "slides_on_disk.png", n: int = 160) -> None:
    if find_spec("h5py") is None:
        print("skipped: h5py is not installed; try pip install attnscope[files]")
        return
    with tempfile.TemporaryDirectory() as place:
        there = write_slides(Path(place), n, seed=1)[n // 2 :]
        slides = at.open_bags(place, labels=Path(place, "labels.csv"))
        train, test = slides[: n // 2], slides[n // 2 :]
        model = at.SingleLocationClassifier(random_state=0).fit_batches(train)
        sick = np.flatnonzero(test.labels == "lesion")
        found = np.mean(model.locate(test)[sick] == there[sick])
        right = model.score(test, test.labels)
        print(
            f"{right:.0%} of {len(test)} new slides right; lesion patch found in {found:.0%}"
        )
        slide = int(sick[0])
        coords = test.coords(slide)
        weight = model.attention(test[slide : slide + 1])[0]
    picture = np.zeros((SIDE, SIDE))
    column, row = (coords // PIXELS).T
    picture[row, column] = np.log10(np.maximum(weight, 1e-6))
    at_lesion = coords[there[slide]] // PIXELS
    marks = (
        Heat(range(SIDE), range(SIDE), picture, "log10 of the weight"),
        Points(at_lesion[:1], at_lesion[1:], "the lesion", 1),
    )
    title = f"where the model looks in {test.names[slide]}"
    Figure("Slides on disk", (Panel(title, "patch column", "patch row", marks),)).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
