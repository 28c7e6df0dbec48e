"""What the tab key offers, by the protocol of the shells, and that it stays light."""

import subprocess
import sys

import pytest

from attnscope.cli.completion import claim_ids
from attnscope.registry import PREDICTORS, TASKS

HEAVY = ("jax", "numpy", "scipy", "sklearn", "matplotlib", "rich")


def completed(line, shell="bash"):
    """The words offered after this line."""
    words = line.split(" ")
    names = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    environment = {"_ATTNSCOPE_COMPLETE": f"complete_{shell}", **names}
    code = (
        f"import os; os.environ.update({environment!r})\n"
        "import sys; sys.argv = ['attnscope']\n"
        "from attnscope.cli import app\n"
        "try:\n    app(prog_name='attnscope')\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split(), run.stderr.strip()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("attnscope risk --task s", [w for w in TASKS if w.startswith("s")]),
        ("attnscope train --predictor ", list(PREDICTORS)),
        ("attnscope show slr-13", ["slr-13-swapped-beats-oracle"]),
        ("attnscope reproduce --only exch-04", None),
        ("attnscope risk --task topics --with em", ["emissions="]),
        ("attnscope repr", ["reproduce"]),
    ],
)
def test_the_shell_gets_the_words(line, words):
    found, heavy = completed(line)
    assert found == words if words else all(word.startswith("exch-04") for word in found)
    assert found and heavy == "[]"


def test_claims_are_named_by_their_files():
    from attnscope.claims.registry import own_claims

    assert claim_ids() == sorted(claim.id for claim in own_claims())
