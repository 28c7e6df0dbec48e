"""Write what the next release must still read: models, runs and a cell of a sweep of this version.

    python tools/make_release_files.py [FOLDER]

FOLDER is tests/data/version_X_Y_Z if left out, X.Y.Z the version that is installed. Models of 40
bags with 4 features and 3 tokens, runs of 8 steps, and what each answers (answers.json);
tests/faults/test_old_files.py reads every such folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import attnscope as at
from attnscope.studies.functions import oracle_risk

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


def main(folder: Path) -> None:
    folder.mkdir(parents=True)  # an old folder is never written over
    answers: dict[str, list] = {}
    models(folder, answers)
    runs(folder, answers)
    cell = {"dim": [20], "length": [5], "temperature": [0.1]}
    at.sweep(oracle_risk, cell, folder / "store", progress=False)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    print(folder)


if __name__ == "__main__":
    named = f"version_{at.__version__.replace('.', '_')}"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / named)
