"""What a shell completes after the tab key: claims, tasks, predictors, arguments of --with, and
options whose values are a few words.

Nothing heavy is imported: claims are named by their files. Tasks and predictors of plugins are left
out, since they would have to be loaded to be named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnscope.registry import PREDICTORS, TASKS

__all__ = ["arguments", "claim_ids", "claims", "predictors", "some_of", "tasks"]


def claim_ids() -> list[str]:
    """Every claim that can be asked for: those of packages by the names of their files."""
    from attnscope.claims.registry import listed_claims

    return sorted(listed_claims().claims)


def claims(incomplete: str) -> list[str]:
    """Ids that begin as typed."""
    return [name for name in claim_ids() if name.startswith(incomplete)]


def tasks(incomplete: str) -> list[tuple[str, str]]:
    """Words of tasks, each with what it is."""
    return [(w, row.label) for w, row in TASKS.items() if w.startswith(incomplete)]


def predictors(incomplete: str) -> list[tuple[str, str]]:
    """Words of predictors, each with what it is."""
    return [(w, row.label) for w, row in PREDICTORS.items() if w.startswith(incomplete)]


def arguments(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
    """name= of the arguments that the task and the predictor typed so far have."""
    typed = ctx.params
    rows = [TASKS.get(typed.get("task") or ""), PREDICTORS.get(typed.get("predictor") or "")]
    found = {f"{a.name}=": a.label for row in rows if row for a in row.arguments}
    return [(name, label) for name, label in found.items() if name.startswith(incomplete)]


def some_of(*words: str) -> Callable[[str], list[str]]:
    """These words."""

    def chosen(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return chosen
