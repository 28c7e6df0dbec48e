"""The notebooks of docs/notebooks, executed before each build and shown as pages.

A cell is plain Python: this runs it as a notebook does (what it prints, then its last expression in
the richest form that it has) and needs no kernel and no package. Measured as installed: nbclient
with ipykernel are 37 packages and 105 MB, myst-nb 70 and 215 MB; what they add, other languages,
widgets and magics, the notebooks do not use. Outputs are not kept in the files.
"""

import ast
import contextlib
import html
import io
import json
import linecache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks"
PAGES = Path(__file__).parent.parent / "generated"


def read(path):
    """Cells (kind, text)."""
    cells = json.loads(path.read_text())["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def executed(path):
    """Cells (kind, text, printed, shown): what each code cell printed, and its value as HTML."""
    names = {"__name__": "__main__"}
    out = []
    for i, (kind, text) in enumerate(read(path)):
        printed, shown = (
            run(text, names, f"{path.name}, cell {i}") if kind == "code" else ("", "")
        )
        out.append((kind, text, printed, shown))
    return out


def run(text, names, where):
    """What one cell prints, and its last expression as HTML ("" without one)."""
    # so that a traceback shows the line of the cell
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    body = ast.parse(text, where).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), where, "exec"), names)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    quiet = text.rstrip().endswith(";")
    return printed.getvalue(), "" if value is None or quiet else rich(value)


def rich(value):
    """The value as HTML, in the richest form it has."""
    for name in ("_repr_html_", "_repr_svg_"):
        form = getattr(value, name, None)
        if form is not None:
            return form()
    return f"<pre>{html.escape(repr(value))}</pre>"


def page(path):
    """The notebook as a page of MyST."""
    parts = []
    for kind, text, printed, shown in executed(path):
        if kind == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
        if shown:
            parts.append(f'```{{raw}} html\n<div class="shown">{shown}</div>\n```')
    load = f"This page is a notebook: {{download}}`{path.name} <../notebooks/{path.name}>`."
    return "\n\n".join([*parts, load, ""])


def write(app):
    PAGES.mkdir(exist_ok=True)
    for path in sorted(FOLDER.glob("*.ipynb")):
        target = PAGES / f"{path.stem}.md"
        text = page(path)
        # an untouched page is not read again
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
