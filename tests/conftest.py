"""Shared test configuration: one thread per process for linear algebra, deterministic hypothesis."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import HealthCheck, settings

# derandomize: the same examples every time, so that a red run can be repeated; no deadline: timings never decide a test
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
settings.load_profile("fixed")
