"""Shared test configuration: one thread per process for linear algebra, deterministic hypothesis,
Ctrl-C that arrives.
"""

import os
import signal
import threading

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

if threading.current_thread() is threading.main_thread():
    # a job started in the background inherits "ignore SIGINT" and hands it to its children: tests
    # of Ctrl-C need the default
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import HealthCheck, settings

# derandomize: the same examples every time, so that a red run can be repeated; no deadline: timings
# never decide a test
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
settings.load_profile("fixed")
