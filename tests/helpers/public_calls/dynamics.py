"""Calls of training, its engines and its results."""

from functools import cache, partial

import numpy as np

import attnscope as at
from helpers.public_calls.examples import (
    BATCH,
    CONTEXTS,
    INSIDE,
    KEY,
    LINEAR,
    MASK,
    PARAMETERS,
    POSITIONAL,
    SIMPLE,
    START,
    TASK,
    TOKENS,
    VALUE,
    WIDE,
    add,
    later,
)
from helpers.public_calls.theory import HEAD


def bayes(contexts):
    return np.stack(
        [LINEAR.bayes_predict(contexts.queries[:, 0], contexts.keys, contexts.values)], axis=1
    )


RUN = {"runs": 2, "steps": 2, "log_every": 1, "batch_size": 2, "step_size": 0.01, "seed": 0}
add("train", at.train, **HEAD, start=INSIDE, **RUN, progress=False)
add(
    "train (heads)",
    at.train,
    task=WIDE,
    predictor=at.MultiHead(at.Erf(0.3)),
    start=(np.eye(8)[:2], np.eye(8)[2:4]),
    **RUN,
    progress=False,
)
add(
    "gradient_flow",
    at.gradient_flow,
    **HEAD,
    start=INSIDE,
    times=[0.0, 0.5],
    runs=1,
    seed=0,
    tolerance=1e-8,
)
add("escape_time", at.escape_time, **HEAD, step_size=0.01, overlaps=INSIDE, level=0.8)
add("predicted_rate", at.predicted_rate, **HEAD, step_size=0.01)
add(
    "message_passing",
    at.message_passing,
    batch=BATCH,
    strength=2.0,
    noise=0.3,
    location_probs=np.full(4, 0.25),
    steps=2,
    start=(0.5 * KEY, 0.5 * VALUE),
)


@cache
def passed():
    return at.message_passing(BATCH, 2.0, 0.3, steps=2)


@cache
def trained():
    return at.train(TASK, at.Erf(0.3), start=INSIDE, **RUN, progress=False)


@cache
def heads_trained():
    return at.train(WIDE, at.MultiHead(at.Erf(0.3)), **RUN, progress=False)


@cache
def positional_runs():
    return at.positional_sgd(POSITIONAL, (0.1, 0.5), runs=2, steps=1)


add(
    "MessagePassing.locate",
    later(passed, at.MessagePassing, "locate"),
    tokens=TOKENS,
    target=np.array([0.1, 0.2, 0.3]),
    mask=MASK,
)
add(
    "MessagePassing.predict",
    later(passed, at.MessagePassing, "predict"),
    tokens=TOKENS,
    mask=MASK,
)
add("Moments", at.Moments, samples=50)
add("Moments.estimate", at.Moments(50).estimate, batch=(BATCH.tokens, BATCH.target))
ENGINE = {"step_size": 0.01, "batch_size": 2}
ENGINES = {
    "FullSgd": at.FullSgd(TASK, at.Erf(0.3), **ENGINE),
    "FullPopulation": at.FullPopulation(TASK, at.Erf(0.3), 0.01),
    "PopulationExact": at.PopulationExact(TASK, at.Erf(0.3), 0.01),
    "FullMatrices": at.FullMatrices(TASK, 1.0, 2, **ENGINE),
    "GenericSgd": at.GenericSgd(TASK, at.squared_loss(at.Erf(0.3)), **ENGINE),
}
add("FullSgd", at.FullSgd, **HEAD, **ENGINE)
add("FullPopulation", at.FullPopulation, **HEAD, step_size=0.01)
add("PopulationExact", at.PopulationExact, **HEAD, step_size=0.01)
add(
    "FullMatrices",
    at.FullMatrices,
    task=TASK,
    inverse_temperature=1.0,
    inner=2,
    **ENGINE,
    scale=0.1,
)
add("GenericSgd", at.GenericSgd, task=TASK, loss=at.squared_loss(at.Erf(0.3)), **ENGINE)
add("FullHeads", at.FullHeads, task=TASK, predictor=at.MultiHead(at.Erf(0.3)), **ENGINE)


