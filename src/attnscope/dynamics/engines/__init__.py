"""Engines: each advances the state of training by steps.

In reading order: `engine` (the contract), `engine_table` (which engine serves which task and predictor); compiled
`population_erf`, `population_linear`, `sgd_erf`, `head_sums`, `sgd_heads`,
`compiled_heads`, `positional_loop`; in law `population_exact`, `population_gram`, `gram_engine`,
`gram_sgd`, `planted_engine`, `planted_sgd`; on the vectors themselves
`full_vectors`, `pair_vectors`, `full_heads`, `full_planted`; with `losses`, `jax_stepper`, `vectors_from_gram`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
