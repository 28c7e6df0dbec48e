"""Every public name says what it is and shows itself at work; the examples themselves are run as
doctests of their modules.
"""

import doctest
import inspect

import pytest

import attnscope as at

NAMES = [
    name
    for name in at._MODULE_OF
    if callable(getattr(at, name))  # neither the rooms, nor the version, nor a table
]
LONGEST = 4  # lines of the first paragraph: a summary, not an essay


@pytest.mark.parametrize("name", NAMES)
def test_a_summary_and_an_example_that_runs(name):
    text = inspect.getdoc(getattr(at, name))
    assert text, f"{name} has no docstring"
    summary = text.split("\n\n")[0]
    assert not summary.startswith(">>>"), f"{name}: a sentence comes first"
    assert len(summary.splitlines()) <= LONGEST, f"{name}: the summary is long"
    assert summary.rstrip()[-1] in ".:?)", f"{name}: the summary is a sentence"
    examples = doctest.DocTestParser().get_examples(text)
    run = [e for e in examples if doctest.SKIP not in e.options]
    said = [e for e in run if e.want]
    assert said, f"{name} has no example that runs and shows what comes out"
    used = any(name in e.source for e in examples) or not inspect.isroutine(getattr(at, name))
    assert used, f"{name}: the example of a function calls it"


def test_the_table_of_experiments_is_documented_where_it_is_run():
    assert set(at._MODULE_OF) - set(NAMES) == {"EXPERIMENTS"}
    assert "EXPERIMENTS" in inspect.getdoc(at.run_experiment)
