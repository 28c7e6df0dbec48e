"""Compute in float64 without changing the user's JAX configuration.

JAX computes in float32 by default, and the switch is global. Every public function that
uses JAX opens the context below, which is local to the thread, converts its inputs inside it and
returns NumPy arrays: a float64 JAX array that leaves the context would be downcast silently by the
next operation. Inside the package that is `computed_x64`, which also works inside jax.jit.

JAX runs threads, which a forked process does not inherit: a computation there would wait for them
for ever. A process that was forked after JAX had started gets an error that says what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from attnscope.errors import AttnscopeError
from attnscope.optional import needs

__all__ = ["computed_x64", "x64"]


def x64() -> AbstractContextManager[None]:
    """Context in which JAX computes in float64, whatever the user's global setting.

    >>> import attnscope as at
    >>> import numpy as np
    >>> import jax.numpy as jnp
    >>> with at.x64():
    ...     print(jnp.ones(2).dtype)
    float64
    """
    needs("jax", "x64")
    import jax

    if _BEGUN.setdefault("process", os.getpid()) != os.getpid():
        raise AttnscopeError(
            "JAX must run in the process that began with it, got one that was forked from there; "
            'try multiprocessing.get_context("spawn"), or at.sweep with workers=.'
        )
    return jax.enable_x64(True)


@contextmanager
def computed_x64() -> Iterator[None]:
    """`x64` for computations with plain numbers that return NumPy arrays. They run at once even where
    the caller is inside jax.jit, which would otherwise defer them.
    """
    needs("jax", "this computation")
    import jax

    with x64(), jax.ensure_compile_time_eval():
        yield


_BEGUN: dict[str, int] = {}  # the process that first computed with JAX here
