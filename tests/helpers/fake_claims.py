"""Claims that take no time, one for every kind of verdict;
a registry that worker processes can import by name.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Skipped
from attnscope.claims.provenance import Provenance
from attnscope.claims.registry import ClaimList, ListedClaim
from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points


def picture(seed: int) -> Figure:
    x = np.linspace(0.0, 1.0, 21)
    y = np.random.default_rng(seed).normal(size=21)
    curves = Panel(
        "risk & <excess>",
        "step",
        "risk",
        (Band(x, y - 1, y + 1, "95 %"), Line(x, y, "exact"), Points(x, y, "seen", 1)),
    )
    grid = Panel(
        "map", "dim", "inverse temperature", (Heat(x, x, np.outer(y, y), "outcome"),)
    )
    return Figure('A "title" with <angles>', (curves, grid), columns=2)


def mean_of_uniforms(context: Context) -> Evidence:
    n = context.pick(1000, 4000)
    mean = float(np.random.default_rng([context.seed, 1]).random(n).mean())
    # five standard errors: one false alarm in 1.7 million
    tolerance = 5 * (1 / 12 / n) ** 0.5
    comparisons = (
        Comparison("mean of uniforms", 0.5, mean, tolerance),
        Comparison("largest uniform", 1.0, mean, 1e-9, "at most"),
    )
    return Evidence(
        comparisons, picture(context.seed), f"{n} draws & no more.\n\nA second paragraph."
    )


def one_is_two(context: Context) -> Evidence:
    return Evidence(
        (Comparison("one", 2.0, 1.0, 0.01), Comparison("two", 2.0, 2.0, 0.01)),
        picture(1),
        "One is not two.",
    )


def needs_more(context: Context) -> Evidence:
    raise Skipped('needs tokenizers; install with pip install "attnscope[text]"')


def breaks(context: Context) -> Evidence:
    raise RuntimeError("no <luck>\ntoday")


def ends_its_process(context: Context) -> Evidence:
    os._exit(3)


def fake(name, check, **changes):
    words = {
        "title": f"Title of {name}",
        "statement": "If a < b & c, then so be it.",
        "provenance": Provenance("new here"),
        "hypotheses": "none",
        "routes": ("closed form", "simulation"),
        "snippet": "import attnscope as at\nprint(at.__version__)\n",
    }
    return Claim(id=name, check=check, **{**words, **changes})


HOLDS = fake("slr-01-holds", mean_of_uniforms)
DECLARED = fake("slr-02-declared", one_is_two, expected=False, condition="one equals two")
SKIPPED = fake("slr-03-skipped", needs_more)
RAISES = fake("slr-04-raises", breaks)
FAILS = fake("slr-05-fails", one_is_two)
SURPRISE = fake("slr-06-surprise", mean_of_uniforms, expected=False)
RAISES_DECLARED = fake("slr-07-raises-declared", breaks, expected=False)
CONDITION = fake("slr-09-condition", mean_of_uniforms, condition="it rains")
FATAL = fake("slr-08-fatal", ends_its_process)
FINE = [HOLDS, DECLARED, SKIPPED]
HARMLESS = [*FINE, RAISES, FAILS, SURPRISE, RAISES_DECLARED]


def listed(claims):
    """What attnscope.claims.registry.listed_claims returns, for these claims alone."""
    rows = {claim.id: ListedClaim("fake 1.0", partial(_itself, claim)) for claim in claims}
    return ClaimList(rows, [])


def _itself(claim):
    return claim


def listed_claims():
    return listed([*HARMLESS, FATAL])
