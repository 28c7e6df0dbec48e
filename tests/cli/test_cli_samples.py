"""`attnscope curve` as a user types it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import attnscope as at
from attnscope.cli import app
from attnscope.errors import AttnscopeError

SMALL = ("curve", "--length", "3", "--strength", "5", "--noise", "0.31622776601683794")


def run(*arguments):
    return CliRunner().invoke(app, [*SMALL, *arguments])


def test_the_table_fits_80_columns_and_shows_the_known_numbers():
    """Bayes column: learning_curve's own doctest, which message passing attains (samples-01)."""
    found = run("--alpha", "0.5,1,2,4", "--dim", "100")
    assert found.exit_code == 0, found.output
    assert max(map(len, found.output.splitlines())) <= 80
    for words in ("0.7465", "0.4825", "0.2567", "0.1878", "0.9006", " 400 "):
        assert words in found.output


def test_json_holds_every_number_of_the_library():
    found = json.loads(run("--alpha", "0.5:2:3", "--json").stdout)
    task = at.SingleLocation.spiked(1000, 3, 5.0, noise=0.31622776601683794)
    curve = at.learning_curve(task, np.geomspace(0.5, 2.0, 3))
    (told,) = found["curves"]
    assert told["excess"] == curve.risk.excess.tolist()
    assert told["key_overlap"] == curve.key_overlap.tolist()
    assert told["stability"] == [None] * 3 and told["refused"] == []
    assert found["thresholds"] == {"reachable": None, "possible": None, "informed": None}
    assert found["population_bayes"]["excess"] == task.bayes_risk().excess


@pytest.mark.slow
def test_a_hard_phase_is_told_and_drawn(tmp_path):
    path = tmp_path / "curve.svg"
    given = ("curve", "--length", "5", "--strength", "1", "--noise", "0.01")
    found = CliRunner().invoke(app, [*given, "--alpha", "1:3:9", "--plot", str(path)])
    assert found.exit_code == 0, found.output
    assert "message passing from 1.957" in " ".join(found.output.split())
    assert "hard phase" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--alpha", "8:0.25"), "--alpha"),
        (("--alpha", "0"), "alpha"),
        (("--alpha", "one"), "--alpha"),
        (("--predictors", "bayes,bayes"), "--predictors"),
        (("--predictors", "erf"), "--predictors"),
        (("--ridge", "0"), "--ridge"),
        (("--plot", "no/such/folder.svg"), "--plot"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    found = run(*arguments)
    assert isinstance(found.exception, AttnscopeError), found.output
    assert words in str(found.exception) and " must be " in str(found.exception)
