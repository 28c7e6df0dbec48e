"""Loops compiled to machine code by numba, and the functions they share.

In reading order: `checked_cache` (stored machine code), `numba_flags` (options of the compiler),
`run_tiles` (runs side by side in vector lanes), `tile_loop` (what loops over them share),
`fast_erf`, `fast_normal` (functions without branches), `lane_algebra` (small matrices of many runs),
`data_pass` with `bag_losses` (one read of all tokens of all bags), `witness_pass`, `cosines`,
`memory_scan` (linear memories and the Kalman filter), `softmax_prox` and `linear_prox` (one bag of a
ridge fit, minimised).
"""

from attnscope.lazy_namespace import lazy_namespace
from attnscope.numerics.compiled.checked_cache import check_caches

check_caches()  # before a module of this package compiles anything
__getattr__, __dir__ = lazy_namespace(__name__)
