"""Training as an exact low-dimensional process.

In reading order: `train` (the door), `setup`, `engine` (the contract), `engine_table` (which serves
which), `loop`, `runs`, `trajectory`, `starts`, `schedule`, `diagnose`, `rates`, `saved`,
`experiments`; the engines `population_erf`, `reduced_erf`, `sgd_erf` (compiled),
`population_exact`, `generic`, `planted_sgd` (in law), `full`, `full_heads`, `full_planted`,
`planted_engine`, `matrices` (vectors), with `losses`, `jax_steps` and `realised`; `heads` (several
heads), `gradient_flow`; the networks `attention_model`, `blocks`, `length_curves`. Imports
`theory`; imported by `estimators` and above.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
