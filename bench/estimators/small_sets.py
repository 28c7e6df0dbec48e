"""Small sets: the default classifier against six peers on the multiple-instance sets of `load_mil`.

    python bench/estimators/small_sets.py [SETS ...] [--seeds 5] [--first 0] [--models ...] [--store DIR] [--table]

Every set in five stratified folds, dealt anew by each seed (first, first + 1, ...). For each seed the peer is
taken that was best on the OTHER seeds, so that no peer is chosen by what it is then held against:

    difference = ours in the folds of seed s - the best peer of the other seeds in the same folds,

its mean over all folds and its paired standard error (spread over the folds by their root; folds
share training bags, so that it is rather too small). A row holds where the mean AUC is not below,
and the log loss not above, that peer's by more than two of them. Seconds are the processor's, on
one thread.

Each (set, model, seed) is a file of the store, under a hash of the sources it depends on: a killed
run loses at most one of them. `--table` prints what is there and runs nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from jobs import ESTIMATOR, HERE, PEERS, _code
from real_cases import mil
from sklearn.metrics import roc_auc_score

from attnscope.corpora.mil import MIL_NAMES

OURS = "ours"
RIVALS = ("mean-pool", "max-pool", "instance mean", "prime", "boosting", "ABMIL")
MEASURES = {"auc": 1.0, "log loss": -1.0}  # and which way is better
ERRORS = 2.0  # paired standard errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(MIL_NAMES), help="of load_mil")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--first", type=int, default=0, help="the first of them (rules were tuned on 0 and 1)"
    )
    parser.add_argument("--models", nargs="+", default=[OURS, *RIVALS])
    parser.add_argument("--store", type=Path, default=HERE / "small_sets.store")
    parser.add_argument("--table", action="store_true", help="print what is stored")
    parser.add_argument("--json", type=Path, help="write the rows too")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if not given.table:
        for name in given.sets:
            for seed in seeds:
                for model in given.models:
                    stored(given.store, name, model, seed, run=True)
    rows = [row for name in given.sets for row in table(given.store, name, seeds)]
    for row in rows:
        print(line(row))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


# -- one model on one set --------------------------------------------------------------------------


def stored(store: Path, name: str, model: str, seed: int, run: bool) -> dict | None:
    """Measures of the five folds; None where they are not stored and not to be run."""
    path = store / f"{name}-{model.replace(' ', '_')}-{seed}-{digest(model)}.json"
    if not path.exists():
        if not run:
            return None
        print(f"{name}, {model}, seed {seed}", file=sys.stderr, flush=True)
        folds = [measure(model, split, seed) for split in mil(name)(seed)]
        result = {key: [fold[key] for fold in folds] for key in folds[0]}
        store.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(result))
        part.replace(path)
    return json.loads(path.read_text())


def digest(model: str) -> str:
    files = ESTIMATOR if model == OURS else [HERE / f"{PEERS[model][0]}.py"]
    text = "".join(map(_code, [HERE / "real_cases.py", *files]))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def measure(model: str, split: Any, seed: int) -> dict[str, float]:
    clock = time.process_time()
    if model == OURS:
        from attnscope import SingleLocationClassifier

        fitted = SingleLocationClassifier(random_state=seed).fit(split.bags, split.y)
        seconds = time.process_time() - clock
        p = fitted.predict_proba(split.test_bags)[:, 1]
    else:
        module, kind = PEERS[model]
        fitted = getattr(__import__(module), kind)(seed, True).fit(split.bags, split.y)
        seconds = getattr(fitted, "seconds", time.process_time() - clock)
        p = 0.5 * (1 + np.tanh(np.asarray(fitted.predict(split.test_bags)) / 2))
    own = np.where(split.test_y == 1, p, 1 - p)
    facts = {
        "auc": float(roc_auc_score(split.test_y, p)),
        "log loss": float(-np.log(np.maximum(own, 1e-15)).mean()),
        "seconds": seconds,
    }
    if model == OURS:
        facts["witness"] = float(fitted.assumption_ == "witness")
        facts["share"] = float(fitted.mean_share_)
    return facts


# -- the table -------------------------------------------------------------------------------------


def table(store: Path, name: str, seeds: range) -> list[dict]:
    """A row for each measure, of the seeds that every stored model has."""
    found = {
        model: {seed: stored(store, name, model, seed, run=False) for seed in seeds}
        for model in (OURS, *RIVALS)
    }
    found = {model: parts for model, parts in found.items() if any(parts.values())}
    common = [s for s in seeds if all(parts[s] for parts in found.values())]
    if OURS not in found or len(found) < 2 or len(common) < 2:
        return []
    rows = []
    for measure_name, sign in MEASURES.items():
        means = {
            model: np.array([np.mean(parts[s][measure_name]) for s in common])
            for model, parts in found.items()
        }
        gains = []
        chosen = []
        for i, seed in enumerate(common):
            others = np.arange(len(common)) != i
            rivals = [model for model in found if model != OURS]
            best = max(rivals, key=lambda model: sign * means[model][others].mean())
            chosen.append(best)
            pair = [np.array(found[model][seed][measure_name]) for model in (OURS, best)]
            gains.append(pair[0] - pair[1])
        gain = np.concatenate(gains)
        error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        row = {
            "set": name,
            "measure": measure_name,
            "seeds": len(common),
            "ours": float(means[OURS].mean()),
            "best elsewhere": max(set(chosen), key=chosen.count),
            "difference": float(gain.mean()),
            "error": error,
            "holds": bool(sign * gain.mean() >= -ERRORS * error),
            "peers": {m: float(x.mean()) for m, x in means.items() if m != OURS},
        }
        for key in ("seconds", "witness", "share"):
            row[key] = float(np.mean([found[OURS][s][key] for s in common]))
        rows.append(row)
    return rows


def line(row: dict) -> str:
    peers = ", ".join(f"{name} {value:.3f}" for name, value in row["peers"].items())
    return (
        f"{row['set']:<22}{row['measure']:<9} ours {row['ours']:.3f}  "
        f"{row['difference']:+.3f} +- {row['error']:.3f} against {row['best elsewhere']:<14}"
        f"{'holds' if row['holds'] else 'MISSED':<7} {row['seeds']} seeds, {row['seconds']:.1f} s, "
        f"read as witness {row['witness']:.0%}, share {row['share']:.2f}  [{peers}]"
    )


if __name__ == "__main__":
    main()
