"""Build wheel and source archive twice from the commit that is checked out, and compare the bytes.

    python tools/same_bytes.py

SOURCE_DATE_EPOCH is the time of the commit, so that neither the clock nor the folder decides
(sdist_backend.py). Exit code 1 where they differ.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True
    ).stdout


def built(folder: Path, commit: str) -> dict[str, str]:
    """Archive -> sha256 of its bytes."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as tree:
        tree.extractall(folder / "tree", filter="data")
    epoch = git("log", "-1", "--format=%ct", commit).decode().strip()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--outdir",
            str(folder / "dist"),
            str(folder / "tree"),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    archives = sorted((folder / "dist").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}


def main() -> int:
    commit = git("rev-parse", "HEAD").decode().strip()  # once: it may move while we build
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first = built(Path(one), commit)
        second = built(Path(other), commit)
    for name, found in first.items():
        same = second.get(name) == found
        print(f"{name}  {found[:16]}  {'the same twice' if same else 'DIFFERENT'}")
    return int(first != second)


if __name__ == "__main__":
    sys.exit(main())
