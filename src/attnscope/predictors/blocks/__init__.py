"""Whole sequence models, trained by `dynamics.networks`.

In reading order: `sequence_model` (what all share), `transformer`, `compared_models`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
