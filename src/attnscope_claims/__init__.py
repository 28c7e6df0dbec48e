"""The claims of attnscope and the papers they come from, found by entry points as anybody's are.

One file per claim, in the folder of its family: `slr/` (single-location regression), `exch/`
(exchangeability), `beyond/` (questions the papers left open), `samples/` (learning curves in the
number of bags), `around/` (the papers around). The name of a file is the id of its claim. `papers/`
says what the papers say, `pages` which page of the documentation has the mathematics of a claim;
`panels`, `attention_fits`, `noise_floor`, `softmax_heads` and `sphere_errors` are what several claims
share.
"""

from attnscope_claims.pages import docs_page

__all__ = ["FAMILIES", "docs_page"]

FAMILIES = ("slr", "exch", "beyond", "samples", "around")  # in the order of the report
