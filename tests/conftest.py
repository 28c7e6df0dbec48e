"""Shared test configuration: one thread per process for linear algebra, deterministic hypothesis,
Ctrl-C that arrives, compiled JAX functions that are shared, shares of the slow tests.
"""

import getpass
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# as in the worker processes of `attnscope reproduce`: sums of float32 training depend on the threads
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
if ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()

# what one worker, subprocess or earlier run has compiled, the next one reads: most of the seconds of
# tests of JAX engines are compilation; the key of an entry names program, versions and machine
JAX_CACHE = Path(tempfile.gettempdir()) / f"attnscope-tests-{getpass.getuser()}"
JAX_SETTINGS = {
    "JAX_COMPILATION_CACHE_DIR": str(JAX_CACHE),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02",  # below, reading is no quicker
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
for name, value in JAX_SETTINGS.items():
    os.environ.setdefault(name, value)

if threading.current_thread() is threading.main_thread():
    # a job started in the background inherits "ignore SIGINT" and hands it to its children: tests
    # of Ctrl-C need the default
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from helpers import slow_shares
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


def pytest_addoption(parser):
    parser.addoption(
        "--slow-share",
        help="leave out all slow tests but one share: 2/5, or auto for this commit's fifth",
    )


def pytest_configure(config):
    text = config.getoption("--slow-share")
    try:
        config.slow_share = slow_shares.parse(text) if text else None
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config):
    return f"slow tests: share {config.slow_share}" if config.slow_share else None


# after tests/claims/conftest.py has marked its tests
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    share = config.slow_share
    if share is None:
        return
    left_out = [
        item
        for item in items
        if item.get_closest_marker("slow") and not share.holds(item.nodeid)
    ]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def pytest_sessionfinish(session, exitstatus):
    """Tests kill processes at random moments, which may leave half an entry in the cache: a run
    that was not green does not hand it on.
    """
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    if exitstatus != 0 and not in_worker:
        shutil.rmtree(JAX_CACHE, ignore_errors=True)
