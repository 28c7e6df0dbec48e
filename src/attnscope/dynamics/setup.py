"""Everything that determines a training run except its length: what is saved to a file and what an
engine is built from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attnscope.predictors.attention import Predictor
from attnscope.predictors.heads import MultiHead

__all__ = ["HeadSetup", "Setup"]


@dataclass(frozen=True)
class Setup:
    """Of one head on five overlaps."""

    task: Any  # a planted task
    predictor: Predictor
    step_size: float
    log_every: int
    seed: int
    batch_size: int | None
    engine: str
    swap_move: bool


@dataclass(frozen=True)
class HeadSetup:
    """Of several heads."""

    swap_move: ClassVar[bool] = False  # which head would be exchanged with which is not known

    task: Any  # a planted task
    predictor: MultiHead
    step_size: float
    log_every: int
    seed: int
    batch_size: int | None
    engine: str
    constraint: str
