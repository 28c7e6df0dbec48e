"""Pages made from the code before each build: the command line (from the commands), the public
names (from their docstrings), the claims.

The tables of tasks.md, which is kept, are made by task_table.py.
"""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import attnscope
from attnscope.claims.pages import docs_page
from attnscope.claims.registry import all_claims

FOLDER = Path(__file__).parent.parent / "generated"


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


def public_names():
    parts = [
        "# Public names",
        "Everything `import attnscope as at` offers, by the room it lives in.\n",
    ]
    for module, names in attnscope._HOME.items():
        parts.append(f"## {module}\n")
        parts += [described(name) for name in names]
    return "\n".join(parts)


def described(name):
    thing = getattr(attnscope, name)
    try:
        signature = str(inspect.signature(thing)) if callable(thing) else ""
    except ValueError:
        signature = ""
    # a default that is a class, by its name
    signature = re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", signature)
    signature = re.sub(
        r"(: |-> )(?:ForwardRef\()?'([^']*)'\)?", r"\1\2", signature
    )  # annotations, as they were written
    text = inspect.getdoc(thing) or ""
    return (
        f"### {name}\n\n```python\n{broken(name + signature)}\n```\n\n```text\n{text}\n```\n"
    )


def broken(signature, width=100):
    """A long signature, one argument a line."""
    if len(signature) <= width or not (
        match := re.fullmatch(r"(\w+)\((.*)\)( -> .*)?", signature)
    ):
        return signature
    name, inside, result = match.groups()
    arguments = [""]
    depth = 0
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return "\n".join(
        [
            f"{name}(",
            *(f"    {argument.strip()}," for argument in arguments),
            f"){result or ''}",
        ]
    )


def claims():
    rows = [
        f"| {c.id} | {c.title} | {c.source} | [{docs_page(c.id)}](../{docs_page(c.id)}.md) |"
        for c in all_claims()
    ]
    head = [
        "# All claims",
        "",
        "What `attnscope reproduce` checks.",
        "",
        "| id | claim | source | mathematics |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def write(app):
    FOLDER.mkdir(exist_ok=True)
    for name, make in (
        ("cli", command_line),
        ("names", public_names),
        ("all_claims", claims),
    ):
        text = make()
        page = FOLDER / f"{name}.md"
        # an untouched page is not read again
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
