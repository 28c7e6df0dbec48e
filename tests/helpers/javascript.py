"""The explorer's own scripts, run by Node where it is there: their arithmetic without a browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import attnscope_explorer
from helpers.patience import HANG

ASSETS = Path(attnscope_explorer.__file__).parent / "assets"
STATIC = Path(attnscope_explorer.__file__).parent / "static_page" / "assets"
NODE = shutil.which("node")


def evaluated(scripts, expression, given=None):
    """The value of a JavaScript expression after these scripts; it may use the name `given`."""
    if NODE is None:
        pytest.skip("this test runs the page's scripts in Node, which is not installed")
    parts = ["globalThis.window = globalThis;"]
    parts += [Path(script).read_text(encoding="utf-8") for script in scripts]
    parts += [f"const given = {json.dumps(given)};"]
    parts += [f"process.stdout.write(JSON.stringify({expression}));"]
    done = subprocess.run(
        [NODE, "-"], input="\n".join(parts), capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
