"""Where things are, for tests that read the repository's own files."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DATA = TESTS / "data"
DOCS = ROOT / "docs"
