"""The command line: parses, calls the library, prints. Exit codes: 0 fine, 1 a claim failed, 2 bad
input, 130 stopped (Ctrl-C, or SIGTERM, which ends a command in the same way).

`commands` has them all; it is imported by `main` or when something of it is asked for, so that a
command can be stopped in one sentence from its first moment. Then `common`, `stopping`, `streams`
and one file per group of commands.
"""

from __future__ import annotations

import sys
from typing import Any

from attnscope.cli.stopping import STOPPED, Stopping
from attnscope.cli.streams import flush_streams, plain_streams
from attnscope.deprecated import show_warnings
from attnscope.errors import AttnscopeError
from attnscope.files import reason
from attnscope.lazy_namespace import lazy_namespace
from attnscope.optional import absent

__all__ = ["app", "main"]

_lazy_attribute, __dir__ = lazy_namespace(__name__)


def __getattr__(name: str) -> Any:
    if name == "app":
        from attnscope.cli.commands import app

        return app
    return _lazy_attribute(name)


def main() -> None:
    """Entry point: library refusals become one line on stderr and exit code 2."""
    stopping = Stopping()
    plain_streams()
    from attnscope.cli.commands import app

    show_warnings()
    stopping.begin()
    try:
        code = _exit_code(app, stopping)
    except KeyboardInterrupt:  # a second one, while the first was answered
        code = STOPPED
    stopping.end()
    sys.exit(code)


def _exit_code(app: Any, stopping: Stopping) -> Any:
    """The exit code of the command, with one sentence where it could not be carried out."""
    try:
        stopping.raises = True
        try:
            app(standalone_mode=True)
        except SystemExit as end:
            flush_streams()
            return end.code
    except AttnscopeError as error:
        return _refusal_code(str(error))
    except MemoryError as error:
        said = " ".join(str(error).split())
        return _refusal_code(
            "the command must fit into the memory of this machine, got "
            f"{said or 'no more of it'}; try smaller sizes."
        )
    except (Exception, KeyboardInterrupt) as error:
        if stopping.heard:  # compiled modules turn it into errors of their own
            print("Stopped; nothing was written.", file=sys.stderr)
            return STOPPED
        if isinstance(error, ImportError) and (missing := absent(error, "this command")):
            return _refusal_code(str(missing))
        # an error of a file should have been told by its writer
        if not isinstance(error, OSError) or error.filename is not None:
            raise
        return _refusal_code(
            f"the output of the command must be written, got {reason(error)}; try another place."
        )
    return 0


def _refusal_code(sentence: str) -> int:
    try:
        print(f"error: {sentence}", file=sys.stderr)
        flush_streams()
    except OSError:
        pass  # nowhere to say it
    return 2
