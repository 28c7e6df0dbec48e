"""The modules of bench/estimators, which is no package:
on the path, and their names taken, only while a test file uses them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "estimators"
NAMES = sorted(path.stem for path in BENCH.glob("*.py"))


@contextmanager
def bench_modules() -> Iterator[SimpleNamespace]:
    """All of them by name; afterwards path, environment and sys.modules are as before."""
    with pytest.MonkeyPatch.context() as patch:
        # bench_estimators sets it where it is absent
        patch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        patch.syspath_prepend(BENCH)
        assert not set(NAMES) & set(sys.modules)
        try:
            yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
        finally:
            for name in NAMES:
                sys.modules.pop(name, None)
