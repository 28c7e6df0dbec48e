"""Pages made from the code before each build: the command line (from the commands), the public
names (api.py), the claims.

The tables of tasks.md, which is kept, are made by task_table.py.
"""

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import api
from api import marked

from attnscope.claims.registry import docs_page, own_claims
from attnscope.formulas.typeset import typeset

FOLDER = Path(__file__).parent.parent / "generated"
FAMILIES = {
    "slr": "Single-location regression",
    "exch": "Exchangeable tokens",
    "beyond": "Beyond the papers",
    "samples": "Curves in samples",
    "around": "Around: other papers",
}


def command_line():
    plain = {**os.environ, "TERM": "dumb", "COLUMNS": "100"}
    command = [
        sys.executable,
        "-m",
        "typer",
        "attnscope.cli",
        "utils",
        "docs",
        "--name",
        "attnscope",
        "--title",
        "Command line",
    ]
    return whole_sentences(
        subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout
    )


def whole_sentences(page):
    """The list of commands with the sentence that opens each command's section,
    where typer cuts it off.
    """
    said = dict(re.findall(r"^## `attnscope (\w+)`\n\n(.+)$", page, flags=re.MULTILINE))
    return re.sub(
        r"^\* `(\w+)`: .*\.\.\.$",
        lambda m: f"* `{m[1]}`: {said.get(m[1], m[0])}",
        page,
        flags=re.MULTILINE,
    )


def claims():
    """Every claim with its statement, its source and its mathematics, under its id."""
    parts = [
        "# All claims",
        "What `attnscope reproduce` checks. `attnscope show ID --run` runs one of them.",
    ]
    for family, named in groupby(own_claims(), key=lambda claim: claim.id.split("-")[0]):
        parts.append(f"## {FAMILIES[family]}")
        parts += [one_claim(claim) for claim in named]
    return "\n\n".join([*parts, ""])


def one_claim(claim):
    number = "-".join(claim.id.split("-")[:2])
    page = docs_page(claim.id)
    lines = [
        f"({number})=\n### {number}: {marked(claim.title)}",
        f"```{{raw}} html\n<p>{typeset(claim.words)}</p>\n```",
        f"Source: {marked(claim.source)}.  \nMathematics: [{page}](../{page}.md).",
    ]
    if not claim.expected:
        lines.append("Declared beforehand: it fails as stated.")
    if claim.condition:
        lines.append(f"Condition: {marked(claim.condition)}.")
    if claim.rests_on:
        lines.append(f"Rests on {', '.join(claim.rests_on)}.")
    return "\n\n".join(lines)


def write(app):
    FOLDER.mkdir(exist_ok=True)
    texts = {"cli": command_line(), "all_claims": claims(), **api.pages()}
    for name, text in texts.items():
        page = FOLDER / f"{name}.md"
        # an untouched page is not read again
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
