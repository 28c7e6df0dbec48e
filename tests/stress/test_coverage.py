"""Every public name that returns an Estimate, a probability, a posterior or a prediction has a
subject.

Found by introspection, not by a list: functions of the public names unless NOT_ANSWERS says why
not, and methods and properties of public classes whose annotation says Estimate or whose name says
that it answers (ANSWERS). A class in `covers` stands for all of its methods, and a method for the
same function under another name or inherited by another class.
"""

import inspect
import re
import types

import attnscope as at
from stress.attack import all_subjects

ANSWERS = re.compile(
    "posterior|predict|proba|risk|error|likelihood|interval|excess|locate|attention|average|variance"
    "|conditional_mean|covariance|^output$|^weights$|^rate$|escape|strength|threshold|^rows$|activation|sensitivity"
)
DATA = "reads or draws data"
WORK = "runs what other subjects attack, and stores or shows it"
READ = "read off states or settings that other subjects attack"
NOT_ANSWERS = {
    "antonym_pairs": DATA,
    "attach_positions": DATA,
    "bags_from_frame": DATA,
    "digit_bags": DATA,
    "digit_images": DATA,
    "draw_sentences": DATA,
    "hold_out": DATA,
    "load_mil": DATA,
    "load_model": DATA,
    "load_rated_text": DATA,
    "open_bags": DATA,
    "task_contexts": DATA,
    "text_bags": DATA,
    "token_states": (
        "hidden states of a given network; tests/corpora/test_minilm.py has its reference"
    ),
    "logistic_loss": "a loss function of the user's labels: defines, not computes",
    "squared_loss": "a loss function of the user's labels: defines, not computes",
    "plot_attention": WORK,
    "reproduce": WORK,
    "risk_landscape": WORK,
    "run_experiment": WORK,
    "sweep": WORK,
    "train_block": "stochastic training of a network: no true answer",
    "positional_sgd": "a simulation: tests/dynamics/test_positional_sgd.py has its law",
    "x64": "a switch",
    "simulated_alignment": "a simulation by name; two_step_alignment is the answer and is attacked",
    "AttnscopeError": "no function",
}
BLOCKS = ("DenseNet", "GatedRecurrent", "SimplifiedAttention", "TransformerBlock")
NOT_ANSWERING_METHODS = {
    "SingleLocation.linear_predictor": "coefficients of the predictor whose risk is linear_risk",
    "GradientFlow.excess": READ,
    "GradientFlow.risk": READ,
    "HeadTrajectory.risk": READ,
    "Trajectory.risk": READ,
    "Trajectory.last_excess": READ,
    "Trajectory.excess_is_cheap": "a yes or no",
    "Trajectory.escape": "a measured time of one run; escape_time is the prediction",
    "Trajectory.rate": "a fitted slope of one run; predicted_rate is the prediction",
    "SpikeMixture.has_exact_risk": "a yes or no",
    "SparseTokenClassification.max_threshold": (
        "where max_test_error is least: its value is attacked"
    ),
    "HeadTrajectory.risk_at": "heads_risk at the Gram matrix of a run",
    "OptimalSigma.activation": "the sigma that optimal_sigma returns, attacked there",
    "OptimalSigma.weights": "the sigma that optimal_sigma returns, attacked there",
    **{f"{block}.output": "what predict calls, in JAX" for block in BLOCKS},
    **{
        f"{block}.sensitivity": "a sample mean of gradients; by differences in tests/predictors/test_block_directions.py"
        for block in BLOCKS
    },
    "TransformerBlock.weights": "what TransformerBlock.attention calls, in JAX",
}


def public_answers(package: types.ModuleType) -> set[str]:
    """Names that promise a number and so need a subject."""
    found = set()
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.isclass(thing):
            found |= {
                f"{name}.{member}" for member in _answering_members(thing)
            } - NOT_ANSWERING_METHODS.keys()
        elif callable(thing) and name not in NOT_ANSWERS:
            found.add(name)
    return found


def _answering_members(cls: type) -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and _answers(name, member)
    }


def _answers(name: str, member: object) -> bool:
    function = member.fget if isinstance(member, property) else member
    if not inspect.isfunction(function) or not function.__module__.startswith(
        ("attnscope", __name__)
    ):
        return False  # a field, or inherited from another library
    return "Estimate" in str(function.__annotations__.get("return", "")) or bool(
        ANSWERS.search(name)
    )


def uncovered(package: types.ModuleType, covers: set[str]) -> set[str]:
    functions = {
        _function(package, name) for name in covers | NOT_ANSWERING_METHODS.keys()
    } - {None}
    return {
        name
        for name in public_answers(package)
        if not {name, name.split(".")[0]} & covers
        and _function(package, name) not in functions
    }


def _function(package: types.ModuleType, name: str) -> object:
    """The function behind a method's name; None for what is no method."""
    owner, _, member = name.partition(".")
    found = getattr(getattr(package, owner, None), member, None) if member else None
    return found if inspect.isfunction(found) else None


COVERED = {name for subject in all_subjects() for name in subject.covers}


def test_every_answer_has_a_subject():
    assert uncovered(at, COVERED) == set()


def test_subjects_cover_names_that_exist():
    for name in COVERED:
        owner, _, member = name.partition(".")
        assert owner in at._MODULE_OF, name
        fields = getattr(getattr(at, owner), "__annotations__", {}) if member else {}
        assert not member or hasattr(getattr(at, owner), member) or member in fields, name


def test_exceptions_are_needed():
    """No exception for what does not exist or is attacked after all."""
    assert NOT_ANSWERS.keys() <= set(at._MODULE_OF)
    assert not NOT_ANSWERS.keys() & COVERED
    for name in NOT_ANSWERING_METHODS:
        owner, _, member = name.partition(".")
        assert member in _answering_members(getattr(at, owner)), name
        assert name not in COVERED, name


class NewTask:
    """A task somebody adds tomorrow."""

    field: float = 0.0

    def bayes_risk(self) -> "at.Estimate": ...

    def novel(self) -> "at.Estimate": ...

    def posterior(self): ...

    def sample(self): ...


def test_a_new_name_without_a_subject_is_noticed():
    fake = types.ModuleType("fake")
    fake.NewTask = NewTask
    fake.new_function = lambda: None
    fake.__all__ = ["NewTask", "new_function"]
    wanted = {"new_function", "NewTask.bayes_risk", "NewTask.novel", "NewTask.posterior"}
    assert uncovered(fake, COVERED) == wanted
    assert uncovered(fake, COVERED | {"NewTask"}) == {"new_function"}
    assert uncovered(fake, COVERED | wanted) == set()
