"""Deciding tokens that are known for some of the bags.

    E step   r_l = 1 at the known token and 0 at the others; unknown bags as ever (fit/em.py)

so that what is maximised is sum_known log p(J_i) f(y_i | x_{J_i}) + sum_unknown log sum_l p_l f(y_i
| x_l), the likelihood of what was seen. The model is then EM's: the stages after it maximise
something in which a location has no place (fit/rivals.py). Held-out bags are predicted without
their location.

notation: locations (n,): a position in the bag as the caller gave it, -1 = unknown.
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

EM_ONLY_CHOICES = {  # of the parameters, where locations are known
    "gate": ("linear", "quadratic", "auto"),
    "pooling": ("softmax", "auto"),
    "loss": ("mixture", "auto"),
    "heads": (1,),
    "assumption": ("single", "auto"),
}


def with_locations(model: Any, bags: Any, given: tuple, locations: Any, of: str) -> Any:
    """The bags, read, with what is known of their deciding tokens; `given` are labels, weights and
    groups, of which some may be columns of the same table.
    """
    if locations is None:
        return bags
    for name, allowed in EM_ONLY_CHOICES.items():
        if getattr(model, name) not in allowed:
            must = "one of " + ", ".join(map(repr, allowed)) + " with locations (EM only)"
            raise bad(name, of, must, getattr(model, name))
    held = read_bags(bags, of, leave=column_names(*given, locations))
    known_places = per_bag(locations, held.rows, of, "locations")
    places = array_of(known_places, "locations", of, "whole numbers, -1 where unknown")
    if places.shape != (len(held),) or places.dtype.kind not in "iu":
        got = f"shape {places.shape} of {places.dtype}"
        must = f"whole numbers, one for each of {len(held)} bags, -1 where unknown"
        raise bad("locations", of, must, got)
    given_places = places
    places = places.astype(np.int64)
    known = places >= 0
    room = held.lengths if held.mask is None else np.full(len(held), held.mask.shape[1])
    wrong = (places < -1) | (places >= room)
    if held.mask is not None:
        at = np.where(known & ~wrong, places, 0)
        bag = np.arange(len(held))
        wrong |= known & ~held.mask[bag, at]
        places = np.where(known, (np.cumsum(held.mask, axis=1) - 1)[bag, at], -1)
    if wrong.any():
        first = int(np.argmax(wrong))
        got = f"{given_places[first]} in bag {first}"
        must = "the position of a token of the bag, or -1 where unknown"
        raise bad("locations", of, must, got)
    return replace(held, known=places)