def with_state(method):
    """The method of an engine, whose state is made when it is called."""
    return lambda state, **given: method(state() if callable(state) else state, **given)


for word, engine in ENGINES.items():
    add(f"{word}.init", engine.init, overlaps=START, seed=0)
    add(
        f"{word}.advance",
        with_state(engine.advance),
        state=partial(engine.init, START, 0),
        inverse_temperatures=np.full(2, 0.3),
    )
FULL_HEADS = at.FullHeads(TASK, at.MultiHead(at.Erf(0.3)), **ENGINE)
add("FullHeads.start", FULL_HEADS.start, matrix=np.eye(6)[None], seed=0)
add(
    "FullHeads.advance",
    with_state(FULL_HEADS.advance),
    state=partial(FULL_HEADS.start, np.eye(6)[None], 0),
    inverse_temperatures=np.full(2, 0.3),
)
add("GenericSgd.start", ENGINES["GenericSgd"].start, matrix=np.eye(4)[None], seed=0)
add(
    "FullMatrices.layer",
    with_state(ENGINES["FullMatrices"].layer),
    state=partial(ENGINES["FullMatrices"].init, START, 0),
    run=0,
)
add("Trajectory.extend", later(trained, at.Trajectory, "extend"), steps=1, progress=False)
add("Trajectory.escape", later(trained, at.Trajectory, "escape"), level=0.3)
add(
    "HeadTrajectory.extend",
    later(heads_trained, at.HeadTrajectory, "extend"),
    steps=1,
    progress=False,
)
add(
    "HeadTrajectory.risk_at",
    later(heads_trained, at.HeadTrajectory, "risk_at"),
    log=-1,
    samples=64,
    seed=0,
)
add(
    "PositionalRuns.extend",
    later(positional_runs, at.PositionalRuns, "extend"),
    steps=1,
)
add("squared_loss", at.squared_loss, predictor=at.LinearAttention(1.0), heads=1)
add("logistic_loss", at.logistic_loss, predictor=at.LinearAttention(1.0), heads=1)
add("run_experiment", at.run_experiment, name="init_manifold", runs=1, seed=0, progress=False)
TRAINING = {
    "steps": 2,
    "batch_size": 4,
    "step_size": 0.01,
    "runs": 1,
    "log_every": 1,
    "seed": 0,
    "test_size": 16,
}
add("train_block", at.train_block, task=TASK, model=SIMPLE, **TRAINING, progress=False)
add(
    "simplified_risk",
    at.simplified_risk,
    task=TASK,
    model=SIMPLE,
    parameters={"k": KEY, "v": VALUE},
)
add(
    "length_curve",
    at.length_curve,
    task=TASK,
    model=SIMPLE,
    parameters={"k": KEY, "v": VALUE},
    lengths=[4, 5],
    samples=16,
    seed=0,
)
add("task_contexts", at.task_contexts, task=LINEAR, n=3, length=4, seed=0)
add(
    "task_contexts (label)",
    at.task_contexts,
    task=LINEAR,
    n=3,
    length=4,
    objective="supervised",
    label=np.ones((2, 1)),
    label_noise=0.1,
)
add("attend", at.attend, parameters=PARAMETERS, contexts=CONTEXTS)
add("AttentionParameters.with_vector", PARAMETERS.with_vector, x=np.zeros(11))
add(
    "excess_risk",
    at.excess_risk,
    returned=PARAMETERS,
    minimiser=PARAMETERS,
    best=PARAMETERS,
    test=CONTEXTS,
    bayes_predict=bayes,
)
add(
    "generalisation_gap",
    at.generalisation_gap,
    fitted=PARAMETERS,
    best=PARAMETERS,
    train=CONTEXTS,
    test=CONTEXTS,
)
