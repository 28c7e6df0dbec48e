"""Where a claim comes from, as data: which paper says what, where, and how we know.

A `Statement` is something a paper says, in our words, with its place there. We have not had the
full texts: where a number is known from reviews, slides or an abstract only, `known` says so, and
a place without a number says that none is known. A claim names the statements that it checks and
its relation to them:

    same           the statement, checked as it is
    sharpened      the statement with numbers, constants, rates or a condition that are ours
    contradicted   the statement fails as it stands
    new here       no statement of a paper; the ones named are what it is about

A formula of ours is attributed to nobody: `ours` says what a claim adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnscope.errors import bad

__all__ = ["PAPERS", "RELATIONS", "STATEMENTS", "Paper", "Provenance", "Statement"]

RELATIONS = ("same", "sharpened", "contradicted", "new here")
SECOND = "second-hand: public reviews"
README = "the authors' README and configuration"
SLIDES = "the authors' slides"
ABSTRACT = "abstract and public summaries"
QUOTED = "second-hand: as quoted in reviews"


@dataclass(frozen=True)
class Paper:
    """A paper, its short name, and the version we speak of."""

    name: str
    title: str
    version: str


@dataclass(frozen=True)
class Statement:
    """What a paper says, in our words; `place` and how it is known.

    missing: why no claim checks it, where none does.
    """

    paper: str
    place: str
    known: str
    says: str
    missing: str = ""


@dataclass(frozen=True)
class Provenance:
    """Of one claim: the statements it checks or is about (keys of STATEMENTS), and what is ours.

    >>> Provenance("same", ("A/theorem-1",)).line
    'Marion et al. 2025, Theorem 1 (second-hand: public reviews)'
    >>> Provenance("new here").line
    'new here'
    """

    relation: str
    of: tuple[str, ...] = ()
    ours: str = ""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise bad("relation", "Provenance", f"one of {RELATIONS}", self.relation)
        for key in self.of:
            if key not in STATEMENTS:
                raise bad("of", "Provenance", "keys of STATEMENTS", key)
        if self.relation != "new here" and not self.of:
            raise bad(
                "of", "Provenance", "a statement", "none", "'new here' where there is none"
            )

    @property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(STATEMENTS[key] for key in self.of)

    @property
    def paper(self) -> str:
        """The key of the first paper, or "" where the claim is about none."""
        return self.statements[0].paper if self.of else ""

    @property
    def line(self) -> str:
        """One line for tables."""
        told = [f"{PAPERS[s.paper].name}, {s.place} ({s.known})" for s in self.statements]
        about = "; ".join(told)
        if self.relation == "new here":
            return f"new here; about {about}" if about else "new here"
        return f"{about}; new here: {self.ours}" if self.ours else about

    def record(self) -> dict[str, Any]:
        """For verdicts.json."""
        first = self.statements[0] if self.of else None
        return {
            "relation": self.relation,
            "paper": PAPERS[first.paper].title if first else None,
            "version": PAPERS[first.paper].version if first else None,
            "place": first.place if first else None,
            "known": first.known if first else None,
            "paraphrase": first.says if first else None,
            "statements": list(self.of),
            "ours": self.ours,
        }


PAPERS = {
    "A": Paper(
        "Marion et al. 2025",
        "Marion, Berthier, Biau, Boyer: Attention layers provably solve single-location "
        "regression, ICLR 2025",
        "arXiv 2410.01537 (v1 October 2024, v2 2025)",
    ),
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
    # -- A: single-location regression
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
    # -- B: exchangeability
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
    # -- the papers around
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
