"""What a report was made with: versions, commit, date and kind of machine. No names, no folders."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["environment"]

LIBRARIES = ("numpy", "scipy", "jax", "numba", "scikit-learn", "matplotlib")


@cache
def environment() -> dict[str, str]:
    """Facts of this process, in the order a reader asks for them; "" where one is not known."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(Path(__file__).resolve().parents[3]),
        "python": platform.python_version(),
        **{name: _installed_version(name) for name in LIBRARIES},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _commit(clone: Path) -> str:
    """The commit that is checked out, where the package is run from a clone."""
    git = clone / ".git"
    try:
        head = (git / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref: "):
            return head[:12]
        ref = head.removeprefix("ref: ")
        if (git / ref).exists():
            return (git / ref).read_text("utf-8").strip()[:12]
        packed = (git / "packed-refs").read_text("utf-8").splitlines()
        return next((line[:12] for line in packed if line.endswith(f" {ref}")), "")
    except OSError:  # a wheel, or a worktree whose .git is a file
        return ""
