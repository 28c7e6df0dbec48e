"""Which engine serves which setup: the most special one that is exact for it.

For one head `engine_for`, with a row of ENGINES per kind of task that has engines of its own (found
once per class and cached); for several heads `heads_engine`. Engines are imported when they are
chosen: each brings its own library (compiled loops, JAX).
"""

from __future__ import annotations

from collections.abc import Callable

from attnscope.dynamics.engines.engine import GramEngine, OverlapEngine
from attnscope.dynamics.setup import HeadSetup, Setup
from attnscope.errors import bad
from attnscope.predictors.attention import Erf, LinearAttention, Softmax, SoftmaxOne
from attnscope.tasks.base import has_classes, is_defined, laws_of_class, per_class
from attnscope.tasks.planted.definition_checks import check_one_number
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.multi_head_risk import distinct_tokens

__all__ = ["COMPILED", "COMPILED_POPULATION", "ENGINES", "engine_for", "heads_engine"]


def engine_for(setup: Setup) -> OverlapEngine:
    """The engine of one head: from the row of its task, or from what every planted task has."""
    return _engine_choice(type(setup.task))(setup)


@per_class
def _engine_choice(task: type) -> Callable[[Setup], OverlapEngine]:
    """The row of ENGINES of the most special class of the task."""
    rows = (ENGINES[kind] for kind in laws_of_class(task) if kind in ENGINES)
    return next(rows, planted_engine)


def single_location_engine(setup: Setup) -> OverlapEngine:
    """Compiled loops for Erf with orthogonal key and value, for linear attention and for SGD of
    COMPILED_HEADS; JAX or exact gradients for the rest.
    """
    task = setup.task
    predictor = setup.predictor
    alpha = setup.step_size
    batch = setup.batch_size
    compiled = type(predictor) in COMPILED and task.alignment == 0
    if setup.engine == "full":
        from attnscope.dynamics.engines.full_vectors import FullPopulation, FullSgd

        return (
            FullPopulation(task, predictor, alpha)
            if batch is None
            else FullSgd(task, predictor, alpha, batch)
        )
    if batch is None and compiled:
        from attnscope.dynamics.engines.population_erf import PopulationErf

        return PopulationErf(task, alpha)
    if batch is None and type(predictor) is LinearAttention:
        from attnscope.dynamics.engines.population_linear import PopulationLinear

        return PopulationLinear(task, predictor, alpha)
    if batch is None:
        from attnscope.dynamics.engines.population_exact import PopulationExact

        return PopulationExact(task, predictor, alpha)
    if task.dim < 4:
        got = (
            f"dim={task.dim}, where the vectors k, v, k*, v* do not leave room for the law in "
            "overlaps"
        )
        raise bad(
            "dim",
            "train(batch_size=...)",
            'an integer >= 4 with engine="reduced"',
            got,
            'engine="full"',
        )
    if compiled:
        from attnscope.dynamics.engines.sgd_erf import SgdErf

        return SgdErf(task, alpha, batch)
    if type(predictor) in COMPILED_HEADS:
        from attnscope.dynamics.engines.compiled_heads import CompiledSgd

        return CompiledSgd(task, predictor, alpha, batch)
    from attnscope.dynamics.engines.gram_sgd import GenericSgd
    from attnscope.dynamics.engines.losses import squared_loss

    return GenericSgd(task, squared_loss(predictor), alpha, batch)


def planted_engine(setup: Setup) -> OverlapEngine:
    """Any other planted task: its exact gradient or that of its nodes, SGD in law from its
    projections, or on its tokens.
    """
    task = setup.task
    predictor = setup.predictor
    alpha = setup.step_size
    batch = setup.batch_size
    loss = "logistic" if has_classes(task) else getattr(task, "loss", "squared")
    if is_defined(task):
        check_one_number(task)
    if batch is None and (has_classes(task) or setup.engine == "full"):
        got = (
            f"None for {predictor!r} on {type(task).__name__} with engine={setup.engine!r}, "
            "which has no population gradient"
        )
        raise bad("batch_size", "train", "an integer", got, "batch_size=5")
    if batch is None:
        from attnscope.dynamics.engines.population_exact import PopulationExact

        return PopulationExact(task, predictor, alpha)
    if setup.engine == "full":
        from attnscope.dynamics.engines.full_planted import FullPlanted

        return FullPlanted(task, predictor, alpha, batch, loss=loss)
    from attnscope.dynamics.engines.planted_sgd import PlantedSgd

    return PlantedSgd(task, predictor, alpha, batch, loss=loss)


ENGINES: dict[type, Callable[[Setup], OverlapEngine]] = {
    SingleLocation: single_location_engine
}
# predictors with a compiled loop of their own, population gradient included
COMPILED = (Erf,)
# those whose population gradient is
COMPILED_POPULATION = (Erf, LinearAttention)
# those whose SGD is compiled, in any number of heads
COMPILED_HEADS = (Erf, Softmax, SoftmaxOne)


def heads_engine(setup: HeadSetup) -> GramEngine:
    """The engine of several heads: descent on nodes without batches; in law where each pair of
    teachers has a token, else by projections.
    """
    head = setup.predictor.head
    heads = setup.predictor.heads
    task = setup.task
    alpha = setup.step_size
    batch = setup.batch_size
    loss = getattr(task, "loss", "squared")
    if is_defined(task):
        check_one_number(task)
    if batch is None and setup.engine == "full":
        got = "None with engine='full', which has no population gradient of several heads"
        raise bad("batch_size", "train", "an integer", got, "batch_size=5")
    if batch is None:
        from attnscope.dynamics.engines.population_gram import PopulationGram

        return PopulationGram(task, setup.predictor, alpha, setup.constraint)
    alone = distinct_tokens(task, setup.predictor)
    if setup.engine == "full" and not hasattr(task, "directions") and not alone:
        from attnscope.dynamics.engines.full_planted import FullPlanted

        return FullPlanted(
            task, head, alpha, batch, heads=heads, constraint=setup.constraint, loss=loss
        )
    if setup.engine == "full":
        from attnscope.dynamics.engines.full_heads import FullHeads

        return FullHeads(task, setup.predictor, alpha, batch, setup.constraint)
    if not alone:
        from attnscope.dynamics.engines.planted_sgd import PlantedSgd

        return PlantedSgd(
            task, head, alpha, batch, heads=heads, constraint=setup.constraint, loss=loss
        )
    informative = len(task.teacher_gram) // 2
    if type(head) in COMPILED_HEADS:
        from attnscope.dynamics.engines.compiled_heads import CompiledSgd

        return CompiledSgd(
            task,
            head,
            alpha,
            batch,
            heads=heads,
            informative=informative,
            constraint=setup.constraint,
        )
    from attnscope.dynamics.engines.gram_sgd import GenericSgd
    from attnscope.dynamics.engines.losses import squared_loss

    numbers = {"parameters": 2 * heads, "informative": informative}
    return GenericSgd(
        task, squared_loss(head, heads), alpha, batch, constraint=setup.constraint, **numbers
    )
