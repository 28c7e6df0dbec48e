"""Risks of any planted task at any Gram matrix, on fixed nodes.

In reading order: `reads` (asking a label), `midpoint` (rules for what one token adds), `apart`
(tokens that need no nodes), `nodes` (the nodes and what the task says there), `students` (the trained
vectors' projections, given the teachers'), `node_risk` (the risk and its error), `node_gradient`
(the same nodes, differentiated), `node_routes` (as the last row of the route table).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
