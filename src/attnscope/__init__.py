"""attnscope: an instrument for what attention provably does.

Every public name is listed here and imported on first use, so that `import attnscope` loads neither JAX nor SciPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

_HOME = {
    "errors": ["AttnscopeError"],
    "numerics.estimate": ["Estimate"],
    "numerics.x64": ["x64"],
    "tasks.single_location": ["Batch", "LinearPredictor", "SingleLocation"],
    "tasks.gaussian_location": ["GaussianLocation"],
    "tasks.linear_map": ["LinearMap", "hold_out"],
    "tasks.positions": ["OrderTask", "attach_positions"],
    "tasks.sphere_regression": ["SphereRegression"],
    "tasks.topics": ["Topics"],
    "predictors.operators": ["cme_attention", "cme_solve", "cme_variance", "linear_attention", "softmax_attention"],
    "predictors.attention": [
        "Componentwise",
        "Erf",
        "LinearAttention",
        "Softmax",
        "attention_weights",
        "predict",
    ],
    "predictors.full": ["FullAttention"],
    "predictors.temperature": ["InverseTime"],
    "theory.overlaps": ["Overlaps"],
    "theory.risk": ["RiskGradient", "risk", "risk_function", "risk_gradient"],
    "theory.optimum": ["OracleRegime", "optimal_temperature", "oracle_regime"],
    "theory.optimal_sigma": ["OptimalSigma", "optimal_sigma"],
    "theory.landscape": ["StationaryPoint", "basin_prediction", "critical_temperature", "stationary_points"],
    "theory.reference": ["reference_risks"],
    "theory.spectral": ["cme_filter", "density_bias", "kernel_eigenvalues", "softmax_filter"],
    "theory.learning_curves": ["best_attention", "cme_curve", "softmax_curve"],
    "theory.transfer": ["bottleneck_law", "condition_number", "transfer_bound"],
    "theory.chernoff": ["asymptotic_topic_error", "chernoff", "two_topic_error"],
    "theory.representation": ["merge_costs", "posterior_atoms", "representation"],
    "dynamics.train": ["train"],
    "dynamics.trajectory": ["Trajectory"],
    "dynamics.starts": ["Moments"],
    "dynamics.rates": ["escape_time", "predicted_rate"],
    "dynamics.experiments": ["EXPERIMENTS", "run_experiment"],
    "dynamics.attention_model": ["AttentionParameters", "attend", "excess_risk", "generalisation_gap", "task_contexts"],
    "dynamics.full": ["FullPopulation", "FullSgd"],
    "dynamics.generic": ["GenericSgd"],
    "dynamics.losses": ["logistic_loss", "squared_loss"],
    "dynamics.matrices": ["FullMatrices"],
    "dynamics.population_exact": ["PopulationExact"],
    "figures.figure": ["Figure"],
    "estimators.classifier": ["SingleLocationClassifier"],
    "estimators.regressor": ["SingleLocationRegressor"],
    "estimators.saved": ["load_model"],
    "sweeps.run": ["sweep"],
    "reproduce": ["reproduce"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'attnscope' has no attribute {name!r}")
    value = getattr(import_module(f"attnscope.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # next time without this detour
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
