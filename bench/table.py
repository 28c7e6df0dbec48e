"""One way to time and to print: the minimum of repeats, compile apart,
ratios beside the bar they must pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(call: Callable[[], object], repeats: int = 7, at_least: float = 0.05) -> float:
    """Least seconds per call over `repeats` groups, each long enough for the clock;
    the first, warming call is not counted.
    """
    call()
    number = 1
    while True:
        start = time.perf_counter()
        for _ in range(number):
            call()
        if time.perf_counter() - start > at_least:
            break
        number *= 4
    groups = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            call()
        groups.append((time.perf_counter() - start) / number)
    return min(groups)


def heading(title: str) -> None:
    print(f"\n{title}\n{'what':<52}{'ours':>12}{'baseline':>12}{'ratio':>9}{'bar':>8}  ok")


def shown(t: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if t * scale >= 1 or unit == "us":
            return f"{t * scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"


def row(what: str, ours: float, baseline: float, bar: float) -> None:
    """A speed-up that must reach the bar."""
    ratio = baseline / ours
    print(
        f"{what:<52}{shown(ours):>12}{shown(baseline):>12}{ratio:>8.0f}x{bar:>7.0f}x  "
        f"{'yes' if ratio >= bar else 'NO'}"
    )


def limit(what: str, ours: float, bar: float) -> None:
    """A time that must stay below the bar."""
    print(
        f"{what:<52}{shown(ours):>12}{'':>12}{'':>9}{shown(bar):>8}  "
        f"{'yes' if ours <= bar else 'NO'}"
    )
