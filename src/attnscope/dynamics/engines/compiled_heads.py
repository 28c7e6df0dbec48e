"""SGD of heads of softmax or erf behind the engine contract: the loop of sgd_heads.py.

State: "gram" (runs, n, n) of (k_1, v_1, ..., k_1*, v_1*, ...) and "generators" (runs, 4), one
random stream per run. A state with "keys" comes from a file that GenericSgd wrote: that
engine continues it, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.engines.gram_engine import GramSgd
from attnscope.dynamics.engines.head_sums import ERF, SOFTMAX, SOFTMAX_ONE
from attnscope.dynamics.engines.sgd_heads import heads_steps
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.fast_normal import seed_generators
from attnscope.predictors.attention import Erf, Predictor, Softmax, SoftmaxOne
from attnscope.theory.risks.multi_head_risk import Task

if TYPE_CHECKING:
    from attnscope.dynamics.engines.gram_sgd import GenericSgd

__all__ = ["KINDS", "CompiledSgd"]

KINDS: dict[type, int] = {Softmax: SOFTMAX, SoftmaxOne: SOFTMAX_ONE, Erf: ERF}


class CompiledSgd(GramSgd):
    """SGD of `heads` heads of one of KINDS with squared loss, in the law of GenericSgd.

    Args:
        task: a SingleLocation, or a MultiDirection with distinct positions.
        head: gives the kind; inverse temperatures come with every call of `advance`.
        constraint: "sphere" (unit vectors) or "free".
    """

    def __init__(
        self,
        task: Task,
        head: Predictor,
        step_size: float,
        batch_size: int,
        *,
        heads: int = 1,
        informative: int = 1,
        constraint: str = "sphere",
    ) -> None:
        if type(head) not in KINDS:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise bad("head", "CompiledSgd", f"one of {known}", head, "GenericSgd(task, ...)")
        self.head = head
        self.heads = check.integer(heads, "heads", "CompiledSgd", 1)
        super().__init__(task, step_size, batch_size, 2 * self.heads, informative, constraint)
        self._older: GenericSgd | None = None

    def _fresh_state(self, grams: np.ndarray, seed: int) -> State:
        return {"gram": grams, "generators": seed_generators(seed, len(grams))}

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        if "keys" in state:
            return self._generic_engine().advance(state, inverse_temperatures)
        task = self.task
        gram, generators = heads_steps(
            state["gram"],
            state["generators"],
            inverse_temperatures,
            KINDS[type(self.head)],
            self.heads,
            step_size=self.step_size,
            batch_size=self.batch_size,
            length=task.length,
            gamma=task.gamma,
            signal=task.signal,
            noise=task.noise,
            sphere=self.sphere,
            freedom=self.freedom,
            spread=self.spread,
        )
        return {"gram": gram, "generators": generators}

    def _generic_engine(self) -> GenericSgd:
        """Created once, because JAX takes seconds to compile a step."""
        from attnscope.dynamics.engines.gram_sgd import GenericSgd
        from attnscope.dynamics.engines.losses import squared_loss

        if self._older is None:
            self._older = GenericSgd(
                self.task,
                squared_loss(self.head, self.heads),
                self.step_size,
                self.batch_size,
                parameters=self.parameters,
                informative=self.informative,
                constraint="sphere" if self.sphere else "free",
            )
        return self._older
