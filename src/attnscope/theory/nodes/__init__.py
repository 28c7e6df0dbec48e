"""Risks of any planted task at any Gram matrix, on fixed nodes.

In reading order: `reads` (which projections a label looks at), `nodes` (the nodes and what the task
says there), `students` (the trained vectors' projections, given the teachers'), `node_risk` (the
risk and its error), `node_gradient` (the same nodes, differentiated), `node_routes` (as
a route of every planted task).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
