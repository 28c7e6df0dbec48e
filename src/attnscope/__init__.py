"""Compute, train and test attention on tasks where the right answer is known exactly.

tasks        at.SingleLocation, at.MultiLocation, at.Topics, ...: sample, posteriors, Bayes risk
predictors   at.Erf, at.Softmax, at.LinearAttention, at.Componentwise, at.MultiHead, ...
exact risk   at.risk, at.risk_gradient, at.stationary_points, at.reference_risks
training     at.train, at.gradient_flow, at.run_experiment
samples      at.learning_curve, at.bags_needed, at.cramer_rao
bags         at.SingleLocationRegressor, at.SingleLocationClassifier, at.open_bags, at.load_model
evidence     at.reproduce checks the claims of the papers; at.sweep repeats anything over a grid
the rest     at.theory, at.tasks, at.dynamics, at.estimators, ...: each lists its own names
"""

# Every public name is listed here and imported on first use: `import attnscope` loads neither SciPy
# nor JAX.

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOME = {
    "errors": ["AttnscopeError"],
    "numerics.border.estimate": ["Estimate"],
    "numerics.border.x64": ["x64"],
    "tasks.planted.planted": ["Planted", "PlantedBatch"],
    "tasks.planted.single_location": ["Batch", "LinearPredictor", "SingleLocation"],
    "tasks.planted.multi_location": ["MultiLocation"],
    "tasks.planted.subset_tokens": ["MultiBatch"],
    "tasks.planted.max_location": ["MaxLocation"],
    "tasks.planted.random_length": ["MaskedBatch", "RandomLength"],
    "tasks.planted.sparse_tokens": ["SparseTokenClassification"],
    "tasks.planted.marked_tokens": ["SparseBatch"],
    "tasks.planted.correlated_background": ["CorrelatedBackground"],
    "tasks.planted.correlated_tokens": ["Whitened"],
    "tasks.planted.grid_location": ["GridLocation"],
    "tasks.planted.positional_semantic": ["PositionalSemantic"],
    "tasks.exchangeable.drifting_map": ["DriftingMap"],
    "tasks.exchangeable.gaussian_location": ["GaussianLocation"],
    "tasks.exchangeable.linear_map": ["LinearMap"],
    "tasks.exchangeable.latent_map": ["hold_out"],
    "tasks.planted.multi_direction": ["MultiDirection"],
    "tasks.planted.spike_mixture": ["SpikeMixture"],
    "tasks.exchangeable.positions": ["OrderTask", "attach_positions"],
    "tasks.exchangeable.sphere_regression": ["SphereRegression"],
    "tasks.exchangeable.topics": ["Topics"],
    "tasks.exchangeable.topic_mixture": ["TopicMixture"],
    "tasks.exchangeable.sparse_retrieval": ["SparseRetrieval"],
    "predictors.operators.context_attention": [
        "cme_attention",
        "cme_solve",
        "cme_variance",
        "linear_attention",
        "softmax_attention",
    ],
    "predictors.operators.decisions": ["Decision", "attention_decision"],
    "predictors.operators.local_linear": ["local_linear_attention"],
    "predictors.operators.memory_attention": [
        "delta_attention",
        "gated_linear_attention",
        "recursive_least_squares",
    ],
    "predictors.attention": [
        "Componentwise",
        "Erf",
        "LinearAttention",
        "Softmax",
        "SoftmaxOne",
        "SoftplusAttention",
    ],
    "predictors.predictions": ["attention_weights", "predict"],
    "predictors.blocks.transformer": ["TransformerBlock"],
    "predictors.blocks.compared_models": [
        "DenseNet",
        "GatedRecurrent",
        "SimplifiedAttention",
    ],
    "predictors.full_attention": ["FullAttention"],
    "predictors.heads": ["BayesSoftmax", "MultiHead"],
    "predictors.row_column": ["RowColumn"],
    "predictors.inverse_temperature": ["InverseTime"],
    "theory.overlaps": ["Overlaps"],
    "theory.risks.several_tokens_risk": ["head_risk"],
    "theory.risks.spiked": ["spiked_asymptotic", "spiked_bayes_risk", "spiked_exponent"],
    "theory.optima.linear_optimum": [
        "LinearOptimum",
        "linear_optimum",
        "normalised_linear_optimum",
    ],
    "theory.risks.sign_error": ["sign_error"],
    "theory.risk": ["RiskGradient", "risk", "risk_function", "risk_gradient"],
    "theory.optima.optimum": ["OracleRegime", "optimal_inverse_temperature", "oracle_regime"],
    "theory.optima.optimal_sigma": ["OptimalSigma", "optimal_sigma"],
    "theory.optima.landscape": ["basin_prediction", "stationary_points"],
    "theory.optima.risk_plane": ["Landscape", "risk_landscape"],
    "theory.optima.stationary": ["StationaryPoint"],
    "theory.optima.oracle_saddle": ["critical_inverse_temperature"],
    "theory.risks.multi_head_risk": ["heads_gram", "heads_risk"],
    "theory.positional_semantic.basins": ["positional_basins"],
    "theory.positional_semantic.loss": [
        "PositionalGradient",
        "positional_gradient",
        "positional_loss",
    ],
    "theory.positional_semantic.minima": ["PositionalMinimum", "positional_minima"],
    "theory.positional_semantic.phases": ["PositionalPhases", "positional_phases"],
    "theory.risks.correlated_risk": ["correlated_risk", "correlated_inverse_temperature"],
    "theory.samples.two_steps": [
        "Alignment",
        "simulated_alignment",
        "two_gradient_steps",
        "two_step_alignment",
    ],
    "theory.risks.layer_norm": ["informative_weight", "layer_norm_floor"],
    "theory.reference_risks": ["reference_risks"],
    "theory.exchangeable.spectral": [
        "cme_filter",
        "density_bias",
        "kernel_eigenvalues",
        "local_linear_filter",
        "softmax_filter",
    ],
    "theory.exchangeable.learning_curves": ["best_attention", "cme_curve", "softmax_curve"],
    "theory.exchangeable.kernel_curve": ["kernel_bayes_curve"],
    "theory.exchangeable.kernel_spectra": ["product_spectrum", "sphere_spectrum"],
    "theory.exchangeable.shared_layer": ["shared_layer_risk"],
    "theory.exchangeable.newsvendor": ["decision_regret"],
    "theory.exchangeable.memory": ["best_gates", "memory_curve"],
    "theory.exchangeable.transfer": ["bottleneck_law", "condition_number", "transfer_bound"],
    "theory.samples.cramer_rao": ["cramer_rao"],
    "theory.samples.curve": ["LearningCurve"],
    "theory.samples.learning_curve": ["learning_curve"],
    "theory.samples.thresholds": [
        "BagsNeeded",
        "Thresholds",
        "bags_needed",
        "recovery_threshold",
    ],
    "theory.samples.best_ridge": ["BestRidge", "best_ridge"],
    "theory.exchangeable.chernoff": ["asymptotic_topic_error", "chernoff", "two_topic_error"],
    "theory.exchangeable.retrieval": ["examples_needed", "retrieval_probability"],
    "theory.exchangeable.representation": [
        "merge_costs",
        "posterior_atoms",
        "representation",
    ],
    "dynamics.networks.blocks": ["BlockHistory", "simplified_risk", "train_block"],
    "dynamics.networks.length_curves": ["length_curve"],
    "dynamics.message_passing": ["MessagePassing", "message_passing"],
    "dynamics.train": ["train"],
    "dynamics.trajectory": ["Trajectory"],
    "dynamics.starts": ["Moments"],
    "dynamics.positional_sgd": ["PositionalRuns", "positional_sgd"],
    "dynamics.rates": ["escape_time", "predicted_rate"],
    "dynamics.experiments": ["EXPERIMENTS", "run_experiment"],
    "dynamics.networks.attention_model": ["AttentionParameters", "attend", "task_contexts"],
    "dynamics.networks.fit_statistics": ["excess_risk", "generalisation_gap"],
    "dynamics.engines.full_vectors": ["FullPopulation", "FullSgd"],
    "dynamics.engines.full_heads": ["FullHeads"],
    "dynamics.gradient_flow": ["GradientFlow", "gradient_flow"],
    "dynamics.heads": ["HeadTrajectory"],
    "dynamics.engines.gram_sgd": ["GenericSgd"],
    "dynamics.engines.losses": ["logistic_loss", "squared_loss"],
    "dynamics.networks.layer_matrices": ["FullMatrices"],
    "dynamics.engines.population_exact": ["PopulationExact"],
    "figures.figure": ["Figure"],
    "corpora.digits": ["digit_bags", "digit_images"],
    "corpora.mil": ["load_mil"],
    "corpora.minilm": ["token_states"],
    "corpora.rated_text": ["RatedText", "load_rated_text"],
    "corpora.sentences": ["antonym_pairs", "draw_sentences"],
    "corpora.text": ["text_bags"],
    "estimators.bag_transformers": ["BagPCA", "BagPooling", "BagScaler"],
    "estimators.bags.frame_bags": ["FrameBags", "bags_from_frame"],
    "estimators.bags.open_bags": ["OpenBags", "open_bags"],
    "estimators.classifier": ["SingleLocationClassifier"],
    "estimators.intrinsic_dimension": ["intrinsic_dimension"],
    "estimators.linear_attention.fit": ["LinearAttentionFit", "fit_linear_attention"],
    "estimators.plot_attention": ["plot_attention"],
    "estimators.regressor": ["SingleLocationRegressor"],
    "estimators.model_file.read": ["load_model"],
    "estimators.tiles.spatial_context": ["SpatialContext", "spatial_context"],
    "sweeps.run": ["sweep"],
    "reproduction": ["reproduce"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_SUBPACKAGES = (
    "catalogue",
    "claims",
    "corpora",
    "dynamics",
    "estimators",
    "figures",
    "numerics",
    "predictors",
    "registry",
    "studies",
    "sweeps",
    "tasks",
    "theory",
)

# These resolve as at.X and stay in the lists of their subpackages; `dir(at)` leaves them out, because
# no page of the documentation tells one to type them: classes of results, engines, inner formulas.
_UNLISTED = frozenset(
    {
        "AttentionParameters",
        "BagsNeeded",
        "Batch",
        "BestRidge",
        "BlockHistory",
        "Decision",
        "DenseNet",
        "EXPERIMENTS",
        "FrameBags",
        "FullHeads",
        "FullMatrices",
        "FullPopulation",
        "FullSgd",
        "GenericSgd",
        "GradientFlow",
        "HeadTrajectory",
        "Landscape",
        "LearningCurve",
        "LinearAttentionFit",
        "LinearOptimum",
        "LinearPredictor",
        "MaskedBatch",
        "MessagePassing",
        "MultiBatch",
        "OpenBags",
        "OptimalSigma",
        "OracleRegime",
        "PlantedBatch",
        "PopulationExact",
        "PositionalGradient",
        "PositionalMinimum",
        "PositionalPhases",
        "PositionalRuns",
        "RatedText",
        "RiskGradient",
        "SpatialContext",
        "StationaryPoint",
        "Thresholds",
        "attach_positions",
        "attend",
        "best_attention",
        "bottleneck_law",
        "cme_filter",
        "cme_solve",
        "cme_variance",
        "condition_number",
        "density_bias",
        "digit_images",
        "escape_time",
        "excess_risk",
        "gated_linear_attention",
        "generalisation_gap",
        "head_risk",
        "hold_out",
        "kernel_eigenvalues",
        "layer_norm_floor",
        "local_linear_attention",
        "logistic_loss",
        "merge_costs",
        "normalised_linear_optimum",
        "oracle_regime",
        "posterior_atoms",
        "recursive_least_squares",
        "spiked_bayes_risk",
        "spiked_exponent",
        "squared_loss",
        "task_contexts",
        "transfer_bound",
        "two_topic_error",
        "x64",
    }
)

# `help(at)` prints the map above and not 200 docstrings
__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name, or a subpackage, when it is first asked for."""
    if name in _SUBPACKAGES:
        return import_module(f"attnscope.{name}")
    if name not in _MODULE_OF:
        return _old_attribute(__name__, name)
    value = getattr(import_module(f"attnscope.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # next time without this detour
    return value


def _old_attribute(module: str, name: str) -> Any:
    """The attribute of this package, or of one inside it, by its name in 0.2."""
    from attnscope.deprecated import module_attribute

    return module_attribute(module, name)


def __dir__() -> list[str]:
    """What completion offers: the names that the documentation uses, and the subpackages."""
    return sorted(["__version__", *(_MODULE_OF.keys() - _UNLISTED), *_SUBPACKAGES])
