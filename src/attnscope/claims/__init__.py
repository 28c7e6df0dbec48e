"""What a claim is, and what came of it: the classes that authors of claims use.

`claim` (a claim, its comparisons and evidence), `sentence` (statements tied to comparisons), `series`
(predicted and measured values along an axis), `compare` (comparisons that many claims make), `table`,
`numbers` (numbers as people read them), `paper` and `provenance` (where a claim comes from),
`registry` (which claims there are), `verdict`, `verdict_table` and `verdict_cards` (what came of
them). The claims themselves are in the package attnscope_claims and in plugins.

Imports `figures` and below; imported by `report` and `reproduction`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
