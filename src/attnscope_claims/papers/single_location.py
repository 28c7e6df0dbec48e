"""Marion et al. 2025: single-location regression."""

from __future__ import annotations

from attnscope.claims.paper import README, SECOND, SLIDES, Paper, Statement

PAPERS = {
    "A": Paper(
        "Marion et al. 2025",
        "Marion, Berthier, Biau, Boyer: Attention layers provably solve single-location "
        "regression, ICLR 2025",
        "arXiv 2410.01537 (v1 October 2024, v2 2025)",
    ),
}

STATEMENTS = {
    "A/section-2": Statement(
        "A",
        "Section 2, Figure 1",
        "the authors' README",
        "linear probes of an encoder's states: sentiment decided by one word of a sentence",
    ),
    "A/equation-5": Statement(
        "A",
        "Section 3, eq. (5)",
        SECOND,
        "the predictor is a full attention layer simplified step by step, through the [CLS] row",
    ),
    "A/theorem-1": Statement(
        "A",
        "Theorem 1",
        SECOND,
        "the risk of the erf predictor in closed form",
    ),
    "A/corollary-2": Statement(
        "A",
        "Corollary 2",
        "the regime from the authors' slides, the number second-hand",
        "the oracle is asymptotically Bayes optimal as d, lambda sqrt(d) -> infinity and "
        "lambda sqrt(L) -> 0",
    ),
    "A/proposition-3": Statement(
        "A",
        "Proposition 3",
        SECOND,
        "linear predictors fail on the task",
    ),
    "A/manifold": Statement(
        "A",
        "invariant manifold (number not known)",
        SLIDES,
        "the manifold of initial conditions with two overlaps zero is invariant under training",
    ),
    "A/theorem-5": Statement(
        "A",
        "Theorem 5",
        "informally in the authors' slides, the number second-hand",
        "projected gradient descent from the invariant manifold converges to +-(k*, v*)",
    ),
    "A/run-manifold": Statement(
        "A",
        "Section 5, experiment init-manifold",
        README,
        "from the manifold training reaches the oracle",
    ),
    "A/run-large": Statement(
        "A",
        "Section 5, experiment with large temperature",
        README,
        "from the spheres at a large temperature training does not reach the oracle",
    ),
    "A/run-small": Statement(
        "A",
        "Section 5, experiment with small temperature",
        README,
        "from the spheres at a small temperature training reaches the oracle only in part",
    ),
    "A/run-decreasing": Statement(
        "A",
        "Section 5, experiment with decreasing temperature",
        README,
        "with decreasing temperature training from the spheres reaches the oracle",
    ),
    "A/run-sgd": Statement(
        "A",
        "Section 5, experiment with stochastic gradients",
        README,
        "stochastic gradients with decreasing temperature behave like the full ones",
    ),
    "A/weights": Statement(
        "A",
        "behaviour of the trained weights (number not known)",
        SECOND,
        "the weights of the trained predictor concentrate on the informative token",
    ),
    "A/blocks": Statement(
        "A",
        "appendix, full softmax blocks (number not known)",
        SECOND,
        "full softmax layers trained on the task",
    ),
    "A/open-temperature": Statement(
        "A", "last slide, open question", SLIDES, "which temperature"
    ),
    "A/open-start": Statement(
        "A", "last slide, open question", SLIDES, "practical initialisation"
    ),
    "A/open-heads": Statement("A", "last slide, open question", SLIDES, "several heads"),
}
