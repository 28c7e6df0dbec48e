"""The application: views behind one address bar, served from this machine and asking nothing of any
other.

A view is a pure function from a State to what is shown (views/); page.py is the skeleton,
callbacks.py carries texts to the views and results back, request_filter.py says who may speak to it.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import webbrowser

from dash import Dash

from attnscope.errors import bad
from attnscope_explorer.callbacks import add_callbacks
from attnscope_explorer.compute import FIT_LANE, QUICK_LANE
from attnscope_explorer.live_figure import add_figure
from attnscope_explorer.page import layout
from attnscope_explorer.request_filter import guard
from attnscope_explorer.uploads import UPLOAD_BYTES

__all__ = ["create_app", "leave", "serve"]


def create_app(host: str = "127.0.0.1") -> Dash:
    """The Dash application for a server on `host`; `app.server` is its WSGI side."""
    app = Dash(
        "attnscope_explorer",
        title="attnscope explorer",
        update_title=None,
        suppress_callback_exceptions=True,
    )
    app.layout = layout()
    add_callbacks(app)
    add_figure(app.server)
    # an upload in base64, and no more than that
    app.server.config["MAX_CONTENT_LENGTH"] = 2 * UPLOAD_BYTES
    guard(app.server, host, app.csp_hashes())
    return app


def serve(host: str = "127.0.0.1", port: int = 8050, open_browser: bool = True) -> None:
    """Serve the explorer until Ctrl-C; on this machine only, unless `host` says otherwise."""
    from werkzeug.serving import make_server

    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise bad("port", "explore", "a whole number from 0 to 65535", port, "port=8050")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    _check_host(host)
    try:
        server = make_server(host, port, create_app(host).server, threaded=True)
    except (OSError, SystemExit) as error:
        raise bad(
            "host and port",
            "explore",
            "free and of this machine",
            f"{host}:{port} ({error})",
            "another --port",
        ) from None
    address = f"http://{host}:{server.server_port}/"
    if host not in ("127.0.0.1", "localhost", "::1"):
        print(
            f"Warning: {host} lets other machines of the network open this page; it has no "
            "password."
        )
    print(f"attnscope explorer: {address}  (Ctrl-C ends it)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _check_host(host: str) -> None:
    """Refuse what is no name of a machine, before the server complains in its own words."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, ValueError, TypeError):  # of names; of letters; of a NUL
        must = "the name or address of this machine"
        raise bad("host", "explore", must, repr(host), "--host 127.0.0.1") from None


def leave() -> None:
    """End the process if it still computes: nobody will see the result, and the interpreter's own
    end would wait for it. What is registered for the end of the process (uploads go) is run.
    """
    if QUICK_LANE.busy() or FIT_LANE.busy():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)
