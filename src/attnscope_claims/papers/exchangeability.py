"""Zhang et al. 2022 and 2023: exchangeable tokens, in-context learning by model averaging."""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, SECOND, Paper, Statement

PAPERS = {
    "B": Paper(
        "Zhang et al. 2022",
        "Zhang, Liu, Cai, Wang, Wang: An Analysis of Attention via the Lens of Exchangeability "
        "and Latent Variable Models",
        "arXiv 2212.14852 (v3 2024)",
    ),
    "B2": Paper(
        "Zhang et al. 2023",
        "Zhang et al., the follow-up on in-context learning by model averaging",
        "arXiv 2305.19420",
    ),
}

STATEMENTS = {
    "B/exchangeable": Statement(
        "B",
        "question (a)",
        ABSTRACT,
        "exchangeable tokens come from a latent variable model that does not depend on their "
        "number",
    ),
    "B/positions": Statement(
        "B",
        "question (a)",
        ABSTRACT,
        "positional encodings make tokens exchangeable, as in BERT and ViT",
    ),
    "B/sufficient": Statement(
        "B",
        "question (a)",
        ABSTRACT,
        "the posterior of the latent is a sufficient representation",
    ),
    "B/minimal": Statement(
        "B",
        "question (a)",
        ABSTRACT,
        "the posterior of the latent is a minimal representation",
    ),
    "B/inference": Statement(
        "B",
        "question (b)",
        ABSTRACT,
        "attention with the desired parameter infers the posterior up to an error that "
        "decreases in the input length",
    ),
    "B/generalisation": Statement(
        "B",
        "question (c)",
        ABSTRACT,
        "supervised and self-supervised empirical risk minimisers learn the parameter with a "
        "generalisation error independent of the input length",
    ),
    "B/condition": Statement(
        "B",
        "question (c)",
        ABSTRACT,
        "a condition number governs how errors transfer to downstream tasks",
    ),
    "B/decomposition": Statement(
        "B",
        "question (c)",
        ABSTRACT,
        "excess risk = generalisation + approximation + optimisation",
        missing="no claim adds the three parts up; exch-15 measures the first alone",
    ),
    "B/segmentation": Statement(
        "B",
        "prompts and how they are segmented (place not known)",
        ABSTRACT,
        "prompts cut into parts are again exchangeable",
        missing="needs a law of prompts that the abstract does not give",
    ),
    "B/benchmarks": Statement(
        "B",
        "experiments on real data (place not known)",
        ABSTRACT,
        "the theory beside real long-range benchmarks",
        missing="no benchmark data comes with package registries; beyond-15 is synthetic",
    ),
    "B2/model": Statement(
        "B2",
        "attention as empirical conditional mean embedding (number not known)",
        ABSTRACT,
        "in a Gaussian linear model attention is the empirical conditional mean embedding",
    ),
    "B2/proposition-4.3": Statement(
        "B2",
        "Proposition 4.3",
        SECOND,
        "softmax attention equals the conditional mean embedding up to an absolute constant, "
        "in the limit of long inputs",
    ),
    "B2/corollary-4.2": Statement(
        "B2", "Corollary 4.2", SECOND, "model-averaging regret is at most log|Z|/t"
    ),
}
