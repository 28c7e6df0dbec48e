"""The papers around single-location regression: softmax, heads, sparse tokens."""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, QUOTED, Paper, Statement

PAPERS = {
    "C": Paper(
        "Duranthon et al. 2026",
        "Duranthon, Marion, Boyer, Loureiro, Zdeborova: Statistical Advantage of Softmax "
        "Attention, ICLR 2026",
        "arXiv 2509.21936",
    ),
    "D": Paper(
        "Sagitova et al. 2026",
        "Sagitova, Duranthon, Zdeborova, on the specialisation of heads",
        "arXiv 2603.03993",
    ),
    "E": Paper(
        "Barnfield et al. 2026",
        "Barnfield, Cui, Lu, on sparse tokens and attention, ICLR 2026",
        "arXiv 2509.25153",
    ),
    "F": Paper("Mousavi-Hosseini et al. 2025", "Mousavi-Hosseini et al., 2025", "as quoted"),
    "G": Paper("Wang et al. 2024", "Wang et al., 2024 (sparse token selection)", "as quoted"),
}

STATEMENTS = {
    "C/bayes": Statement(
        "C", "Proposition 4.2 and Corollary 4.3", QUOTED, "softmax attains the Bayes risk"
    ),
    "C/linear": Statement(
        "C",
        "best linear attention (number not known)",
        QUOTED,
        "its risk decays polynomially in the spike",
    ),
    "C/random-length": Statement(
        "C",
        "random length (number not known)",
        QUOTED,
        "random length hurts unnormalised activations",
    ),
    "C/activations": Statement(
        "C",
        "other activations (number not known)",
        QUOTED,
        "normalisation and exponential growth are both needed",
    ),
    "D/specialisation": Statement(
        "D", "specialisation of heads (number not known)", ABSTRACT, "heads specialise"
    ),
    "D/bayes-softmax": Statement(
        "D",
        "Bayes-softmax and softmax-1 (number not known)",
        ABSTRACT,
        "a softmax over heads and tokens together",
    ),
    "E/errors": Statement(
        "E",
        "linear and attention thresholds (number not known)",
        ABSTRACT,
        "linear classifiers need signals of order sqrt(L), attention of order log L",
    ),
    "E/two-steps": Statement(
        "E", "two gradient steps (number not known)", ABSTRACT, "two steps align the query"
    ),
    "F/heads": Statement(
        "F", "as quoted (number not known)", QUOTED, "sums over q sparse tokens need q heads"
    ),
    "G/selection": Statement(
        "G",
        "as quoted (number not known)",
        QUOTED,
        "attention selects sparse tokens where fully connected nets cannot",
    ),
}
