"""From knobs to what is shown. Two lanes compute, one for quick answers and one for fits: several
tabs queue up instead of fighting for cores and memory, nobody's slider waits for somebody's fit or
long computation (job_queues.py), and memory is allocated from few places.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from attnscope.errors import AttnscopeError
from attnscope_explorer.job_queues import Lane
from attnscope_explorer.live import advanced_run, current_run, total_steps
from attnscope_explorer.state import State, from_values
from attnscope_explorer.view_result import ViewResult
from attnscope_explorer.views.bags import bags
from attnscope_explorer.views.convergence import convergence
from attnscope_explorer.views.landscape import landscape
from attnscope_explorer.views.posterior import posterior
from attnscope_explorer.views.risk import risk
from attnscope_explorer.views.samples import samples
from attnscope_explorer.views.training import training

__all__ = ["FIT_LANE", "QUICK_LANE", "VIEW_FUNCTIONS", "answer", "cached_view"]

VIEW_FUNCTIONS: dict[str, Callable[[State], ViewResult]] = {
    "landscape": landscape,
    "risk": risk,
    "training": training,
    "posterior": posterior,
    "convergence": convergence,
    "samples": samples,
    "bags": bags,
}
# Computations set aside at once: each takes memory, and cores are few
QUICK_LANE = Lane("quick", spare=3)
FIT_LANE = Lane("fits", spare=1)


@lru_cache(maxsize=16)  # some 16 MB
def cached_view(state: State) -> ViewResult:
    """What the state's view shows; the last few are kept for downloads and for going back and
    forth.
    """
    return VIEW_FUNCTIONS[state.view](state)


def answer(
    view: str, values: list[tuple[str, object]], go_on: bool = True, wait: float | None = None
) -> tuple[State | None, ViewResult | None, str]:
    """(state, what it shows, ""), or (state, None, "") if `wait` seconds were not enough: ask
    again.

    (None, None, sentences) where a knob's text cannot be used; (state, None, one sentence) where
    nothing can be shown for knobs that can.

    Training goes on by one piece, unless told not to.
    """
    state, sentences = from_values(view, values)
    if sentences:
        return None, None, " ".join(sentences)
    lane = FIT_LANE if view == "bags" else QUICK_LANE
    try:
        job = lane.ask((state, go_on), lambda: _view_of(state, go_on), wait)
        return state, None if job is None else job.result(), ""
    except AttnscopeError as error:
        return state, None, str(error)
    except Exception as error:  # a defect of ours: still one sentence in the page, and the rest in the terminal
        logging.getLogger("attnscope").exception("the computation behind /%s failed", view)
        return (
            state,
            None,
            f"The computation behind this page failed ({type(error).__name__}: "
            f"{str(error)[:120]}).",
        )


def _view_of(state: State, go_on: bool) -> ViewResult:
    return _training_view(state, go_on) if state.view == "training" else cached_view(state)


def _training_view(state: State, go_on: bool) -> ViewResult:
    run = current_run(state)
    if run is None or (go_on and int(run.step[-1]) < total_steps(state)):
        run = advanced_run(state)
    return training(state, run)
