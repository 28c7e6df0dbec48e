"""Three of the papers around exchangeability: topic structure, scaling on low-dimensional data,
infinite-dimensional input.
"""

from __future__ import annotations

from attnscope.claims.paper import ABSTRACT, QUOTED, Paper, Statement

PAPERS = {
    "topics": Paper(
        "Li, Li, Risteski 2023",
        "Li, Li, Risteski: How do transformers learn topic structure",
        "arXiv 2303.04245",
    ),
    "scaling": Paper(
        "Havrilla, Liao 2024",
        "Havrilla, Liao, on scaling laws of transformers on low-dimensional data",
        "2024",
    ),
    "infinite": Paper(
        "Takakura, Suzuki 2023",
        "Takakura, Suzuki, on transformers with infinite-dimensional input",
        "arXiv 2305.18699",
    ),
}

STATEMENTS = {
    "topics/embeddings": Statement(
        "topics",
        "abstract",
        ABSTRACT,
        "embeddings of words of one topic have a higher average inner product",
    ),
    "topics/attention": Statement(
        "topics",
        "abstract",
        ABSTRACT,
        "words of one topic attend to each other more on average",
    ),
    "topics/stages": Statement(
        "topics",
        "two stages of training (number not known)",
        QUOTED,
        "the values learn first, under uniform attention, then keys and queries",
        missing="each stage's end is exact here (around-06, around-07), not the time between them",
    ),
    "scaling/data": Statement(
        "scaling",
        "abstract",
        ABSTRACT,
        "the error falls with the number of data by a power law whose power depends on the "
        "intrinsic dimension",
    ),
    "scaling/size": Statement(
        "scaling",
        "abstract",
        ABSTRACT,
        "the error falls with the size of the network by a power law whose power depends on the "
        "intrinsic dimension",
        missing="no exact law of a network's size was found",
    ),
    "infinite/anisotropy": Statement(
        "infinite",
        "abstract",
        ABSTRACT,
        "targets of anisotropic smoothness are learnt without the curse of dimensionality",
    ),
    "infinite/sharing": Statement(
        "infinite",
        "abstract",
        ABSTRACT,
        "sharing parameters over positions is one reason",
    ),
    "infinite/features": Statement(
        "infinite",
        "abstract",
        ABSTRACT,
        "extracting features whose importance depends on the input is the other",
        missing="no exact reduction was found beyond single-location regression itself",
    ),
}
