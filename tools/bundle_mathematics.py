"""Write the documentation's mathematics as pieces of HTML with MathML that the report bundles.

    python tools/bundle_mathematics.py

Needs the docs extra (markdown-it, latex2mathml); the report itself needs neither.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from mathml import mended  # noqa: E402

from attnscope_claims.pages import PAGES  # noqa: E402

FOLDER = ROOT / "src" / "attnscope" / "report" / "mathematics"
DOWN = 2  # levels that headings move down: the report's section comes above


def bundle() -> dict[str, str]:
    """The pieces by name of their page."""
    names = sorted({page for _, page in PAGES})
    return {name: piece((ROOT / "docs" / f"{name}.md").read_text("utf-8")) for name in names}


def piece(text: str) -> str:
    """One page: no ids, no links or pictures, nothing that asks a host."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.use(dollarmath_plugin, renderer=formula, double_inline=True)
    html = parser.render(text)
    html = re.sub(r"<(/?)h([1-4])>", lambda m: f"<{m[1]}h{min(int(m[2]) + DOWN, 6)}>", html)
    html = re.sub(r"<img [^>]*>", "", html)
    html = re.sub(r"</?a(?: [^>]*)?>", "", html)
    html = re.sub(r"<th(?= |>)", '<th scope="col"', html)
    html = re.sub(r' style="text-align:[a-z]*"', "", html)
    around = '<div class="scroll" role="region" aria-label="Table" tabindex="0">'
    html = html.replace("<table>", f"{around}<table>")
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    return re.sub(r"https?://", "", html)


def formula(latex: str, options: dict[str, bool]) -> str:
    """MathML as HTML has it: no name space, no tags that close themselves."""
    display = "block" if options["display_mode"] else "inline"
    markup = mended(convert(latex.strip(), display=display))
    markup = markup.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    return re.sub(r"<(\w+)([^>]*?)/>", r"<\1\2></\1>", markup)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, html in bundle().items():
        (FOLDER / f"{name}.html").write_text(html, "utf-8", newline="\n")
    print(f"{len(bundle())} pages in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
