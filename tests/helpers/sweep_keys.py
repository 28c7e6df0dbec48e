"""The key of one cell."""

from __future__ import annotations

from attnscope.sweeps.run import plan_cells

__all__ = ["one_key"]


def one_key(function, parameters, seed=0, version=""):
    return plan_cells(function, [parameters], seed, version)[0].key
