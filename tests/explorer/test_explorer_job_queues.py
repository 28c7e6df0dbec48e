"""One client's long computation holds up nobody: events decide, not the clock."""

import threading

import pytest

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.errors import AttnscopeError
from attnscope_explorer import compute as answers
from attnscope_explorer import job_queues as lanes
from attnscope_explorer.callbacks import PARTS, STILL_COMPUTING, _waiting_parts
from attnscope_explorer.job_queues import Lane
from attnscope_explorer.state import default_state
from attnscope_explorer.views.training import training

LONG = 300.0  # seconds: only a defect waits so long


@pytest.fixture
def impatient(monkeypatch):
    """Every job that is looked at while it runs is overdue, and is looked at often."""
    monkeypatch.setattr(lanes, "HANDOVER_SECONDS", 0.0)
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.01)


class Held:
    """Work that lasts until it is let go."""

    def __init__(self, value):
        self.value = value
        self.begun = threading.Event()
        self.go = threading.Event()
        self.times = 0

    def __call__(self):
        self.times += 1
        self.begun.set()
        assert self.go.wait(LONG)
        return self.value


def test_a_long_job_is_set_aside_and_found_again(impatient):
    lane = Lane("test", spare=2)
    heavy = Held("heavy")
    # answered within its time, with nothing yet
    assert lane.ask("a", heavy, wait=0.02) is None
    # while the heavy one still runs
    assert lane.ask("b", lambda: "quick", LONG).result() == "quick"
    assert heavy.begun.is_set() and not heavy.go.is_set()
    assert lane.ask("a", heavy, wait=0.02) is None
    heavy.go.set()
    assert lane.ask("a", heavy, LONG).result() == "heavy" and heavy.times == 1
    assert lane.aside == 0 and not lane.jobs


def test_with_no_thread_to_spare_requests_still_come_back_in_time(impatient):
    lane = Lane("test", spare=2)
    works = [Held(i) for i in range(3)]
    assert [lane.ask(i, work, wait=0.05) for i, work in enumerate(works)] == [None] * 3
    assert works[2].begun.wait(LONG)
    # the queue waits, the request does not
    assert lane.ask("quick", lambda: "quick", wait=0.05) is None
    works[0].go.set()
    assert lane.ask("quick", lambda: "quick", LONG).result() == "quick"
    for work in works:
        work.go.set()
    assert [lane.ask(i, work, LONG).result() for i, work in enumerate(works)] == [0, 1, 2]


def test_jobs_run_one_after_the_other_as_long_as_they_are_short():
    lane = Lane("test", spare=3)
    running = []
    most = []

    def work():
        running.append(1)
        most.append(len(running))
        running.pop()
        return threading.current_thread().name

    threads = [threading.Thread(target=lane.ask, args=(i, work, LONG)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1} and len(most) == 30


def test_errors_are_kept_for_whoever_asks_again(impatient):
    lane = Lane("test", spare=1)
    heavy = Held(None)

    def fails():
        heavy()
        raise AttnscopeError("refused.")

    assert lane.ask("a", fails, wait=0.02) is None
    heavy.go.set()
    with pytest.raises(AttnscopeError, match="refused"):
        lane.ask("a", fails, LONG).result()
    assert heavy.times == 1


def test_finished_jobs_nobody_asks_for_are_forgotten(impatient, monkeypatch):
    monkeypatch.setattr(lanes, "KEPT_JOBS", 2)
    lane = Lane("test", spare=1)
    for i in range(6):
        heavy = Held(i)
        assert lane.ask(i, heavy, wait=0.02) is None
        heavy.go.set()
        lane.ask(f"after {i}", lambda: None, LONG)
    assert len(lane.jobs) <= 4


def test_a_second_client_is_answered_while_training_of_another_runs(impatient, monkeypatch):
    """Through `answer`, as the page asks: heavy asked, told to come back, the other answered,
    heavy let go, heavy answered.
    """
    events = []
    heavy = Held("the first step")
    step = training(default_state("training").changed(runs=1, steps=10))

    def trained(state, go_on):
        heavy()
        events.append("the heavy step ends")
        return step

    monkeypatch.setattr(answers, "QUICK_LANE", Lane("test", spare=3))
    monkeypatch.setattr(answers, "_training_view", trained)
    values = [
        ("batch", 1000),
        ("length", 1000),
        ("runs", 50),
        ("steps", 200_000),
        ("dim", 10**6),
    ]
    state, what, words = answers.answer("training", values, wait=0.02)
    assert (state.batch, what, words) == (1000, None, "")
    other = answers.answer("posterior", [("dim", 8)], wait=LONG)
    events.append("the other is answered")
    assert other[1] is not None
    heavy.go.set()
    assert answers.answer("training", values, wait=LONG)[1] is step
    assert events == ["the other is answered", "the heavy step ends"]


def test_what_is_not_ready_says_so_and_has_the_page_ask_again():
    first, second = (
        dict(zip([name for name, _ in PARTS], _waiting_parts(fresh=True))) for _ in range(2)
    )
    assert (
        first["note"] == STILL_COMPUTING and first["lived"]["done"] < first["lived"]["total"]
    )
    assert first["lived"] != second["lived"]
