"""From knobs to what is shown. Two threads compute, one for quick answers and one for fits: several tabs queue up instead of fighting for
cores and memory, nobody's slider waits for somebody's fit, and memory is allocated from two places instead of one per request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.explorer.live import advanced, current, total_steps
from attnscope.explorer.state import State, from_values
from attnscope.explorer.view import Shown
from attnscope.explorer.views.bags import bags
from attnscope.explorer.views.convergence import convergence
from attnscope.explorer.views.landscape import landscape
from attnscope.explorer.views.posterior import posterior
from attnscope.explorer.views.risk import risk
from attnscope.explorer.views.training import training

__all__ = ["RENDER", "answer", "shown"]

RENDER: dict[str, Callable[[State], Shown]] = {
    "landscape": landscape,
    "risk": risk,
    "training": training,
    "posterior": posterior,
    "convergence": convergence,
    "bags": bags,
}
QUICK, FITS = (ThreadPoolExecutor(1, thread_name_prefix=f"attnscope-{name}") for name in ("quick", "fits"))


@lru_cache(maxsize=16)  # some 16 MB
def shown(state: State) -> Shown:
    """What the state's view shows; the last few are kept for downloads and for going back and forth."""
    return RENDER[state.view](state)


def answer(view: str, values: list[tuple[str, object]], go_on: bool = True) -> tuple[State | None, Shown | None, str]:
    """(state, what it shows, "") or (None, None, one sentence). Training goes on by one piece, unless told not to."""
    state, sentences = from_values(view, values)
    if sentences:
        return None, None, " ".join(sentences)
    thread = FITS if view == "bags" else QUICK
    work: Callable[..., Any] = _trained if view == "training" else shown
    try:
        return state, thread.submit(work, *((state, go_on) if view == "training" else (state,))).result(), ""
    except AttnscopeError as error:
        return None, None, str(error)
    except Exception as error:  # a defect of ours: still one sentence in the page, and the rest in the terminal
        logging.getLogger("attnscope").exception("the computation behind /%s failed", view)
        return None, None, f"The computation behind this page failed ({type(error).__name__}: {str(error)[:120]})."


def _trained(state: State, go_on: bool) -> Shown:
    run = current(state)
    if run is None or (go_on and int(run.step[-1]) < total_steps(state)):
        run = advanced(state)
    return training(state, run)
