"""Calls of tasks and their methods."""

import inspect

import numpy as np

import attnscope as at
from helpers.public_calls.examples import (
    CORRELATED,
    DRIFT,
    GRID,
    KEY,
    KEYS,
    LINEAR,
    LOCATION,
    LOCATION_TASK,
    MIXTURE,
    ORDER,
    PLANTED,
    POSITIONAL,
    QUERY,
    RETRIEVAL,
    SEVERAL,
    SINGLE,
    SIZES,
    SPARSE,
    SPHERE,
    TOKENS,
    TOPICS,
    VALUE,
    VALUES,
    VECTORS,
    WORDS,
    ShiftedToken,
    add,
    single,
)

add("SingleLocation", at.SingleLocation, **SIZES, **SINGLE, location_probs=np.full(4, 0.25))
add(
    "SingleLocation.spiked",
    at.SingleLocation.spiked,
    **SIZES,
    strength=4.0,
    noise=0.1,
    seed=0,
)
add("MultiLocation", at.MultiLocation, **SIZES, relevant=2, concentration=1.0, **SINGLE)
add("MaxLocation", at.MaxLocation, **SIZES, strength=5.0, noise=0.1, **VECTORS, seed=0)
add("RandomLength", at.RandomLength, task=single(), lengths=[2, 4])
add("GridLocation", at.GridLocation, rows=2, columns=2, dim=6, **SINGLE)
add(
    "CorrelatedBackground",
    at.CorrelatedBackground,
    task=single(),
    mean=np.full(6, 0.1),
    covariance=np.eye(6),
)
add(
    "CorrelatedBackground (t)",
    at.CorrelatedBackground,
    task=single(),
    degrees_of_freedom=9.0,
)
add(
    "MultiDirection",
    at.MultiDirection,
    **SIZES,
    directions=2,
    gamma=0.7,
    noise=0.3,
    signal=2.0,
    keys=np.eye(6)[:2],
    values=np.eye(6)[2:4],
    seed=0,
)
add(
    "SpikeMixture",
    at.SpikeMixture,
    **SIZES,
    strengths=(3.0, 2.0),
    prior=(0.3, 0.7),
    gamma=1.0,
    noise=0.1,
    outputs=np.eye(6)[2:4],
    seed=0,
)
add(
    "SpikeMixture (means)",
    at.SpikeMixture,
    **SIZES,
    means=np.eye(6)[:2],
    outputs=np.eye(6)[2:4],
)
add(
    "SparseTokenClassification",
    at.SparseTokenClassification,
    **SIZES,
    strength=3.0,
    marked=1,
    direction=KEY,
    seed=0,
)
add(
    "PositionalSemantic",
    at.PositionalSemantic,
    dim=6,
    mix=0.5,
    contrast=1.0,
    position=1.0,
    key=KEY,
    place=VALUE,
    seed=0,
)
add("Planted", ShiftedToken, **SIZES, noise=0.1, seed=0, shift=1.5)
add(
    "GaussianLocation",
    at.GaussianLocation,
    dim=3,
    prior_variance=1.0,
    noise_variance=0.2,
    readout=np.ones(3),
    noise=0.1,
)
add("LinearMap", at.LinearMap, dim_key=3, dim_value=1, prior_variance=1.0, noise=0.5)
add(
    "DriftingMap",
    at.DriftingMap,
    dim_key=3,
    dim_value=1,
    prior_variance=1.0,
    noise=0.5,
    decay=0.9,
)
add(
    "SphereRegression",
    at.SphereRegression,
    dim=3,
    noise=0.5,
    degrees=(1, 2),
    weights=(0.5, 0.5),
    dim_value=1,
)
add("OrderTask", at.OrderTask, symbols=4, noise=0.1)
add(
    "Topics",
    at.Topics,
    prior=[0.5, 0.5],
    emissions=[[0.7, 0.3], [0.2, 0.8]],
    labels=[[0.0], [1.0]],
    noise=0.1,
)
add("TopicMixture", at.TopicMixture, topics=2, words=2, concentration=0.5)
add("SparseRetrieval", at.SparseRetrieval, features=3, noise=1.0)

for word, task in PLANTED.items():
    add(f"{word}.sample", task.sample, n=2, seed=0)
    add(
        f"{word}.batches",
        lambda task=task, **a: next(iter(task.batches(**a))),
        n=2,
        batch_size=2,
        seed=0,
    )
    shown = {"tokens": TOKENS}
    if word == "RandomLength":
        shown = {
            "tokens": TOKENS,
            "mask": np.array([[True] * 4, [True, True, False, False], [True] * 4]),
        }
    for method in (
        "bayes_predict",
        "posterior",
        "location_posterior",
        "posterior_variance",
        "row_posterior",
        "column_posterior",
        "grid",
        "log_likelihood_ratio",
        "token_posterior",
    ):
        if hasattr(task, method) and word != "PositionalSemantic":
            add(f"{word}.{method}", getattr(task, method), **shown)
    for method in ("bayes_risk", "bayes_error", "null_risk"):
        if "samples" in inspect.signature(getattr(task, method, lambda: 0)).parameters:
            add(f"{word}.{method}", getattr(task, method), samples=200, seed=0)
