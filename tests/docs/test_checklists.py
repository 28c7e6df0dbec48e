"""What docs/checklists.md and RELEASING.md point to is there: files, pages, targets of make and
extras.
"""

import re
import tomllib

import pytest
from helpers.paths import ROOT

CHECKLISTS = ROOT / "docs" / "checklists.md"
RELEASING = ROOT / "RELEASING.md"
# a name with a folder or an ending, or one in capitals, is a file of the repository
FILE = re.compile(r"(?:[\w.-]+/)+[\w.-]+|[\w-]+\.(?:md|toml|txt|cff|bib|py)|[A-Z]{4,}")
pytestmark = pytest.mark.skipif(not CHECKLISTS.exists(), reason="not part of the wheel")
MADE = "generated/"  # pages that the build of the site writes (docs/_ext/api.py)


def spans(page):
    return re.findall(r"`([^`]+)`", page.read_text())


def files(page):
    """Files named in backticks, also as arguments of a command."""
    words = [word for span in spans(page) for word in span.split()]
    named = [word for word in words if FILE.fullmatch(word) and "X_Y_Z" not in word]
    return sorted(set(named))


def targets(page):
    return sorted(set(re.findall(r"\bmake ([a-z-]+)", " ".join(spans(page)))))


@pytest.mark.parametrize("page", [CHECKLISTS, RELEASING], ids=lambda page: page.name)
def test_files_and_targets_are_there(page):
    assert len(files(page)) >= 6
    missing = [name for name in files(page) if not (ROOT / name).exists()]
    assert not missing, missing
    makefile = (ROOT / "Makefile").read_text()
    unmade = [name for name in targets(page) if f"\n{name}:" not in makefile]
    assert not unmade, unmade


def test_every_item_of_the_checklists_points_somewhere():
    lines = CHECKLISTS.read_text().splitlines()
    rows = [line.strip("|").split("|", 1) for line in lines if line.startswith("| ")][1:]
    assert len(rows) >= 12
    for item, where in rows:
        assert "`" in where or "](" in where or "README" in where, item
        for link in re.findall(r"\]\(([^)]+)\)", where):
            made = link.startswith(MADE) and (ROOT / "docs" / "_ext" / "api.py").exists()
            assert made or (CHECKLISTS.parent / link).exists(), link


def test_extras_are_declared():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = declared["project"]["optional-dependencies"].keys()
    row = next(x for x in CHECKLISTS.read_text().splitlines() if "extras" in x)
    named = re.findall(r"`(\w+)`", row.split("extras")[1])
    assert named and set(named) <= known, named
