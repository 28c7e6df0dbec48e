"""Which page of the documentation holds the mathematics of a claim."""

from __future__ import annotations

import fnmatch

__all__ = ["docs_page"]

PAGES = (  # the first pattern that matches decides
    ("slr-01-*", "predictors"),
    ("slr-0[234]-*", "risk"),
    ("slr-1[34]-*", "risk"),
    ("slr-17-*", "risk"),
    ("slr-20-*", "cramer_rao"),
    ("slr-*", "training"),
    ("exch-0[789]-*", "learning"),
    ("exch-1[014567]-*", "learning"),
    ("exch-*", "exchangeability"),
    ("beyond-0[1-7]-*", "several_tokens"),
    ("beyond-0[89]-*", "heads"),
    ("beyond-1[012]-*", "sparse_and_correlated"),
    ("beyond-1[345]-*", "blocks"),
    ("beyond-1[67]-*", "text"),
    ("beyond-1[89]-*", "positional_semantic"),
    ("beyond-20-*", "positional_semantic"),
    ("around-0[12]-*", "memory"),
    ("around-09-*", "papers_around"),
    ("around-1[234]-*", "papers_around"),
    ("samples-*", "learning_curves_in_samples"),
    ("around-0[67]-*", "topic_mixture"),
    ("around-08-*", "kernel_curves"),
    ("around-1[01]-*", "kernel_curves"),
    ("around-0[34]-*", "linear_attention"),
    ("around-05-*", "retrieval"),
)


def docs_page(claim_id: str) -> str:
    """Name of the page (docs/NAME.md).

    >>> docs_page("slr-13-swapped-beats-oracle")
    'risk'
    """
    return next(
        (page for pattern, page in PAGES if fnmatch.fnmatch(claim_id, pattern)), "claims"
    )
