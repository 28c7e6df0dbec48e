"""The estimators on small and nasty bags: deterministic, no false alarms."""

from helpers.families import family_tests

test_quick, test_long = family_tests("estimators")
