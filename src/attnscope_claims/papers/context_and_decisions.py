"""Around exchangeability: spatial context, decisions, agents, bounds without the length."""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, SECOND, Paper, Statement

PAPERS = {
    "tiles": Paper(
        "Tomaszewska et al. 2024",
        "Tomaszewska et al., on deep spatial context of attention in histopathology",
        "arXiv 2401.10044",
    ),
    "decisions": Paper(
        "Kong et al. 2023",
        "Kong et al., DF2: distribution-free decision-focused learning",
        "arXiv 2308.05889",
    ),
    "agents": Paper(
        "Liu et al. 2023",
        "Liu et al., Reason for Future, Act for Now",
        "arXiv 2309.17382",
    ),
    "lengths": Paper(
        "Trauger and Tewari 2023",
        "Trauger, Tewari, on generalisation bounds independent of the sequence length",
        "arXiv 2310.13088",
    ),
}

STATEMENTS = {
    "tiles/three-measures": Statement(
        "tiles",
        "three measures (number not known)",
        ABSTRACT,
        "measures that tell whether spatial context is in the features of neighbouring regions, "
        "in their attention scores or in residuals",
    ),
    "tiles/radius": Statement(
        "tiles",
        "experiments (number not known)",
        ABSTRACT,
        "the larger the neighbourhood, the less valuable contextual information is",
    ),
    "tiles/features-largest": Statement(
        "tiles",
        "experiments (number not known)",
        ABSTRACT,
        "spatial context is largest within the feature space",
        missing="said of slides of tissue, which do not come with package registries; which gain "
        "is largest depends on how scores were made (around-09)",
    ),
    "tiles/formula": Statement(
        "tiles",
        "definition of the measures (number not known)",
        SECOND,
        "the baseline is least squares of attention scores on the features of a patch",
        missing="the exact formula of the measures was not available: gain in R^2 stands for it",
    ),
    "decisions/errors": Statement(
        "decisions",
        "the three errors (number not known)",
        ABSTRACT,
        "decision-focused learning suffers from model mismatch, sample average approximation and "
        "gradient approximation errors",
    ),
    "decisions/attention": Statement(
        "decisions",
        "the architecture (number not known)",
        ABSTRACT,
        "an attention-based model learns the expected cost as a function of the action directly",
    ),
    "decisions/gradient": Statement(
        "decisions",
        "gradient approximation error (number not known)",
        ABSTRACT,
        "learning the expected cost avoids the error of approximate gradients",
        missing="nothing exact to say: around-12 trains nothing",
    ),
    "agents/regret": Statement(
        "agents",
        "theoretical analysis (number not known)",
        ABSTRACT,
        "an agent that reasons by learning and planning in Bayesian adaptive decision processes "
        "has sqrt(T) regret",
    ),
    "agents/planning": Statement(
        "agents",
        "the agent (number not known)",
        ABSTRACT,
        "it plans a trajectory over a long horizon, takes its first action, and replans",
    ),
    "agents/language-model": Statement(
        "agents",
        "experiments (number not known)",
        ABSTRACT,
        "a language model learns and plans from its memory",
        missing="the exact posterior stands in for it: nothing exact can be said of the model",
    ),
    "lengths/independent": Statement(
        "lengths",
        "the bounds (number not known)",
        ABSTRACT,
        "norm-based generalisation bounds that do not depend on the input sequence length; the "
        "best known ones grew with its logarithm",
    ),
    "lengths/constants": Statement(
        "lengths",
        "the bounds (number not known)",
        ABSTRACT,
        "their constants",
        missing="not available to us, so no value of the bound stands beside the complexity",
    ),
    "lengths/experiment": Statement(
        "lengths",
        "masked prediction and sparse majority (numbers not known)",
        ABSTRACT,
        "the bounds hold for masked prediction; an experiment on sparse majority",
        missing="no exact reduction: around-14 is one head on tokens +-1; with unbounded tokens "
        "the logarithm may be real",
    ),
}
