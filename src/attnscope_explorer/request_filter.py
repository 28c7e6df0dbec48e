"""Who may speak to the page: requests by a name of this server, from its own pages, in its own form.

The page has no password, so what protects it is that only this machine can reach it. A foreign page
in the same browser must not get around that:

- DNS rebinding (a foreign name that resolves to this machine) is stopped by the Host header: a
  server on the loopback answers to loopback names only, any other to the address it was given, to
  the machine's own name and to plain addresses, which no foreign name can be;
- a foreign page that posts here is stopped by the Origin header that the browser adds;
- a body that is not of the page's own form gets one line, and prints none.

The headers of every answer forbid the browser all requests to other hosts, guesses at the type of
an answer, and frames.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

__all__ = ["guard"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def guard(server: Flask, host: str, script_hashes: list[str]) -> None:
    """Add the checks and headers to `server`, which listens on `host`."""
    policy = (
        f"default-src 'self'; script-src 'self' {' '.join(script_hashes)}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'"
    )

    @server.before_request
    def admit() -> Response | None:
        name = _host_name(f"//{request.host}")
        if not _is_own_name(name, host):
            return _refusal(f"this page answers to {host}, not to the name it was asked by")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return _refusal("requests come from this page only")
        if request.method == "POST" and not _has_page_form(request.get_data(cache=True)):
            return _refusal("the request is not one of this page's", 400)
        return None

    @server.after_request
    def seal(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @server.errorhandler(Exception)
    def failure_line(error: Exception) -> Any:
        """One line for what still fails: a request of another form than the page's own."""
        if isinstance(error, HTTPException):
            return error
        server.logger.warning("a request could not be answered (%s)", type(error).__name__)
        return _refusal("the request could not be answered", 500)


def _is_own_name(name: str, host: str) -> bool:
    """Whether a server that listens on `host` is rightly called `name`."""
    if host in LOOPBACK:
        return name in LOOPBACK
    return name in (*LOOPBACK, host.lower(), socket.gethostname().lower()) or _is_address(
        name
    )


def _host_name(place: str) -> str:
    try:
        return (urlsplit(place).hostname or "").lower()
    except ValueError:  # brackets that do not close
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _has_page_form(body: bytes) -> bool:
    """Whether a posted body has what every callback of the page sends."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(content, dict)
        and isinstance(content.get("output"), str)
        and isinstance(content.get("inputs"), list)
        # a list where one input stands for all knobs
        and all(isinstance(x, dict | list) for x in content["inputs"])
    )


def _refusal(sentence: str, status: int = 403) -> Response:
    return Response(sentence + "\n", status, mimetype="text/plain")
