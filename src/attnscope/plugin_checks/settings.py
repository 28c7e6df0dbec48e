"""Random arguments of a task or a predictor within their declared ranges.

A number is drawn within a factor of 2 of its default, a number whose default is 0 between 0 and 1,
one of several options uniformly, and what lies outside the declared range is moved to its end. Lists
and arguments that are left out by default keep their default. `dim` and `length` are small, so that
tokens can be sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnscope.plugin_checks.record import CheckFailed
from attnscope.registry import Argument, Entry

__all__ = ["setting_words", "small_setting", "worst_of_settings"]

# small enough to sample 40,000 sequences of whole tokens; dim leaves room for up to four teachers
SMALL = {"dim": (6, 12), "length": (2, 6)}
TRIES_PER_SETTING = 20  # an argument may restrict another, so that some draws are refused


def small_setting(entry: Entry) -> dict[str, Any]:
    """The defaults, with a small dim and length."""
    flat = entry.flat()
    bounds = {argument.name: argument for argument in entry.arguments}
    for name, (_, high) in SMALL.items():
        if name in flat:
            flat[name] = int(np.clip(high, bounds[name].low, bounds[name].high))
    return flat


def random_settings(
    entry: Entry, count: int, seed: int
) -> Iterator[tuple[dict[str, Any], Any]]:
    """The small setting, then `count` random ones, each with the object that it makes.

    An AttnscopeError or a ValueError refuses a setting, and another one is drawn; CheckFailed where
    TRIES_PER_SETTING draws in a row are refused.
    """
    first = small_setting(entry)
    yield first, entry.make(first)
    rng = np.random.default_rng([seed, 0x5E77])
    for _ in range(count):
        refusal: ValueError | None = None
        for _ in range(TRIES_PER_SETTING):
            values = {a.name: _drawn_value(a, first[a.name], rng) for a in entry.arguments}
            try:
                made = entry.make(values)
            except ValueError as error:
                refusal = error
                continue
            yield values, made
            break
        else:
            raise CheckFailed(
                f"{TRIES_PER_SETTING} settings within the declared ranges were refused, the last "
                f"with: {refusal}"
            )


def _drawn_value(argument: Argument, default: Any, rng: np.random.Generator) -> Any:
    if argument.name == "seed":
        return int(rng.integers(0, 1000))
    if argument.options:
        return str(rng.choice(argument.options))
    if argument.many or default is None:
        return default
    if argument.name in SMALL:
        low, high = SMALL[argument.name]
        value = float(rng.integers(low, high + 1))
    elif default == 0:
        value = float(rng.random())
    else:
        value = float(default) * 2.0 ** rng.uniform(-1, 1)
    value = min(max(value, argument.low), argument.high)
    return round(value) if argument.whole else value


def worst_of_settings(
    check: Callable[[Any, int, str], float | None], entry: Entry, settings: int
) -> float | None:
    """The worst of a check over the settings, each with a seed of its own."""
    found = [
        check(made, seed, setting_words(values))
        for seed, (values, made) in enumerate(random_settings(entry, settings, seed=0))
    ]
    return max((x for x in found if x is not None), default=None)


def setting_words(values: dict[str, Any]) -> str:
    """A setting in a sentence: `dim=8, signal=1.3`."""
    shown = {name: x for name, x in values.items() if x is not None}
    return ", ".join(
        f"{name}={x:.3g}" if isinstance(x, float) else f"{name}={x}"
        for name, x in shown.items()
    )
