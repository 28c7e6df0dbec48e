"""Whole sequence models, trained by `dynamics.networks`.

In reading order: `sequence_model` (what all share), `transformer`, `compared_models`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
