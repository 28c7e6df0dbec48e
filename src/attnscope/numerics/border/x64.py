"""float64 without touching the user's JAX configuration.

JAX computes in float32 unless told otherwise, and the switch is global. Every public function that
uses JAX opens the context below, which is local to the thread, converts its inputs inside it and
returns NumPy arrays: a float64 JAX array that leaves the context would be downcast silently by the
next operation.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

__all__ = ["x64"]


def x64() -> AbstractContextManager[None]:
    """Context in which JAX computes in float64, whatever the user's global setting."""
    import jax

    return jax.enable_x64(True)
