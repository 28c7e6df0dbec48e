"""`attnscope explore`: the page, on this machine or as plain files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attnscope.cli.common import Json, interruptible
from attnscope.cli.json_text import json_text, print_json
from attnscope.errors import AttnscopeError
from attnscope.optional import needs

__all__ = ["explore"]


def explore(
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; anything but the default is open to your network."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8050,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser.")
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(help="Your own task: my_paper.py:MyTask, or a package's word."),
    ] = None,
    static: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the page as plain files, for file:// and any web server, and end.",
        ),
    ] = None,
    site: Annotated[
        bool,
        typer.Option(
            "--site", help="With --static: link to docs at .. and to a report at ../report."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Open the explorer, a local page with exact risks,
    landscapes and training at the turn of a knob.
    """
    if static is not None:
        _write_static(static, site, as_json)
        return
    if site:
        raise AttnscopeError(
            "--site of attnscope explore must be given with --static, got it alone; try --static "
            "site/explorer --site."
        )
    if task is not None:
        from attnscope.theory.task_and_predictor import task_row

        task_row(
            task, "attnscope explore"
        )  # a choice of the risk and training views from now on
    for package in ("dash", "plotly", "matplotlib", "jinja2"):
        needs(package, "attnscope explore")
    from attnscope_explorer.app import leave, serve

    if as_json:
        print(json_text({"url": f"http://{host}:{port}/"}, indent=None), flush=True)
    serve(host, port, open_browser=not (no_browser or as_json))
    leave()


def _write_static(folder: Path, site: bool, as_json: bool) -> None:
    """`attnscope explore --static DIR`."""
    for package in ("plotly", "matplotlib", "jinja2"):
        needs(package, "attnscope explore --static")
    from attnscope_explorer.static_page.build import SITE, write_static

    with interruptible():
        written = write_static(folder, links=SITE if site else None)
    record = {"page": str(written.page), "files": written.files, "bytes": written.size}
    if as_json:
        print_json(record | {"left_out": list(written.left_out)}, indent=None)
        return
    for sentence in written.left_out:
        print(f"left out: {sentence}", file=sys.stderr)
    print(
        f"{written.page}: {written.files} files, {written.size / 1e6:.1f} MB, no server needed"
    )
