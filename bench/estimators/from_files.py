"""Bags in files, a million tokens: time, memory, and what reading them a piece at a time costs.

    python bench/estimators/from_files.py [--seeds 1] [--compare 5] [--json out.json]

Files are written to a temporary folder: n bags of 5,000 float32 tokens of 512 features, variances
1/i in turned axes; every second bag holds 1 witness, shifted by 20 Mahalanobis units, or 500 by 5,
in the 32 widest directions. Each fit runs in a process of its own, which measures its CPU seconds
and peak memory; test bags are fresh. Bars: 200 bags, `fit_batches` from files: at most 1,200 CPU
seconds (10 minutes on 2 cores) and 2 GB; 50 bags: AUC and located share of `fit_batches` from
files at most one standard error (over seeds and test bags) from those of `fit` on the arrays in
memory. A fit that finds nothing (AUC < .9) has no time to show: its row says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LENGTH, WIDTH, LEADING = 5000, 512, 32
STRENGTH = {1: 20.0, 500: 5.0}  # Mahalanobis units, by witnesses in a positive bag
TEST = 40  # bags
CPU_SECONDS, GIGABYTES, FOUND = 1200.0, 2.0, 0.9


def law() -> tuple[np.ndarray, np.ndarray]:
    """Root of the tokens' covariance (d, d), and the witness's direction in whitened units."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    key = np.zeros(WIDTH)
    key[:LEADING] = rng.standard_normal(LEADING)
    root = turn / np.sqrt(np.arange(1, WIDTH + 1))
    return root.astype(np.float32), (key / np.linalg.norm(key)).astype(np.float32)


def write(folder: Path, n: int, witnesses: int, seed: int) -> None:
    """A file a bag, the labels, and where the witnesses are."""
    folder.mkdir()
    rng = np.random.default_rng([seed, witnesses])
    root, key = law()
    y = np.arange(n) % 2
    there = np.zeros((n, witnesses), dtype=int)
    for i in range(n):
        z = rng.standard_normal((LENGTH, WIDTH), dtype=np.float32)
        there[i] = rng.choice(LENGTH, witnesses, replace=False)
        if y[i]:
            z[there[i]] += np.float32(STRENGTH[witnesses]) * key
        np.save(folder / f"bag{i:04d}.npy", z @ root.T)
    np.savez(folder.with_suffix(".truth.npz"), y=y, there=there)


def measure(folder: Path, test: Path, way: str) -> dict[str, float]:
    """In this process alone: one fit, its CPU seconds and peak memory; then the test bags."""
    from sklearn.metrics import roc_auc_score

    import attnscope as at

    y = np.load(folder.with_suffix(".truth.npz"))["y"]
    truth = np.load(test.with_suffix(".truth.npz"))
    bags = at.open_bags(folder, y)
    model = at.SingleLocationClassifier()
    given = bags if way == "files" else [np.array(bag) for bag in bags]
    clock = time.process_time()
    model = model.fit_batches(given) if way == "files" else model.fit(given, y)
    seconds = time.process_time() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    fresh = at.open_bags(test)
    found = model.locate(fresh)[:, None] == truth["there"]
    return {
        "seconds": seconds,
        "gigabytes": peak,
        "auc": float(roc_auc_score(truth["y"], model.predict_proba(fresh)[:, 1])),
        "located": float(found.any(axis=1)[truth["y"] == 1].mean()),
    }


def job(n: int, witnesses: int, seed: int, ways: tuple[str, ...]) -> dict[str, dict]:
    """Every way on the same files, each in a fresh process."""
    out = {}
    with tempfile.TemporaryDirectory() as place:
        folder, test = Path(place, "train"), Path(place, "test")
        write(folder, n, witnesses, 10 + seed)
        write(test, TEST, witnesses, 1000 + seed)
        for way in ways:
            command = [sys.executable, __file__, "--measure", str(folder), str(test), way]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{way}, {n} bags, {witnesses} witnesses: {done.stderr[-500:]}")
            out[way] = json.loads(done.stdout.splitlines()[-1])
    return out


def big_rows(witnesses: int, seeds: int) -> list[dict]:
    rows = []
    for seed in range(seeds):
        got = job(200, witnesses, seed, ("files",))["files"]
        trained = got["auc"] >= FOUND
        ok = trained and got["seconds"] <= CPU_SECONDS and got["gigabytes"] <= GIGABYTES
        case = f"200 x {LENGTH} x {WIDTH}, {witnesses} witnesses, seed {seed}"
        rows.append({"case": case, **got, "ok": ok})
        said = "" if trained else "  nothing found: its time means nothing"
        print(
            f"{case:<44}{got['seconds']:>8.1f} s <= {CPU_SECONDS:g}{got['gigabytes']:>7.2f} GB <= "
            f"{GIGABYTES:g}  AUC {got['auc']:.3f}  located {got['located']:.3f}  "
            f"{'yes' if ok else 'NO'}{said}",
            flush=True,
        )
    return rows


def compared_rows(witnesses: int, seeds: int) -> list[dict]:
    """Differences files - memory over seeds on the same bags, against their standard error; where
    all differences are equal, against that of the share itself on the test bags, as if independent.
    """
    both = [job(50, witnesses, seed, ("files", "memory")) for seed in range(seeds)]
    rows = []
    for what, bags in (("auc", TEST), ("located", TEST // 2)):
        files, memory = (np.array([b[w][what] for b in both]) for w in ("files", "memory"))
        gap = files - memory
        over_seeds = gap.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        p = memory.mean()
        alone = np.sqrt(p * (1 - p) / (bags * seeds))
        error = float(max(over_seeds, alone))
        ok = bool(abs(gap.mean()) <= error)
        case = f"50 x {LENGTH} x {WIDTH}, {witnesses} witnesses, {what}"
        rows.append(
            {"case": case, "files": files.mean(), "memory": p, "error": error, "ok": ok}
        )
        print(
            f"{case:<44}files {files.mean():.3f}  memory {p:.3f}  difference {gap.mean():+.4f} "
            f"<= {error:.4f}  {'yes' if ok else 'NO'}",
            flush=True,
        )
    times = {w: np.median([b[w]["seconds"] for b in both]) for w in both[0]}
    peaks = {w: max(b[w]["gigabytes"] for b in both) for w in both[0]}
    said = ", ".join(f"{w} {times[w]:.1f} s {peaks[w]:.2f} GB" for w in times)
    print(
        f"50 x {LENGTH} x {WIDTH}, {witnesses} witnesses: {said} (ratio {times['files'] / times['memory']:.2f})"
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="of the 200 bags: 0, 1, ...")
    parser.add_argument(
        "--compare", type=int, default=5, help="seeds of the 50 bags; 0: none"
    )
    parser.add_argument(
        "--witnesses", type=int, nargs="*", default=[1, 500], choices=[1, 500]
    )
    parser.add_argument("--json", help="write all rows there as well")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        folder, test, way = options.measure
        print(json.dumps(measure(Path(folder), Path(test), way)))
        return
    rows = []
    for witnesses in options.witnesses:
        rows += big_rows(witnesses, options.seeds)
        if options.compare:
            rows += compared_rows(witnesses, options.compare)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1, default=float))


if __name__ == "__main__":
    main()
