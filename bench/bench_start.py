"""How long a new process takes until it answers: CPU seconds, so that other work on the machine
does not count.

    python bench/bench_start.py

Each command runs once unmeasured (byte code and compiled functions are written then) and must end
well with the right words; the column is the median of the runs after it.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from table import heading, limit

RUNS = 9
TRAIN = """
import attnscope as at
run = at.train(at.SingleLocation(dim=100, length=10), at.Erf(0.1), steps=1000, step_size=1e-3)
print(run.excess.shape)
"""
HELP = "import sys; sys.argv[1:] = ['--help']; from attnscope.cli import main; main()"

# what, code, what it must print, CPU seconds
STARTS = [
    ("import attnscope", "import attnscope as at; print(at.__name__)", "attnscope", 0.06),
    ("attnscope --help", HELP, "reproduce", 0.3),
    ("first at.train, compiled code cached", TRAIN, "(30, 6)", 1.5),
]


def cpu(code: str, word: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if out.returncode or word not in out.stdout:
        sys.exit(f"{code}\ndid not print {word}: {out.stdout[-500:]}{out.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    heading(f"a new process (CPU seconds, median of {RUNS})")
    for what, code, word, bar in STARTS:
        cpu(code, word)
        limit(what, statistics.median(cpu(code, word) for _ in range(RUNS)), bar)
