"""`attnscope selftest` of 0.2: says where the stress tests are now."""

from __future__ import annotations

import typer

from attnscope.cli.common import app
from attnscope.errors import AttnscopeError


@app.command(
    "selftest",
    hidden=True,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def selftest_command(context: typer.Context) -> None:
    """Moved: run `make stress` in a checkout."""
    raise AttnscopeError(
        "the stress tests are not part of the package; run `make stress` in a checkout."
    )
