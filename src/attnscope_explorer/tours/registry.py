"""All tours, found by file name (`tour_1_swapped_runs.py` is the first), and the steps of a claim."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import attnscope_explorer.tours as room
from attnscope.errors import bad
from attnscope_explorer.tours.tour import Step, Tour

__all__ = [
    "CLAIMS_WITHOUT_STEP",
    "all_tours",
    "one_step",
    "one_tour",
    "short_id",
    "steps_of_claims",
]

TOUR_FILE_PREFIX = "tour_"
# claims about single-location regression that no step shows, and why
CLAIMS_WITHOUT_STEP = {
    "slr-11": "No tour shows SGD: its paths are drawn anew each time.",
    "slr-18": "No tour shows rates: they are read off distances too small for a picture.",
    "slr-19": "No tour shows other optimisers: the explorer trains on the spheres.",
    "slr-21": "No tour shows the floor of SGD: its paths are drawn anew each time.",
}


@cache
def all_tours() -> tuple[Tour, ...]:
    """Every tour, in the order of its number.

    >>> [tour.name for tour in all_tours()][:1]
    ['swapped-runs']
    """
    names = sorted(m.name for m in pkgutil.iter_modules(room.__path__))
    files = [f"{room.__name__}.{name}" for name in names if name.startswith(TOUR_FILE_PREFIX)]
    return tuple(import_module(name).TOUR for name in files)


def one_tour(name: str) -> Tour:
    """The tour of this name, or a sentence that lists them."""
    named = {tour.name: tour for tour in all_tours()}
    if name not in named:
        raise bad("the tour", "attnscope explore", "one of " + ", ".join(named), name[:40])
    return named[name]


def one_step(name: str, number: str) -> tuple[Tour, int, Step]:
    """(tour, k, its k-th step) of an address's words; steps count from 1."""
    tour = one_tour(name)
    last = len(tour.steps)
    if not number.isascii() or not number.isdigit() or not 1 <= int(number[:9]) <= last:
        must = f"a whole number from 1 to {last}"
        raise bad("the step", f"the tour {name}", must, number[:40], f"/tour/{name}/1")
    return tour, int(number), tour.steps[int(number) - 1]


def short_id(claim: str) -> str:
    """Family and number of a claim: slr-13 of slr-13-swapped-beats-oracle."""
    return "-".join(claim.split("-")[:2])


def steps_of_claims() -> dict[str, list[tuple[str, int, str]]]:
    """Claim -> (tour's name, number of the step, tour's title) of each step that shows it.

    >>> steps_of_claims()["slr-13"][0][0]
    'swapped-runs'
    """
    found: dict[str, list[tuple[str, int, str]]] = {}
    for tour in all_tours():
        for k, step in enumerate(tour.steps, start=1):
            for claim in step.claims:
                found.setdefault(claim, []).append((tour.name, k, tour.title))
    return found
