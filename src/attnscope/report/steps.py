"""Where a claim can be seen: the steps of the explorer's tours that show it.

The report does not know the tours: whoever builds it hands over a table, claim -> steps (`TourStep`).
On its own the page names the command and the local address; in a site, where the explorer's plain
files lie beside the report, `in_site` makes links of them.

>>> print(in_site(f'<p>{marked(TourStep("softmax", 3, "Why softmax wins"))}</p>'))
<p><a href="../explorer/index.html#tour/softmax/3">Why softmax wins, step 3</a></p>
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["EXPLORER_PAGE", "Steps", "TourStep", "in_site", "marked"]

LOCAL_ADDRESS = "127.0.0.1:8050"  # where attnscope explore listens unless told otherwise
EXPLORER_PAGE = "../explorer/index.html"  # from the report's folder, in a site


class TourStep(NamedTuple):
    """A step of a tour: the tour's name, the step's number from 1, the tour's title."""

    tour: str
    step: int
    title: str

    @property
    def words(self) -> str:
        return f"{self.title}, step {self.step}"

    @property
    def address(self) -> str:
        """Of the live page."""
        return f"{LOCAL_ADDRESS}/tour/{self.tour}/{self.step}"


Steps = Mapping[str, Sequence[TourStep]]  # by claim's id


def marked(seen: TourStep) -> Markup:
    """The step as the page has it, marked so that `in_site` finds it again."""
    from markupsafe import Markup

    how = Markup("attnscope explore, then <code>{}</code>").format(seen.address)
    text = '<span data-tour="{}/{}" data-title="{}">{}: {}</span>'
    return Markup(text).format(seen.tour, seen.step, seen.words, seen.words, how)


def in_site(html: str, explorer: str = EXPLORER_PAGE) -> str:
    """A report's page with its steps as links to the explorer's plain files at this address."""
    found = re.compile(r'<span data-tour="([^"]+)" data-title="([^"]+)">.*?</span>', re.S)
    return found.sub(rf'<a href="{explorer}#tour/\1">\2</a>', html)
