"""Exchangeable tasks: the order of the tokens says nothing, or is given as positions.

In reading order: `gaussian_location`, `linear_map` with `latent_map`, `sphere_regression`,
`topics`, `topic_mixture` with `topic_values` and `topic_scores`, `positions`, `sparse_retrieval`;
and `drifting_map` with `slot_filter`, whose tokens have an order unless nothing drifts.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
