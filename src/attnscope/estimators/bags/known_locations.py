"""Known deciding tokens of some bags.

    E step   r_l = 1 at the known token and 0 at the others; other bags as usual (fit/em.py)

So EM maximises sum_known log p(J_i) f(y_i | x_{J_i}) + sum_unknown log sum_l p_l f(y_i | x_l), the
likelihood of the observations. The model is that of EM, because the later stages optimise losses
that cannot use a location (fit/rivals.py). Held-out bags are predicted without their location.

notation: locations (n,): the token's number in the caller's bag, -1 = unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import column_names, read_bags
from attnscope.estimators.bags.forms import per_bag
from attnscope.numerics.border.whole_values import array_of

__all__ = ["with_locations"]

EM_ONLY_CHOICES = {  # parameters that are allowed with known locations
    "gate": ("linear", "quadratic", "auto"),
    "pooling": ("softmax", "auto"),
    "loss": ("mixture", "auto"),
    "heads": (1,),
    "assumption": ("single", "auto"),
}


def with_locations(model: Any, bags: Any, given: tuple, locations: Any, of: str) -> Any:
    """The bags, read, with their known locations. `given`: labels, weights and groups, some of which
    may be columns of the same table.
    """
    if locations is None:
        return bags
    for name, allowed in EM_ONLY_CHOICES.items():
        if getattr(model, name) not in allowed:
            must = "one of " + ", ".join(map(repr, allowed)) + " with locations (EM only)"
            raise bad(name, of, must, getattr(model, name))
    held = read_bags(bags, of, leave=column_names(*given, locations))
    known_places = per_bag(locations, held.rows, of, "locations")
    given_locations = array_of(
        known_places, "locations", of, "whole numbers, -1 where unknown"
    )
    if given_locations.shape != (len(held),) or given_locations.dtype.kind not in "iu":
        got = f"shape {given_locations.shape} of {given_locations.dtype}"
        must = f"whole numbers, one for each of {len(held)} bags, -1 where unknown"
        raise bad("locations", of, must, got)
    caller_locations = given_locations
    given_locations = given_locations.astype(np.int64)
    known = given_locations >= 0
    token_counts = (
        held.lengths if held.mask is None else np.full(len(held), held.mask.shape[1])
    )
    wrong = (given_locations < -1) | (given_locations >= token_counts)
    if held.mask is not None:
        at = np.where(known & ~wrong, given_locations, 0)
        bag = np.arange(len(held))
        wrong |= known & ~held.mask[bag, at]
        given_locations = np.where(known, (np.cumsum(held.mask, axis=1) - 1)[bag, at], -1)
    if wrong.any():
        first = int(np.argmax(wrong))
        got = f"{caller_locations[first]} in bag {first}"
        must = "the position of a token of the bag, or -1 where unknown"
        raise bad("locations", of, must, got)
    return replace(held, known=given_locations)
