"""Calls of risks, optima, curves and bounds."""

import numpy as np

import attnscope as at
from helpers.public_calls.examples import (
    BLOCK,
    CORRELATED,
    DRIFT,
    INSIDE,
    KEY,
    POSITIONAL,
    RETRIEVAL,
    SEVERAL,
    SPARSE,
    SPIKED,
    TASK,
    TOKENS,
    TOPICS,
    VALUE,
    WIDE,
    add,
)

HEAD = {"task": TASK, "predictor": at.Erf(0.3)}
add("Overlaps.of", at.Overlaps.of, task=TASK, k=KEY, v=VALUE)
add("risk", at.risk, **HEAD, overlaps=INSIDE, samples=100, seed=0)
add("risk (softmax)", at.risk, task=TASK, predictor=at.Softmax(0.5), overlaps=INSIDE)
add("risk (Gram matrix)", at.risk, **HEAD, overlaps=np.eye(4), samples=100)
add("risk (sampled)", at.risk, **HEAD, overlaps=INSIDE, method="monte-carlo", samples=100)
add(
    "risk (own activation)",
    at.risk,
    task=TASK,
    predictor=at.Componentwise(lambda x: x**3, 0.1),
    overlaps=INSIDE,
)
add(
    "heads_risk (two directions)",
    at.heads_risk,
    task=WIDE,
    predictor=at.MultiHead(at.Softmax(0.3)),
    heads=(np.eye(8)[:2], np.eye(8)[2:4]),
    samples=100,
)
add("risk_function", at.risk_function, **HEAD)
for head in (at.Erf(0.3), at.Softmax(0.5), at.LinearAttention(0.3, 0.1)):
    excess = at.risk_function(TASK, head)
    add(
        f"risk_function ({type(head).__name__}, called)",
        lambda overlaps, inverse_temperature, excess=excess: excess(
            overlaps, inverse_temperature
        ),
        overlaps=INSIDE,
        inverse_temperature=0.3,
    )
