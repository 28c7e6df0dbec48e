"""Write what the next release must still read, with the code of this version.

    python tools/make_release_files.py [FOLDER] [--report REPORT]

FOLDER is tests/data/version_X_Y_Z if left out, X.Y.Z the version that is installed. It holds

    regressor.npz, heads.npz, classifier.npz    models of 40 bags with 4 features and 3 tokens
    run_*.npz                                   runs of 8 steps
    study.toml, store, table.csv                a study of two cells, its store and its table
    new_*.txt                                   the files that `attnscope new` writes, and their tests
    answers.json                                what models and runs answer
    verdicts.json                               of REPORT, all claims at seed 0, if it is given

tests/faults/test_old_files.py reads every such folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import attnscope as at

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
# starts, predictors and batches of the runs; SGD's batch of 4 keeps its state small
RUNS = {
    "erf": (at.Erf(0.1), None),
    "sgd": (at.Erf(0.1), 4),
    "softmax": (at.Softmax(0.5), None),
}


def models(folder: Path, answers: dict[str, list]) -> None:
    task = at.SingleLocation(dim=4, length=3, signal=3.0, noise=0.1)
    batch = task.sample(40, seed=1)
    bags = task.sample(5, seed=2).tokens
    np.save(folder / "bags.npy", bags)
    one = at.SingleLocationRegressor(n_starts=2).fit(batch.tokens, batch.target)
    one.save(folder / "regressor.npz")
    answers["regressor"] = one.predict(bags).tolist()
    answers["locate"] = one.locate(bags).tolist()
    answers["interval"] = one.predict_interval(bags).tolist()
    two = at.SingleLocationRegressor(heads=2, n_starts=2).fit(batch.tokens, batch.target)
    two.save(folder / "heads.npz")
    answers["heads"] = two.predict(bags).tolist()
    words = np.where(batch.target > 0, "yes", "no")
    classes = at.SingleLocationClassifier(n_starts=2).fit(batch.tokens, words)
    classes.save(folder / "classifier.npz")
    answers["classifier"] = classes.predict_proba(bags).tolist()


def runs(folder: Path, answers: dict[str, list]) -> None:
    task = at.SingleLocation(dim=20, length=5)
    for name, (predictor, batch_size) in RUNS.items():
        run = at.train(
            task,
            predictor,
            runs=2,
            steps=8,
            log_every=4,
            batch_size=batch_size,
            progress=False,
        )
        run.save(folder / f"run_{name}.npz")
        ends = lambda x: np.asarray(x.overlaps.kappa)[:, -1].tolist()
        answers[f"run_{name}"] = ends(run)
        answers[f"extended_{name}"] = ends(run.extend(4, progress=False))


STUDY = """# Risk of the erf oracle in two dimensions.
title = "Risk of the erf oracle"
function = "oracle_risk"

[grid]
dim = [20, 40]

[fixed]
length = 5
temperature = 0.1
"""


def typed(*words: object) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "attnscope.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def study(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY)
    with tempfile.TemporaryDirectory() as out:
        typed(
            "sweep",
            folder / "study.toml",
            "--store",
            folder / "store",
            "--out",
            out,
            "--json",
        )
        (table,) = Path(out).rglob("*.csv")
        shutil.copy(table, folder / "table.csv")


def written_files(folder: Path) -> None:
    """Under names that no test collector takes for tests."""
    for kind, name in (
        ("task", "OldTask"),
        ("predictor", "OldPredictor"),
        ("claim", "OldClaim"),
    ):
        with tempfile.TemporaryDirectory() as out:
            typed("new", kind, name, "--out", out)
            for file in Path(out).iterdir():
                shutil.copy(file, folder / f"new_{file.stem}.txt")


def main(folder: Path, report: Path | None) -> None:
    folder.mkdir(parents=True)  # an old folder is never written over
    answers: dict[str, list] = {}
    models(folder, answers)
    runs(folder, answers)
    study(folder)
    written_files(folder)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    if report is not None:
        saved = json.loads((report / "verdicts.json").read_text())
        (folder / "verdicts.json").write_text(json.dumps(saved, separators=(",", ":")) + "\n")
    print(folder)


if __name__ == "__main__":
    named = f"version_{at.__version__.replace('.', '_')}"
    options = argparse.ArgumentParser(
        description="Write what the next release must still read."
    )
    options.add_argument("folder", type=Path, nargs="?", default=DATA / named)
    options.add_argument("--report", type=Path, help="folder of `attnscope reproduce`")
    asked = options.parse_args()
    main(asked.folder, asked.report)
