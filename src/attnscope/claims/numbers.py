"""Numbers as a reader wants them: as many digits as the tolerance gives meaning to, no more."""

from __future__ import annotations

import math
import re

from attnscope.claims.claim import Comparison

__all__ = ["allowance", "caught", "number", "prediction", "pretty", "used"]

# significant digits; beyond 12 a float64 result is roundoff
FEWEST = 3
MOST = 12
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(x: float | None, tolerance: float = 0.0, most: int = MOST) -> str:
    """x with one digit more than the tolerance resolves, and at most `most` of them.

    >>> number(0.113499, tolerance=1e-3), number(200.0, tolerance=2), number(3.21e-16, tolerance=1e-12), number(None)
    ('0.1135', '200', '3.21e-16', '–')
    """
    if x is None:
        return "–"
    if x == 0:
        return "0"
    if x == int(x) and abs(x) < 1e6 and (tolerance == 0 or tolerance >= 0.5):
        return str(int(x))
    size = math.floor(math.log10(abs(x)))
    wanted = 6 if tolerance == 0 else size + 2 - math.floor(math.log10(tolerance))
    return _without_zeros(f"{x:#.{min(max(wanted, FEWEST), most)}g}")


def allowance(comparison: Comparison) -> str:
    """The tolerance with its side: where measured must lie.

    >>> allowance(Comparison("risk", 0.1, 0.1, 1e-3)), allowance(Comparison("risk", 0.1, 0.1, 1e-3, "at most"))
    ('±0.001', '≤ pred. + 0.001')
    """
    sign = {"equal": "±", "at most": "≤ pred. + ", "at least": "≥ pred. − "}[comparison.rule]
    return sign + _tolerance(comparison)


def prediction(comparison: Comparison) -> str:
    """The predicted number with its tolerance.

    >>> prediction(Comparison("risk", 0.1, 0.1, 1e-3)), prediction(Comparison("risk", 0.1, 0.1, 1e-3, "at most"))
    ('0.1000 ±0.001', 'at most 0.1000 + 0.001')
    """
    before, after = {
        "equal": ("", " ±"),
        "at most": ("at most ", " + "),
        "at least": ("at least ", " − "),
    }[comparison.rule]
    return (
        before
        + number(comparison.predicted, comparison.tolerance)
        + after
        + _tolerance(comparison)
    )


def used(comparison: Comparison) -> str:
    """How much of the tolerance the difference takes up.

    >>> used(Comparison("risk", 0.1, 0.1005, 1e-3)), used(Comparison("risk", 0.1, 0.2, 1e-3))
    ('50 %', '100 times')
    """
    strain = comparison.strain
    if strain == float("inf"):
        return "all of none"  # a tolerance of zero
    return f"{strain:.3g} times" if strain >= 10 else f"{100 * max(strain, 0.0):.0f} %"


def caught(comparison: Comparison) -> str:
    """The least deviation that would have broken the comparison, in percent of what it predicts;
    "–" for a prediction of zero without a scale.

    >>> caught(Comparison("risk", 0.1, 0.1, 1e-3)), caught(Comparison("risk", 0.1, 0.1, 1e-9))
    ('1 %', '1e-6 %')
    >>> caught(Comparison("difference", 0, 0, 1e-3))
    '–'
    """
    percent = 100 * comparison.detectable
    if percent == float("inf"):
        return "–"
    shown = f"{percent:.0f}" if percent >= 9.5 else f"{percent:.1g}"
    return f"{_without_zeros(shown) if 'e' in shown else shown} %"


def pretty(text: str) -> str:
    """Powers of ten in print: 1e-06 as 10⁻⁶.

    >>> pretty("±1e-6"), pretty("3.21e-16"), pretty("0.1135")
    ('±10⁻⁶', '3.21×10⁻¹⁶', '0.1135')
    """
    return re.sub(r"([\d.]+)e(-?\d+)", _power, text)


def _power(match: re.Match[str]) -> str:
    factor = "" if match[1] == "1" else f"{match[1]}×"
    return f"{factor}10{match[2].translate(RAISED)}"


def _tolerance(comparison: Comparison) -> str:
    return _without_zeros(f"{comparison.tolerance:.2g}")


def _without_zeros(text: str) -> str:
    """1.0e-06 as 1.0e-6, and no decimal point without decimals."""
    head, e, power = text.partition("e")
    return f"{head.removesuffix('.')}{e}{int(power)}" if e else text.removesuffix(".")
