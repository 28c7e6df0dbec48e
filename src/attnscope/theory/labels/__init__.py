"""What a label that others write contributes to a risk, with a bound.

In reading order: `carriers` (arrays that run through an author's NumPy code), `provenance_tags`
(which projections a label reads), `intervals`, `jet_functions` and `taylor_jets` (enclosures of a
label over whole cells), `quadrature` (its moments, cell by cell), `folded` (its weights on few
points, once per task), `moment_risk` and `moment_gradient` (risks and gradients from them).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
