"""The papers, a file each or a file for a few that belong together, and one row below.

A file has PAPERS (key: Paper) and STATEMENTS ("key/word": Statement). Reading order: paper.py (what
both are), then the files in the order of ROWS, which is the order of the coverage page.
"""

from __future__ import annotations

from attnscope.claims.paper import Paper, Statement
from attnscope_claims.papers import (
    attention_tasks,
    context_and_decisions,
    exchangeability,
    heads_and_retrieval,
    positional,
    single_location,
    test_time_regression,
    topics_and_scaling,
)

__all__ = ["PAPERS", "STATEMENTS"]

ROWS = (
    single_location,
    exchangeability,
    attention_tasks,
    positional,
    test_time_regression,
    context_and_decisions,
    topics_and_scaling,
    heads_and_retrieval,
)

PAPERS: dict[str, Paper] = {}
STATEMENTS: dict[str, Statement] = {}
for row in ROWS:
    PAPERS |= row.PAPERS
    STATEMENTS |= row.STATEMENTS
