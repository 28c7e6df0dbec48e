"""The command line in this process: the same parser and the same refusals, without a second to
import everything.
"""

import io
from contextlib import redirect_stderr, redirect_stdout

import typer

import attnscope as at
from attnscope.cli import app

__all__ = ["run"]

COMMAND = typer.main.get_command(app)  # once: it takes longer than most calls


def run(*arguments):
    """(exit code, stdout, stderr) as main() ends; whatever else is raised is the test's error."""
    out = io.StringIO()
    said = io.StringIO()
    words = [str(a) for a in arguments]
    with redirect_stdout(out), redirect_stderr(said):
        try:
            COMMAND.main(args=words, prog_name="attnscope")
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except at.AttnscopeError as error:
            return 2, out.getvalue(), f"error: {error}"
    return code, out.getvalue(), said.getvalue()
