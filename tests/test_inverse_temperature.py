"""The old name of the inverse temperature, `temperature`: until 0.5 every old spelling works, warns
once a call and means the same to the bit; both spellings together are refused; new ones say nothing.
"""

import dataclasses
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers.commands import run

import attnscope as at
from attnscope import registry
from attnscope.deprecated import new_name
from attnscope.dynamics.experiments import EXPERIMENTS
from attnscope.studies.functions import FUNCTIONS
from attnscope.studies.study import load_study
from attnscope.theory.optima.linear_optimum import linear_optimum
from attnscope_explorer.state import from_query

TASK = at.SingleLocation(dim=20, length=5)
SOMEWHERE = at.Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)
SENTENCE = "temperature is now inverse_temperature; the old name works until 0.5."
MATRIX = np.eye(2)

# what takes the keyword, with its other arguments
CONSTRUCTORS = {
    "Softmax": (at.Softmax, {}),
    "SoftmaxOne": (at.SoftmaxOne, {}),
    "SoftplusAttention": (at.SoftplusAttention, {}),
    "Erf": (at.Erf, {}),
    "LinearAttention": (at.LinearAttention, {"offset": 0.5}),
    "Componentwise": (at.Componentwise, {"sigma": np.tanh}),
    "BayesSoftmax": (at.BayesSoftmax, {"bias": (0.0, 0.3)}),
    "FullAttention": (at.FullAttention, dict.fromkeys("QKVO", MATRIX)),
    "TransformerBlock": (at.TransformerBlock, {"dim": 4}),
    "SimplifiedAttention": (at.SimplifiedAttention, {"dim": 4}),
    "FullMatrices": (
        at.FullMatrices,
        {"task": TASK, "inner": 2, "step_size": 0.01, "batch_size": 2},
    ),
}
FUNCTIONS_WITH_IT = {
    "basin_prediction": (at.basin_prediction, {"task": TASK, "overlaps": SOMEWHERE}),
    "oracle_regime": (at.oracle_regime, {"task": TASK}),
    "oracle_risk": (FUNCTIONS["oracle_risk"], {"dim": 20, "length": 5}),
    "outcomes": (
        FUNCTIONS["outcomes"],
        {"dim": 20, "length": 5, "runs": 2, "steps": 3, "start": "manifold"},
    ),
}
READ = {
    "predictor": (at.Erf(0.3), 0.3),
    "several heads": (at.MultiHead(at.Softmax(0.3), 2), 0.3),
    "block": (at.TransformerBlock(4, inverse_temperature=2.0), 2.0),
    "gradient": (g := at.risk_gradient(TASK, at.Erf(0.3), SOMEWHERE), g.inverse_temperature),
    "linear optimum": (best := linear_optimum(TASK), best.inverse_temperature),
    "experiment": (EXPERIMENTS["init_manifold"], 0.1),
    "reference": (
        row := at.reference_risks(TASK, at.Erf(0.3), at.Erf)[2],
        row.inverse_temperature,
    ),
}


