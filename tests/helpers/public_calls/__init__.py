"""One small valid call of every public function, class and method that takes numbers or arrays.

`CALLS` maps a name ("risk", "SingleLocation.sample") to a function and its keyword arguments; tests
replace one argument at a time. The sets below list what is not called, each with its reason.
"""

from helpers.public_calls import dynamics, estimators, predictors, tasks, theory
from helpers.public_calls.examples import CALLS

__all__ = [
    "AUTHOR_METHODS",
    "CALLS",
    "COMPUTED_WITH_JAX",
    "IN_A_TABLE",
    "NONE_IS_A_VALUE",
    "NO_NUMBERS",
    "OPTIONAL",
    "PARTS",
    "PLAIN_METHODS",
    "RECORDS",
    "SLOW",
    "UNREAD",
]

PARTS = (tasks, predictors, theory, dynamics, estimators)

# arguments for which None has a meaning; of others it shows in their default
OPTIONAL = {
    "components",
    "coords",
    "groups",
    "head",
    "locations",
    "max_seconds",
    "n_components",
    "random_state",
    "sample_weight",
    "sink",
    "starts",
}
# fields of a batch that the function does not read
UNREAD = {"batch.location"}
# functions that compute with JAX, which a caller may do inside jax.jit
COMPUTED_WITH_JAX = {
    "FullMatrices.layer",
    "TransformerBlock.predict",
    "SimplifiedAttention.sensitivity",
    "informative_weight",
    "simplified_risk",
    "risk (own activation)",
    "heads_risk (two directions)",
    "train (heads)",
}
# tables: pandas itself refuses what is put into a column as a whole
IN_A_TABLE = {"bags_from_frame", "bags_from_frame (tokens)"}
# a cell of a sweep may have None as a parameter
NONE_IS_A_VALUE = {"sweep"}
# seconds each, for compilation or training
SLOW = {
    "FullHeads.advance",
    "FullMatrices.advance",
    "FullPopulation.advance",
    "FullSgd.advance",
    "GenericSgd.advance",
    "best_ridge",
    "learning_curve",
    "learning_curve (ridge)",
    "reproduce",
    "risk_function (Softmax, called)",
    "run_experiment",
    "train_block",
}
# tuples and frozen dataclasses that the library returns; they hold what they are given
RECORDS = {
    "Alignment",
    "AttentionParameters",
    "BagsNeeded",
    "Batch",
    "BestRidge",
    "BlockHistory",
    "Decision",
    "Estimate",
    "FrameBags",
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
    "OracleRegime",
    "Overlaps",
    "PlantedBatch",
    "PositionalGradient",
    "PositionalMinimum",
    "PositionalPhases",
    "PositionalRuns",
    "RatedText",
    "RiskGradient",
    "SparseBatch",
    "SpatialContext",
    "StationaryPoint",
    "Thresholds",
    "Trajectory",
    "Whitened",
    "Figure",
}
# no argument is a number or an array
NO_NUMBERS = {
    "AttnscopeError",
    "EXPERIMENTS",
    "antonym_pairs",
    "digit_images",
    "load_mil",
    "load_model",
    "load_rated_text",
    "text_bags",
    "token_states",
    "x64",
    "BagScaler",
    "BagPooling",
    "BagPCA",
    "SingleLocationRegressor",
    "SingleLocationClassifier",
}
# methods whose arguments are no numbers or arrays, that scikit-learn defines, or that fill a record
PLAIN_METHODS = {
    "count",
    "index",
    "fit_transform",
    "get_feature_names_out",
    "get_metadata_routing",
    "get_params",
    "set_params",
    "set_output",
    "add_note",
    "with_traceback",
    "save",
    "load",
    "plot",
    "figure",
    "from_json",
    "enumerated",
    "bags",
    "average",
    "oracle",
    "rate",
    "matching",
    "SETUP",
}
# what an author of a task or a model writes, or an engine asks for: called with arrays that the
# library has made or checked
AUTHOR_METHODS = {
    "checked_label",
    "class_chances",
    "drawn_latent",
    "label",
    "latent",
    "means",
    "scales",
    "token_law",
    "projections",
    "draw_sizes",
    "draw_weights",
    "draw_keys",
    "head_weights",
    "one",
    "output",
    "logits",
    "read",
    "weights",
    "query_key",
    "held",
    "lost",
    "reached",
    "overlaps",
    "norms",
    "gram",
    "directions",
    "log_activation",
}
