"""What n samples buy: `cramer_rao` (the limit of every estimator), `two_steps` (two
gradient steps from zero).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
