"""Which formula serves which predictor on which task.

`table` is the mechanism (Route, add_route, find_route), `shipped` has the rows of this library. Both
together are `attnscope.theory.route`, the import path for authors.
"""
