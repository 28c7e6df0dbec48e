"""Optima and geometry of the risk.

In reading order: `optimum` (the best inverse temperature), `optimal_sigma` (the best activation),
`linear_optimum`, `heads_minimum`, `landscape` with `stationary`, `swapped` and `sphere_hessian`
(stationary points), `planted_points` with `planted_spheres` (those of any planted task),
`risk_plane` (the figure), `oracle_saddle`, `stable_step` (of descent at the minima).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
