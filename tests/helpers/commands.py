"""The command line in this process: the same parser and the same refusals, without a second to
import everything.
"""

from typer.testing import CliRunner

import attnscope as at
from attnscope.cli import app

__all__ = ["run"]


def run(*arguments):
    """(exit code, stdout, stderr); anything but a sentence or an exit is an error of the test."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    # what main() prints, with exit code 2
    if isinstance(result.exception, at.AttnscopeError):
        return 2, result.stdout, f"error: {result.exception}"
    if not (result.exception is None or isinstance(result.exception, SystemExit)):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