def warned(call, sentence=SENTENCE):
    """What the call returns, after exactly one warning, which names the caller's line."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = call()
    assert [str(w.message) for w in seen] == [sentence]
    assert seen[0].category is DeprecationWarning
    assert seen[0].filename == __file__
    return out


def silent(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_take_the_old_keyword(name):
    kind, others = CONSTRUCTORS[name]
    new = silent(lambda: kind(inverse_temperature=0.5, **others))
    old, again = (warned(lambda: kind(temperature=0.5, **others)) for _ in range(2))
    assert (
        old.inverse_temperature == again.inverse_temperature == new.inverse_temperature == 0.5
    )
    assert warned(lambda: old.temperature) == 0.5
    with pytest.raises(
        at.AttnscopeError, match=f"^inverse_temperature of {name} must be given once"
    ):
        kind(temperature=0.5, inverse_temperature=0.5, **others)


@pytest.mark.parametrize("name", FUNCTIONS_WITH_IT)
def test_functions_take_the_old_keyword(name):
    function, others = FUNCTIONS_WITH_IT[name]
    new = silent(lambda: function(inverse_temperature=0.5, **others))
    assert warned(lambda: function(temperature=0.5, **others)) == new
    with pytest.raises(at.AttnscopeError, match="must be given once, got temperature too"):
        function(temperature=0.5, inverse_temperature=0.5, **others)


@pytest.mark.parametrize("name", READ)
def test_attributes_are_read_by_the_old_name(name):
    thing, expected = READ[name]
    assert warned(lambda: thing.temperature) == expected


def test_runs_are_read_by_the_old_name_and_tables_have_the_new_one():
    run_ = silent(
        lambda: at.train(TASK, at.Erf(0.3), steps=4, runs=2, log_every=2, progress=False)
    )
    assert warned(lambda: run_.temperature).tolist() == [0.3] * 3
    assert "inverse_temperature" in run_.to_frame().columns


@pytest.mark.parametrize("name", ["optimal", "critical", "correlated"])
@pytest.mark.parametrize("package", [at, at.theory], ids=["at", "at.theory"])
def test_functions_are_found_by_their_old_names(package, name):
    old = f"{name}_temperature"
    sentence = f"{old} is now {name}_inverse_temperature; the old name works until 0.5."
    assert warned(lambda: getattr(package, old), sentence) is getattr(at, new_name(old))
    assert old not in dir(package)


def test_a_field_can_be_replaced_by_the_old_name():
    block = at.TransformerBlock(4, inverse_temperature=2.0)
    assert (
        warned(lambda: dataclasses.replace(block, temperature=3.0)).inverse_temperature == 3.0
    )
    assert warned(
        lambda: dataclasses.replace(at.Softmax(1.0), temperature=3.0)
    ) == at.Softmax(3.0)


def test_engines_take_the_old_keyword():
    engine = at.PopulationExact(TASK, at.Erf(0.3), step_size=0.01)
    state = (
        engine.start(np.array([[0.5, 0.1, 0.2, 0.6, -0.1]]).T)
        if hasattr(engine, "start")
        else {"overlaps": np.array([[0.5, 0.1, 0.2, 0.6, -0.1]]).T, "step": 0}
    )
    lams = np.full(3, 0.3)
    new = silent(lambda: engine.advance(state, inverse_temperatures=lams))
    sentence = "temperatures is now inverse_temperatures; the old name works until 0.5."
    old = warned(lambda: engine.advance(state, temperatures=lams), sentence)
    assert np.array_equal(old["overlaps"], new["overlaps"])


# -- predictors that were written for 0.2 ----------------------------------------------------------


def test_a_predictor_with_a_field_of_the_old_name():
    def defined():
        @dataclasses.dataclass(frozen=True)
        class Mine(at.Softmax):
            temperature: float = 0.5
            slope: float = 2.0

        return Mine

    kind = warned(defined)
    assert kind(0.3).inverse_temperature == 0.3 and kind().inverse_temperature == 0.5
    assert warned(lambda: kind(temperature=0.3)) == kind(0.3)
    assert kind(0.3, 4.0).slope == 4.0
    assert at.risk(TASK, kind(0.3), SOMEWHERE).value == pytest.approx(
        at.risk(TASK, at.Softmax(0.3), SOMEWHERE).value, rel=1e-9
    )


class Ramp(at.Componentwise):
    """Its constructor and its own call of the constructor use the old name."""

    def __init__(self, temperature):
        super().__init__(np.tanh, temperature=temperature)


def test_a_predictor_with_an_argument_of_the_old_name():
    for made in (lambda: Ramp(0.3), lambda: Ramp(temperature=0.3)):
        assert warned(made).inverse_temperature == 0.3
    entry = warned(
        lambda: registry.Entry("ramp", Ramp, "a ramp", (registry.TEMPERATURE,)),
        "TEMPERATURE is now INVERSE_TEMPERATURE; the old name works until 0.5.",
    )
    assert warned(lambda: entry.make({"inverse_temperature": 0.3})).inverse_temperature == 0.3


def test_a_registered_argument_of_the_old_name():
    own = registry.Argument("temperature", "Temperature", 0.1, 0, 1e50)
    entry = registry.Entry("old-softmax", at.Softmax, "softmax", (own,))
    try:
        added = warned(lambda: registry.add(entry, registry.PREDICTORS))
        assert added.make({"inverse_temperature": 0.3}) == at.Softmax(0.3)
    finally:
        registry.remove("old-softmax", registry.PREDICTORS)


def test_flat_arguments_of_the_old_name():
    entry = registry.PREDICTORS["softmax"]
    assert warned(lambda: entry.make({"temperature": 0.3})) == at.Softmax(0.3)
    with pytest.raises(at.AttnscopeError, match="must be given once, got temperature too"):
        entry.make({"temperature": 0.3, "inverse_temperature": 0.3})


# -- commands, studies, links ----------------------------------------------------------------------

SMALL = ("--dim", "12", "--length", "4")


OPTION = "--temperature is now --inverse-temperature; the old name works until 0.5."


@pytest.mark.parametrize("typed", [("--temperature", "0.5"), ("--temperature=0.5",)])
def test_the_command_takes_the_old_option(typed):
    with pytest.warns(DeprecationWarning, match="works until") as seen:
        code, old, _ = run("risk", *SMALL, *typed, "--json")
    assert code == 0 and [str(w.message) for w in seen] == [OPTION]
    code, new, said = silent(
        lambda: run("risk", *SMALL, "--inverse-temperature", "0.5", "--json")
    )
    assert (code, said) == (0, "") and old == new


def test_the_terminal_shows_the_sentence_and_nothing_else():
    """Python hides deprecation warnings; a command prints them on stderr."""
    command = [sys.executable, "-m", "attnscope.cli", "risk", *SMALL]
    done = subprocess.run(
        [*command, "--temperature", "0.5"], capture_output=True, text=True, check=True
    )
    assert done.stderr == f"{OPTION}\n"


def test_the_command_refuses_both_options():
    code, _, said = run(
        "risk", *SMALL, "--temperature", "0.5", "--inverse-temperature", "0.5"
    )
    assert code == 2
    assert "--inverse-temperature of attnscope risk must be given once" in said


OLD_STUDY = """
function = "{function}"
[grid]
dim = [20, 40]
[fixed]
length = 5
{fixed}
[figure]
kind = "line"
x = "dim"
value = "{value}"
"""


def test_a_study_with_the_old_key(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        OLD_STUDY.format(function="oracle_risk", fixed="temperature = 0.3", value="risk")
    )
    old = warned(lambda: load_study(path))
    path.write_text(path.read_text().replace("temperature", "inverse_temperature"))
    new = silent(lambda: load_study(path))
    assert list(old.cells) == list(new.cells)
    path.write_text(path.read_text().replace("length = 5", "length = 5\ntemperature = 0.3"))
    with pytest.raises(at.AttnscopeError, match="must be given once, got temperature too"):
        load_study(path)


def test_a_study_of_a_function_with_an_old_name(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        OLD_STUDY.format(
            function="optimal_temperature", fixed="", value="optimal_temperature"
        )
    )
    study = warned(lambda: load_study(path))
    assert study.function is FUNCTIONS["optimal_inverse_temperature"]
    assert study.figure["value"] == "optimal_inverse_temperature"


def test_a_study_of_a_users_function_keeps_its_own_names(tmp_path, monkeypatch):
    (tmp_path / "heated.py").write_text(
        "def melted(temperature):\n    return {'y': temperature}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text('function = "heated:melted"\n[grid]\ntemperature = [1.0, 2.0]\n')
    study = silent(lambda: load_study(path))
    assert [cell["temperature"] for cell in study.cells] == [1.0, 2.0]


def test_a_link_of_0_2_opens_the_same_page():
    old, sentences = from_query("risk", "temperature=0.3&against=temperature&tuning=fixed")
    assert sentences == [SENTENCE]
    new, sentences = from_query(
        "risk", "inverse_temperature=0.3&against=inverse_temperature&tuning=fixed"
    )
    assert (old, sentences) == (new, [])
