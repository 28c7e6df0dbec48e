"""Ctrl-C while compiled threads work: raised at once, not after what they compute."""

import signal
import threading

import pytest

from attnscope.numerics.compiled import run_tiles


@pytest.mark.skipif(run_tiles.config.NUMBA_NUM_THREADS < 2, reason="one thread")
def test_an_interrupt_does_not_wait_for_the_threads():
    begun, go_on = threading.Event(), threading.Event()
    left = []

    def work(begin, end):
        begun.set()
        go_on.wait()
        left.append((begin, end))

    def interrupt():
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tiles.share(work, 8, seconds=1.0)
        assert left == []  # nobody has finished, and nobody was waited for
    finally:
        go_on.set()


def test_every_tile_is_covered_once_and_errors_are_raised():
    seen = []
    run_tiles.share(lambda begin, end: seen.extend(range(begin, end)), 7, seconds=1.0)
    assert sorted(seen) == list(range(7))

    def fails(begin, end):
        raise ValueError("of a thread")

    with pytest.raises(ValueError, match="of a thread"):
        run_tiles.share(fails, 7, seconds=1.0)