add("GridLocation.cell", GRID.cell, location=LOCATION)
add("CorrelatedBackground.standardised", CORRELATED.standardised, batch=CORRELATED.sample(3))
add("MultiLocation.weight_moments", SEVERAL.weight_moments)
add("SparseTokenClassification.strength_needed", SPARSE.strength_needed, error=0.1)
add("PositionalSemantic.overlaps", POSITIONAL.overlaps, k=KEY)
add(
    "PositionalSemantic.student_weights",
    POSITIONAL.student_weights,
    k=KEY,
    tokens=TOKENS[:, :2],
)
WHITE = CORRELATED.whiten()
add("Whitened.tokens", WHITE.tokens, x=TOKENS)
add("Whitened.unwhiten", WHITE.unwhiten, prediction=np.array([1.0, 2.0]))

CONTEXT = {"query": QUERY, "keys": KEYS, "values": VALUES}
for word, task in {
    "LinearMap": LINEAR,
    "DriftingMap": DRIFT,
    "SphereRegression": SPHERE,
}.items():
    own = CONTEXT
    if word == "SphereRegression":
        unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
        own = CONTEXT | {"query": unit(QUERY), "keys": unit(KEYS)}
        add(
            "SphereRegression.covariance",
            task.covariance,
            query=own["query"],
            keys=own["keys"],
        )
    pair = {name: own[name] for name in ("keys", "values")}
    add(f"{word}.sample", task.sample, n=2, length=3, seed=0)
    add(f"{word}.bayes_predict", task.bayes_predict, **own)
    add(f"{word}.predictive", task.predictive, **own)
    add(f"{word}.posterior", task.posterior, **pair)
    add(f"{word}.log_probability", task.log_probability, **pair)
    add(f"{word}.bayes_risk", task.bayes_risk, length=3, samples=50, seed=0)
    batch = task.sample(2, 5)
    add(
        f"{word}.conditional_mean",
        task.conditional_mean,
        latent=batch.latent,
        query=batch.query,
    )
    if word != "DriftingMap":
        add(f"{word}.masked", task.masked, n=2, length=3, seed=0)
        add(f"{word}.features", task.features, keys=own["keys"])
add("DriftingMap.trace_curve", DRIFT.trace_curve, length=3, samples=50, seed=0)
add("SparseRetrieval.sample", RETRIEVAL.sample, n=2, length=3, seed=0)
add("SparseRetrieval.posterior", RETRIEVAL.posterior, keys=KEYS, values=VALUES)
add("SparseRetrieval.bayes_predict", RETRIEVAL.bayes_predict, **CONTEXT)
add("SparseRetrieval.bayes_risk", RETRIEVAL.bayes_risk, length=3)
add("GaussianLocation.sample", LOCATION_TASK.sample, n=2, length=3, seed=0)
add("GaussianLocation.bayes_risk", LOCATION_TASK.bayes_risk, length=3)
add("GaussianLocation.posterior_variance", LOCATION_TASK.posterior_variance, length=3)
for method in ("bayes_predict", "log_probability", "posterior"):
    add(f"GaussianLocation.{method}", getattr(LOCATION_TASK, method), tokens=TOKENS)
ORDERED = ORDER.sample(3, length=4)
PLACED = {"content": ORDERED.content, "positions": ORDERED.positions}
add("OrderTask.sample", ORDER.sample, n=2, length=3, seed=0)
add("OrderTask.bayes_predict", ORDER.bayes_predict, **PLACED)
add("OrderTask.posterior", ORDER.posterior, **PLACED)
add("OrderTask.bayes_risk", ORDER.bayes_risk, length=3)
add("attach_positions", at.attach_positions, content=TOKENS, positions=np.arange(4), width=5)
add("hold_out", at.hold_out, keys=KEYS, values=VALUES, position=np.array([1, 0]))
for word, task in {"Topics": TOPICS, "TopicMixture": MIXTURE}.items():
    add(f"{word}.sample", task.sample, n=2, length=3, seed=0)
    add(f"{word}.bayes_risk", task.bayes_risk, length=3)
    for method in ("bayes_predict", "log_probability", "posterior", "predictive"):
        if hasattr(task, method):
            add(f"{word}.{method}", getattr(task, method), tokens=WORDS)
add("Topics.counts", TOPICS.counts, tokens=WORDS)
add("TopicMixture.counts", MIXTURE.counts, tokens=WORDS)
add("Topics.topic_error", TOPICS.topic_error, length=3)
add("Topics.log_joint", TOPICS.log_joint, counts=np.array([2, 1, 0]))
add("TopicMixture.attention_optimum", MIXTURE.attention_optimum, length=3, correct=0.5)
add(
    "TopicMixture.attention_risk",
    MIXTURE.attention_risk,
    length=3,
    correct=0.5,
    same_word=0.2,
    same_topic=0.1,
)
add(
    "TopicMixture.masked_optimum",
    MIXTURE.masked_optimum,
    length=3,
    mask=0.15,
    keep=0.1,
    random=0.1,
    ridge=0.1,
)
