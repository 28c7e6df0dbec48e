"""Wang, Shi, Fox 2025: test-time regression."""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, Paper, Statement

PAPERS = {
    "regression": Paper(
        "Wang, Shi, Fox 2025",
        "Wang, Shi, Fox, on sequence layers as test-time regression",
        "arXiv 2501.12352",
    ),
}

STATEMENTS = {
    "regression/special-cases": Statement(
        "regression",
        "abstract",
        ABSTRACT,
        "layers perform test-time regression over their input tokens: linear attention, "
        "state-space models, fast weights, online learners and softmax attention are special cases "
        "by regression weights, function class and test-time algorithm",
        missing="a way of seeing, not a number: the operators here are written as such regressions "
        "(docs/memory.md), state-space models with gates that look at the tokens are not among them",
    ),
    "regression/interference": Statement(
        "regression",
        "abstract (number not known)",
        ABSTRACT,
        "linear attention fails to capture correlations between tokens",
    ),
    "regression/key-norm": Statement(
        "regression",
        "abstract (number not known)",
        ABSTRACT,
        "a justification of normalising queries and keys",
    ),
    "regression/higher-order": Statement(
        "regression",
        "abstract (number not known)",
        ABSTRACT,
        "softmax attention has higher-order generalisations",
    ),
    "regression/theorems": Statement(
        "regression",
        "the text beyond its opening",
        ABSTRACT,
        "theorems and experiments on trained layers",
        missing="the full text was not available; gates that look at the keys have no closed form "
        "here, only the Kalman filter as their floor",
    ),
}
