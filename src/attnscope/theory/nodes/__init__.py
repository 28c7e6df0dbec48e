"""Risks of any planted task at any Gram matrix, on fixed nodes.

In reading order: `label_inputs` (evaluating a label), `midpoint` (rules for what one token adds),
`unread_tokens` (tokens that need no nodes), `nodes` (the nodes and the labels there),
`student_gram` (the trained vectors' projections, given the teachers'), `node_risk` (the risk and
its error), `node_gradient` (the same nodes, differentiated), `node_routes` (the last row of the
route table).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
