"""Risks of tasks of one's own with stiff labels: whether the stated errors hold, and what they cost.

    python bench/bench_labels.py [--settings 1000] [--seed 0]

A setting draws a label (rare classes, turned signs, bands, steps, oscillation, growth, bumps, bumps
hidden on a line), a predictor, a length, a task and overlaps (tests/stress/subjects/stiff_labels.py).
The reference is a sum that knows where each label is special. The first risk analyses the label;
later ones, at other overlaps, use what the first one kept. Times are CPU seconds and are printed
only where every risk lies within its stated error.
"""

from __future__ import annotations

import argparse
import os
import sys

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from stress.references import stiff_labels as reference
from stress.subjects.stiff_labels import draw, head_of, task_of
from table import heading, limit

import attnscope as at

FIRST_SECONDS = 0.1  # CPU seconds of the first risk of a task, median
LATER_SECONDS = 0.015  # and of each later one
REFUSED_SHARE = 0.05
OTHER = at.Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)


def timed(call):
    """The result of a call and its CPU seconds."""
    started = process_time()
    found = call()
    return found, process_time() - started


def strain(found, truth):
    """Distance from the reference in stated errors; 5 standard errors of a sampled risk count as 1."""
    value, error = truth
    sampled = "moments" not in found.method
    return abs(found.value - value) / ((5 if sampled else 1) * found.error + error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--settings", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng([asked.seed, 34])
    first, later, strains, relative, refused = [], [], [], [], 0
    for head in ("erf", "softmax", "linear", "tanh"):  # compiled before the clock starts
        setting = draw(np.random.default_rng(0)) | {
            "head": head,
            "parts": [{"kind": "line", "a": 1.0, "b": 0.0, "c": 1.0}],
        }
        at.risk(task_of(setting), head_of(setting), OTHER)
    for number in range(asked.settings):
        setting = draw(rng)
        task, head = task_of(setting), head_of(setting)
        overlaps = at.Overlaps(*setting["overlaps"])
        try:
            found, spent = timed(lambda: at.risk(task, head, overlaps))
        except at.AttnscopeError:
            refused += 1
            continue
        first.append(spent)
        later.append(timed(lambda: at.risk(task, head, OTHER))[1])
        truth = reference.risk(setting, np.array(setting["overlaps"]))
        strains.append(strain(found, truth))
        relative.append(found.error / abs(found.value))
        if strains[-1] > 1:
            print(f"setting {number}: {strains[-1]:.2f} stated errors off, {setting}")
    broken = sum(s > 1 for s in strains)
    share = refused / asked.settings
    print(f"{asked.settings} settings: {broken} beyond the stated error, {share:.1%} refused")
    print(
        f"worst {max(strains):.2f} stated errors, median relative error {np.median(relative):.1e}"
    )
    if broken or share > REFUSED_SHARE:
        return 1
    heading("CPU time, median over the settings")
    limit("first risk of a task", float(np.median(first)), FIRST_SECONDS)
    limit("later risks of the task", float(np.median(later)), LATER_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
