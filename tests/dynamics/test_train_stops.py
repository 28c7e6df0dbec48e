"""Where `train` stops or waits: Ctrl-C, divergence, pieces by the clock, the spinner."""

import _thread
import sys
import time

import numpy as np
import pytest
from helpers.patience import HANG

from attnscope.dynamics import loop
from attnscope.dynamics import train as train_module
from attnscope.dynamics import trajectory as trajectory_module
from attnscope.dynamics.engines.population_erf import PopulationErf
from attnscope.dynamics.train import train
from attnscope.predictors.attention import (
    Erf,
)
from attnscope.tasks.planted.single_location import SingleLocation

PAPER = SingleLocation(400, 10)


def use_engine(monkeypatch, make):
    """Let `train` and `extend` find this engine."""
    for module in (train_module, trajectory_module):
        monkeypatch.setattr(module, "engine_for", make)


class Interrupted(PopulationErf):
    """Ctrl-C (the real signal, at the next bytecode) when update `at` is reached."""

    at = 0

    def init(self, overlaps, seed=0):
        return super().init(overlaps) | {"done": np.array(0)}

    def advance(self, state, inverse_temperatures):
        done = int(state["done"]) + len(inverse_temperatures)
        if int(state["done"]) <= self.at < done:
            type(self).at = -1  # once
            _thread.interrupt_main()
        return super().advance(state, inverse_temperatures) | {"done": np.array(done)}


@pytest.mark.parametrize("at", [0, 130, 999])
def test_ctrl_c_keeps_what_was_logged(at, monkeypatch, capsys):
    whole = train(PAPER, Erf(0.3), runs=3, steps=1000, log_every=100)
    monkeypatch.setattr(Interrupted, "at", at)
    use_engine(monkeypatch, lambda setup: Interrupted(setup.task, setup.step_size))
    run = train(PAPER, Erf(0.3), runs=3, steps=1000, log_every=100)
    kept = at // 100 * 100
    assert run.step.tolist() == list(range(0, kept + 1, 100))
    said = capsys.readouterr().err
    assert (
        said
        == f"Interrupted; {kept} of 1000 steps are kept: go on with run.extend({1000 - kept}).\n"
    )
    rest = run.extend(1000 - kept)
    np.testing.assert_array_equal(rest.log, whole.log)
    np.testing.assert_array_equal(rest.step, whole.step)


def test_ctrl_c_in_an_extension_keeps_the_run(monkeypatch, capsys):
    run = train(PAPER, Erf(0.3), runs=3, steps=250, log_every=100)
    use_engine(monkeypatch, lambda setup: Stop())

    class Stop:
        def advance(self, state, inverse_temperatures):
            raise KeyboardInterrupt

    again = run.extend(100)
    assert again.step.tolist() == [0, 100, 200, 250]
    assert "go on with run.extend(100)" in capsys.readouterr().err


class Exploding:
    """Run i is lost by update 10 (i + 1) - i; the others count their updates in kappa."""

    def init(self, overlaps, seed):
        return {"t": np.zeros(overlaps.shape[1])}

    def advance(self, state, inverse_temperatures):
        return {"t": state["t"] + len(inverse_temperatures)}

    def overlaps(self, state):
        t, i = state["t"], np.arange(len(state["t"]))
        kappa = np.where((t >= 10 * (i + 1) - i) & (i < 3), np.nan, t / 100)
        return np.array([kappa, *np.zeros((4, len(t)))])


def test_divergence_is_an_outcome_with_its_step(monkeypatch):
    use_engine(monkeypatch, lambda setup: Exploding())
    run = train(PAPER, Erf(0.1), runs=4, steps=40, log_every=8)
    assert run.diverged_at.tolist() == [10, 19, 28, -1]
    assert run.outcome.tolist() == ["diverged", "diverged", "diverged", "undecided"]
    held = (
        np.array(
            [
                [0, 8, 8, 8, 8, 8],
                [0, 8, 16, 16, 16, 16],
                [0, 8, 16, 24, 24, 24],
                [0, 8, 16, 24, 32, 40],
            ]
        )
        / 100
    )
    np.testing.assert_array_equal(run.overlaps.kappa, held)
    assert np.isfinite(run.excess).all() and np.isfinite(run.to_frame().to_numpy()).all()
    assert "3 of 4 runs end diverged, between steps 10 and 28" in " ".join(run.diagnose())
    longer = run.extend(8)
    assert (
        longer.diverged_at.tolist() == [10, 19, 28, -1]
        and longer.overlaps.kappa[0, -1] == 0.08
    )


def test_pieces_follow_the_clock(monkeypatch):
    """Slow engines get short pieces, fast ones long pieces, and the steps are all there."""
    clock = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    seen = []

    class Timed:
        cost = 0.0

        def advance(self, state, inverse_temperatures):
            seen.append(len(inverse_temperatures))
            clock[0] += self.cost * len(inverse_temperatures)
            return state

    for cost, expected in ((0.0, lambda: max(seen) >= 2**12), (1.0, lambda: seen[-1] == 1)):
        seen.clear()
        Timed.cost = cost
        loop.Walker(Timed(), 0.1, loop.Bar()).walk({}, 0, 10_000)
        assert sum(seen) == 10_000 and expected()


def test_the_spinner_explains_a_long_first_call(monkeypatch, capfd):
    """On a terminal only; nothing is printed when the call is quick."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(loop, "SPINNER_DELAY_SECONDS", 0.05)
    with loop._spinner("compiling, once"):
        deadline = time.monotonic() + HANG
        while (
            "compiling, once" not in (said := capfd.readouterr().err)
            and time.monotonic() < deadline
        ):
            pass
    assert "compiling, once" in said
    monkeypatch.setattr(loop, "SPINNER_DELAY_SECONDS", 3600.0)
    capfd.readouterr()
    with loop._spinner("compiling, once"):
        pass
    assert capfd.readouterr().err == ""
