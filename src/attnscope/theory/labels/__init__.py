"""What a label that others write contributes to a risk, with a bound.

In reading order: `carriers` (arrays that run through an author's NumPy code), `provenance_tags`
(which projections a label reads), `intervals`, `jet_functions` and `taylor_jets` (enclosures of a
label over whole cells), `quadrature` (its moments, cell by cell), `declared_cells` (cells where
jets cannot follow it), `label_blocks` (the label of a task, by value of the latent), `folded` (its
weights on few points, once per task), `token_kinds` (what a head sees of the tokens),
`componentwise_moments` and `normalised_moments` (moments of the two kinds of heads), `moment_risk`
(risks from them), `label_slopes`, `componentwise_slopes`, `normalised_slopes` and `moment_gradient`
(gradients).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