add("risk_gradient", at.risk_gradient, **HEAD, overlaps=INSIDE)
add("head_risk", at.head_risk, task=SEVERAL, predictor=at.Softmax(0.5), gain=0.9)
add("spiked_asymptotic", at.spiked_asymptotic, strength=5.0, length=10.0)
add("spiked_bayes_risk", at.spiked_bayes_risk, strength=5.0, length=10.0)
add("spiked_exponent", at.spiked_exponent, rate=0.2)
add("linear_optimum", at.linear_optimum, task=TASK)
add("normalised_linear_optimum", at.normalised_linear_optimum, task=SPIKED)
add(
    "sign_error",
    at.sign_error,
    task=SPARSE,
    predictor=at.LinearAttention(0.1, 1.0),
    overlaps=at.Overlaps(0.5, 0.0, 0.5, 0.0, 0.0),
    samples=100,
    seed=0,
)
add(
    "optimal_inverse_temperature",
    at.optimal_inverse_temperature,
    task=TASK,
    family=at.Erf,
    overlaps=INSIDE,
)
add("oracle_regime", at.oracle_regime, task=TASK, inverse_temperature=0.3)
add("optimal_sigma", at.optimal_sigma, task=TASK)
add(
    "basin_prediction",
    at.basin_prediction,
    task=TASK,
    inverse_temperature=0.1,
    overlaps=INSIDE,
)
add("stationary_points", at.stationary_points, **HEAD, starts=2, seed=0)
add(
    "risk_landscape",
    at.risk_landscape,
    **HEAD,
    overlaps=INSIDE,
    points=3,
    samples=64,
    starts=2,
    seed=0,
)
add("critical_inverse_temperature", at.critical_inverse_temperature, task=TASK)
add("heads_gram", at.heads_gram, task=TASK, K=KEY[None], V=VALUE[None])
add(
    "heads_risk",
    at.heads_risk,
    task=TASK,
    predictor=at.MultiHead(at.Erf(0.3), 1),
    heads=(KEY[None], VALUE[None]),
    samples=100,
    seed=0,
)
PLACE = {"task": POSITIONAL, "e": 0.3, "m": 0.4}
add("positional_basins", at.positional_basins, **PLACE)
add("positional_loss", at.positional_loss, **PLACE)
add("positional_gradient", at.positional_gradient, **PLACE)
add("positional_minima", at.positional_minima, task=POSITIONAL)
add("positional_phases", at.positional_phases, mixes=[0.3], contrasts=[0.5], position=1.0)
add(
    "positional_sgd",
    at.positional_sgd,
    task=POSITIONAL,
    start=(0.1, 0.5),
    runs=2,
    steps=3,
    step_size=1e-3,
    batch_size=1,
    seed=0,
)
add(
    "correlated_risk",
    at.correlated_risk,
    task=CORRELATED,
    predictor=at.Erf(0.3),
    k=KEY,
    v=VALUE,
)
add("correlated_inverse_temperature", at.correlated_inverse_temperature, task=CORRELATED)
add("simulated_alignment", at.simulated_alignment, task=SPARSE, samples=50, runs=2, seed=0)
add(
    "two_gradient_steps",
    at.two_gradient_steps,
    tokens=TOKENS,
    target=np.array([1.0, -1.0, 1.0]),
)
add("two_step_alignment", at.two_step_alignment, task=SPARSE, samples_per_dim=1.0)
add(
    "informative_weight",
    at.informative_weight,
    task=TASK,
    model=BLOCK,
    parameters=BLOCK.init(seed=0),
    length=4,
    head=0,
)
add("layer_norm_floor", at.layer_norm_floor, task=TASK, samples=2000, seed=0)
add("reference_risks", at.reference_risks, task=TASK, predictor=at.Erf(0.3), family=at.Erf)
FILTER = {"dim": 3, "bandwidth": 1.0, "degree": np.arange(3)}
add("cme_filter", at.cme_filter, **FILTER, ridge_per_token=0.1)
add("kernel_eigenvalues", at.kernel_eigenvalues, **FILTER)
add("local_linear_filter", at.local_linear_filter, **FILTER)
add("softmax_filter", at.softmax_filter, **FILTER)
add(
    "density_bias",
    at.density_bias,
    bandwidth=0.1,
    laplacian=np.array(-2.0),
    gradient=np.array([1.0, 0.0]),
    log_density_gradient=np.array([0.5, 0.0]),
)
CURVE = {"dim": 3, "length": 8, "noise": 0.5, "power": (0.0, 1.0)}
add("best_attention", at.best_attention, **CURVE)
add("cme_curve", at.cme_curve, **CURVE, ridge=1.0, bandwidth=1.0)
add("softmax_curve", at.softmax_curve, **CURVE, bandwidth=0.5, gain=0.9, sink=0.1)
add(
    "kernel_bayes_curve",
    at.kernel_bayes_curve,
    eigenvalues=[0.5, 0.25],
    multiplicities=[1.0, 2.0],
    noise=0.5,
    length=[4, 8],
    trace=1.1,
)
add("product_spectrum", at.product_spectrum, smoothness=[1, 2], weights=[0.5, 0.25], cut=0.1)
add("sphere_spectrum", at.sphere_spectrum, dimension=2, smoothness=1.0, top=3)
add("shared_layer_risk", at.shared_layer_risk, positions=8, sequences=4, noise=0.5)
add(
    "decision_regret",
    at.decision_regret,
    length=3,
    short=9.0,
    over=1.0,
    shifts=(0.0, 0.5),
    inverse_bandwidth=1.0,
    probabilities=(0.5, 0.5),
)
add("best_gates", at.best_gates, task=DRIFT, length=5)
add(
    "memory_curve",
    at.memory_curve,
    task=DRIFT,
    length=[2, 5],
    step=0.1,
    decay=0.9,
    samples=50,
    seed=0,
)
add(
    "memory_curve (rls)",
    at.memory_curve,
    task=DRIFT,
    length=3,
    rule="least squares",
    decay=0.9,
    ridge=0.2,
    samples=50,
)
add(
    "bottleneck_law",
    at.bottleneck_law,
    condition=[1.0, 4.0],
    samples=100,
    length=16,
    dim=12,
    rank=3,
    target_noise=0.3,
    token_noise=1.0,
)
MAP = {"target_map": np.diag([2.0, 1.0]), "label": np.array([1.0, 1.0])}
add("condition_number", at.condition_number, **MAP)
add("transfer_bound", at.transfer_bound, **MAP, pretraining_excess=0.01)
add("cramer_rao", at.cramer_rao, task=TASK, n=100, samples=3200, seed=0)
add("learning_curve", at.learning_curve, task=SPIKED, alpha=[1.0, 2.0])
add(
    "learning_curve (ridge)",
    at.learning_curve,
    task=SPIKED,
    alpha=2.0,
    predictor=at.LinearAttention(1.0, offset=1.0),
    ridge=(0.2, 16.0),
)
add("recovery_threshold", at.recovery_threshold, length=5, strength=1.0, noise=0.0)
add("bags_needed", at.bags_needed, task=SPIKED, risk=0.6)
add(
    "best_ridge",
    at.best_ridge,
    task=SPIKED,
    alpha=4.0,
    predictor=at.LinearAttention(1.0, offset=1.0),
)
add("chernoff", at.chernoff, task=TOPICS)
add("asymptotic_topic_error", at.asymptotic_topic_error, task=TOPICS, length=10)
add("two_topic_error", at.two_topic_error, task=TOPICS, length=10)
add("examples_needed", at.examples_needed, task=RETRIEVAL, probability=0.5)
add("retrieval_probability", at.retrieval_probability, task=RETRIEVAL, length=3)
add("merge_costs", at.merge_costs, atoms=at.posterior_atoms(TOPICS, 2))
add("posterior_atoms", at.posterior_atoms, task=TOPICS, length=2)
add(
    "representation",
    at.representation,
    task=TOPICS,
    length=2,
    labels=np.array([[0.0], [1.0]]),
)
