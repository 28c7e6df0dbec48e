"""Whether a plugin keeps attnscope's contract: every entry point of a distribution is loaded and used.

`run` has `check_plugin`, which authors call in their tests and `attnscope check-plugin` on the
command line; `record` what comes out of a check; `settings` random arguments within declared ranges;
`sampled_risk` risks from sampled tokens; `task_checks`, `predictor_checks`, `claim_checks`,
`paper_checks` and `command_checks` what each kind must satisfy.

Everything random has a fixed seed, so that a result repeats. Sampled numbers are allowed 5 standard
errors, which new seeds would exceed with probability 6e-7 for a comparison; a task is compared about
100 times, so that a correct one would be reported with probability below 1e-4.
"""

from attnscope.plugin_checks.record import CheckRecord
from attnscope.plugin_checks.run import check_plugin

__all__ = ["CheckRecord", "check_plugin"]
