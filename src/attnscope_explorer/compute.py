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
from attnscope_explorer.live import advanced, current, total_steps
from attnscope_explorer.view_result import Shown
from attnscope_explorer.state import State, from_values
from attnscope_explorer.views.bags import bags
from attnscope_explorer.views.convergence import convergence
from attnscope_explorer.views.landscape import landscape
from attnscope_explorer.views.posterior import posterior
from attnscope_explorer.views.risk import risk
from attnscope_explorer.views.samples import samples
from attnscope_explorer.views.training import training

__all__ = ["FITS", "QUICK", "RENDER", "answer", "shown"]

RENDER: dict[str, Callable[[State], Shown]] = {
    "landscape": landscape,
    "risk": risk,
    "training": training,
    "posterior": posterior,
    "convergence": convergence,
    "samples": samples,
    "bags": bags,
}
# Computations set aside at once: each takes memory, and cores are few
QUICK = Lane("quick", spare=3)
FITS = Lane("fits", spare=1)


@lru_cache(maxsize=16)  # some 16 MB
def shown(state: State) -> Shown:
    """What the state's view shows; the last few are kept for downloads and for going back and
    forth.
    """
    return RENDER[state.view](state)


def answer(
    view: str, values: list[tuple[str, object]], go_on: bool = True, wait: float | None = None
) -> tuple[State | None, Shown | None, str]:
    """(state, what it shows, ""), or (state, None, "") if `wait` seconds were not enough: ask
    again.

    (None, None, sentences) where a knob's text cannot be used; (state, None, one sentence) where
    nothing can be shown for knobs that can.

    Training goes on by one piece, unless told not to.
    """
    state, sentences = from_values(view, values)
    if sentences:
        return None, None, " ".join(sentences)
    lane = FITS if view == "bags" else QUICK
    try:
        job = lane.ask((state, go_on), lambda: _work(state, go_on), wait)
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


def _work(state: State, go_on: bool) -> Shown:
    return _trained(state, go_on) if state.view == "training" else shown(state)


def _trained(state: State, go_on: bool) -> Shown:
    run = current(state)
    if run is None or (go_on and int(run.step[-1]) < total_steps(state)):
        run = advanced(state)
    return training(state, run)
