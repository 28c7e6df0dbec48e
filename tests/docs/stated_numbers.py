"""The numbers that sentences and tables of the documentation state, each with its computation.

An entry names a page, the words in which the numbers stand, and for each number, as it is written,
a function without arguments that computes it. The tests compare to half a unit of the last digit
written. What takes minutes to measure is read from docs/recorded, which the named command writes.
Numbers in the comments of Python blocks need no entry: test_stated_numbers.py runs the blocks.

`ALLOWED` says which numbers of the closely read pages are no results, and why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from docs.stated import Stated
from helpers.paths import DOCS

import attnscope as at
from docs import stated_in_tasks, stated_in_training

Number = Callable[[], float]


# -- what is recorded ------------------------------------------------------------------------------


@cache
def recorded(name: str) -> dict[str, Any]:
    """docs/recorded/NAME.json: command, version, values."""
    return json.loads((DOCS / "recorded" / f"{name}.json").read_text("utf-8"))


def kept(name: str, value: str, times: float = 1.0) -> Number:
    """A recorded value."""
    return lambda: times * recorded(name)["values"][value]


# -- what is computed ------------------------------------------------------------------------------


@cache
def right_about_the_start(inverse_temperature: float) -> float:
    """Per cent of 5000 random starts whose end the saddle's unstable directions predict."""
    task = at.SingleLocation(dim=400, length=10)
    run = at.train(
        task,
        at.Erf(inverse_temperature),
        runs=5000,
        steps=60_000,
        step_size=4e-3,
        log_every=60_000,
    )
    start = at.Overlaps(*(field[:, 0] for field in run.overlaps))
    oracle = at.basin_prediction(task, inverse_temperature, start) == "oracle"
    decided = np.isin(run.outcome, ("oracle", "swapped"))
    return 100 * float(np.mean(oracle[decided] == (run.outcome[decided] == "oracle")))


def heads_per_square() -> float:
    """The fewest heads of almost every layer over D^2, at D = 400."""
    from attnscope.estimators.linear_attention.fewest_heads import generic_heads

    return generic_heads(400, 400, 400) / 400**2


README = [
    Stated(
        "README.md",
        "| one token decides, n = 500, L = 15, d = 50 (Bayes .0100) | .0110, 100 % located "
        "| .0231 | .501 |",
        {
            ".0100": kept("estimators", "base | reference | bayes"),
            ".0110": kept("estimators", "base | ours | error"),
            "100": kept("estimators", "base | ours | location", 100),
            ".0231": kept("estimators", "base | ABMIL | error"),
            ".501": kept("estimators", "base | mean-pool | error"),
        },
    ),
    Stated(
        "README.md",
        "| the same, n = 120 | .0173 | .526 | .511 |",
        {
            ".0173": kept("estimators", "n=120 | ours | error"),
            ".526": kept("estimators", "n=120 | ABMIL | error"),
            ".511": kept("estimators", "n=120 | mean-pool | error"),
        },
    ),
    Stated(
        "README.md",
        "| key signal halved | .0223 | .513 | .501 |",
        {
            ".0223": kept("estimators", "key signal halved | ours | error"),
            ".513": kept("estimators", "key signal halved | ABMIL | error"),
            ".501": kept("estimators", "key signal halved | mean-pool | error"),
        },
    ),
    Stated(
        "README.md",
        "| the largest of eight digits, n = 400 | .0117 | .0963 | .994 |",
        {
            ".0117": kept("estimators", "digits max n=400 | ours | error"),
            ".0963": kept("estimators", "digits max n=400 | ABMIL | error"),
            ".994": kept("estimators", "digits max n=400 | mean-pool | error"),
        },
    ),
    Stated(
        "README.md",
        "n = 60: wrong classes | 0, 100 % located | 3.5 % | 9.6 % |",
        {
            "0": kept("estimators", "text n=60 | ours | error", 100),
            "100": kept("estimators", "text n=60 | ours | location", 100),
            "3.5": kept("estimators", "text n=60 | ABMIL | error", 100),
            "9.6": kept("estimators", "text n=60 | mean-pool | error", 100),
        },
    ),
]

FINDINGS = [
    Stated(
        "docs/findings.md",
        "for 95 % of 5000 starts at inverse temperature 0.1 and for 96 % at 0.02",
        {
            "95": lambda: right_about_the_start(0.1),
            "96": lambda: right_about_the_start(0.02),
        },
        slow=True,
    ),
    Stated(
        "docs/findings.md", "Linear attention needs .29 D^2 heads", {".29": heads_per_square}
    ),
]

CORPORA = [
    Stated(
        "docs/corpora.md",
        f"| {tokens} | {ours} | {peer} | {mean} | {boosting} | {gain} +- {error} |",
        {
            ours: kept("rated_text", f"{layer} | ours | R2"),
            peer: kept("rated_text", f"{layer} | ABMIL | R2"),
            mean: kept("rated_text", f"{layer} | mean-pool | R2"),
            boosting: kept("rated_text", f"{layer} | boosting | R2"),
            gain.lstrip("+"): kept("rated_text", f"{layer} | gain"),
            error: kept("rated_text", f"{layer} | gain | standard error"),
        },
    )
    for tokens, layer, ours, peer, mean, boosting, gain, error in (
        ("word table (`static`)", "static", ".656", ".564", ".534", ".456", "+.091", ".020"),
        ("states of layer 3", "3", ".762", ".757", ".643", ".574", "+.005", ".008"),
    )
] + [
    Stated(
        "docs/corpora.md",
        "90 % intervals held .896 and .892",
        {
            ".896": kept("rated_text", "static | ours | coverage"),
            ".892": kept("rated_text", "3 | ours | coverage"),
        },
    )
]

ENTRIES = [*README, *FINDINGS, *CORPORA, *stated_in_training.STATED, *stated_in_tasks.STATED]

# pages in which every number of a sentence must be in an entry, or be allowed below
CLOSELY_READ = ("README.md", "docs/findings.md")
# what numbers are that are no results, by the reason
ALLOWED = {
    "years of papers": r"\b(?:ICLR|paper of) 20\d\d",
    "settings of a row: n, L, d": r"\b[nLd] = \d+(?:\^\d+)?",
    "settings of benches": r"\b(?:batch \d+|\d+ runs each|\d+ x \d+ map|[\d,]+-sample)",
    "dimension of an integral": r"\b[12]-D\b",
    "promises, which the stress tests check": (
        r"(?:about|below) 1e-\d+ relative|(?:also at|down to) (?:log-)?risks of -?1[0e^-]+\d+|"
        r"2 % down to 1e-12|noise to 1e-6 of the signal|lengths to 1e12"
    ),
    "the machine of the speed table": r"\b2-core x86 machine \(AVX-512\)",
    "timings and their ratios, which `make bench` prints": (
        r"\d[\d.,-]* ?(?:ns|us|ms|s|minutes|x)\b"
    ),
    "starts and inverse temperatures of a finding": r"of 5000 starts|inverse temperature 0\.1|at 0\.02",
    "settings of a claim": (
        r"moments of 200 labelled|about 20 bags per feature|rule of 17 to 20 nodes"
    ),
}
# parts of comments in blocks that state settings
NO_RESULTS = ("or at.Erf(0.1); entropy=True",)
