"""Positional and semantic attention: who asked, and what is known here of the way they computed."""

from __future__ import annotations

from attnscope.claims.paper import Paper, Statement

KNOWN = "the authors' published code, by name"
OTHER = (
    "neither text nor constants were available; PositionalSemantic asks the same question with a "
    "definition and constants of ours, whose answers are new here"
)

PAPERS = {
    "positional": Paper(
        "Cui, Behrens, Krzakala, Zdeborova",
        "Cui, Behrens, Krzakala, Zdeborova, on the positional-semantic transition in attention",
        "code SPOC-group/positional-and-semantic-attention",
    ),
}

STATEMENTS = {
    "positional/transition": Statement(
        "positional",
        "transition (number not known)",
        KNOWN,
        "dot-product attention learns positions or meanings, with a transition between the two",
        missing=OTHER,
    ),
    "positional/quadrature": Statement(
        "positional",
        "diagram (number not known)",
        KNOWN,
        "the diagram is computed by quadrature in four dimensions at every point",
        missing=OTHER,
    ),
}
