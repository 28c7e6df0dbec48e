"""The mathematics of the claims, bundled: pages of the documentation with formulas as MathML.

The files in `mathematics/` are made from docs/*.md by tools/bundle_mathematics.py; a test says
when they are old. A page of the report that is mailed alone keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from markupsafe import Markup

__all__ = ["mathematics"]


def mathematics(names: Iterable[str]) -> dict[str, Markup]:
    """The pages of these names that are bundled, each once, in the order of names."""
    bundle = files("attnscope.report") / "mathematics"
    places = {name: bundle / f"{name}.html" for name in sorted(set(names))}
    return {
        name: Markup(place.read_text("utf-8"))
        for name, place in places.items()
        if place.is_file()
    }
