"""The public border: what comes in is checked, what goes out has an error.

In reading order: `validation` (one sentence for each bad input), `context_arrays` (arrays whose
context may be empty), `estimate` (a number with its error), `sampled_estimate` (the same from
draws), `sampled_mean` (the mean of draws that cannot be negative, with what they did not show),
`x64` (float64 without global state), `whole_values` (traced, masked and missing values refused),
`array_files` (.npz files of strangers).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
