"""Around exchangeability: learning linear attention, sparse retrieval in context."""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, SECOND, Paper, Statement

PAPERS = {
    "polynomial": Paper(
        "Yau et al. 2024",
        "Yau et al., Learning linear attention in polynomial time, NeurIPS 2025",
        "arXiv 2410.10101",
    ),
    "retrieval": Paper(
        "Abernethy et al. 2023",
        "Abernethy et al., on sparse retrieval in context",
        "arXiv 2305.17040",
    ),
}

STATEMENTS = {
    "polynomial/linear-predictor": Statement(
        "polynomial",
        "linear attention as a linear predictor (number not known)",
        ABSTRACT,
        "linear attention is a linear predictor in a suitable space of functions, and any such "
        "predictor can be turned back into heads",
    ),
    "polynomial/identifiable": Statement(
        "polynomial",
        "identifiability (number not known)",
        ABSTRACT,
        "data sets can be recognised on which every empirical risk minimiser is the same, up to "
        "trivial symmetries",
    ),
    "polynomial/heads": Statement(
        "polynomial",
        "heads by singular values (number not known)",
        SECOND,
        "at most d^2 heads, by a singular value decomposition",
    ),
    "polynomial/learning": Statement(
        "polynomial",
        "learning guarantees (number not known)",
        ABSTRACT,
        "linear transformers are learnt in polynomial time, universal machines among them",
        missing="the theorems were not available in full; of their content the optimum, the "
        "certificate and the heads are checked",
    ),
    "retrieval/sample-complexity": Statement(
        "retrieval",
        "sample complexity (number not known)",
        ABSTRACT,
        "a transformer infers a sparse linear regressor from the examples of a prompt and applies "
        "it, with guarantees on how many examples that takes",
    ),
    "retrieval/segmentation": Statement(
        "retrieval",
        "segmentation (number not known)",
        ABSTRACT,
        "the transformer segments the prompt into examples and labels",
        missing="no exact form of the segmentation was found",
    ),
}
