"""Each kind of wrong number that 0.1.0 had is caught by the settings of the quick run;
deterministic.
"""

import pytest
from helpers.families import LONG, LONG_SEEDS, QUICK, stands

import attnscope as at
from stress.attack import all_subjects
from stress.planted import DEFECTS, Defect, Place, caught


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.kind} {defect.what}")
def test_caught(defect):
    found = caught(defect, QUICK, seed=0)
    assert found is not None, f"the run of {QUICK} settings does not see: {defect.what}"
    assert found.subject in defect.subjects


def test_kinds_are_all_there():
    assert [defect.kind for defect in DEFECTS] == list(range(1, 10))


def test_subjects_exist():
    names = {subject.name for subject in all_subjects()}
    for defect in DEFECTS:
        assert set(defect.subjects) <= names, defect.what


def test_a_planted_defect_goes_away():
    right = at.critical_inverse_temperature
    defect = DEFECTS[1]
    with defect.planted():
        assert at.critical_inverse_temperature is not right
    assert at.critical_inverse_temperature is right


def test_what_changes_nothing_is_not_caught():
    """The judge objects to the defect, not to being watched."""
    harmless = Defect(
        0,
        "nothing",
        (Place(at, "two_topic_error", lambda right: right),),
        ("two_topic_error",),
    )
    assert caught(harmless, 200, seed=0) is None


def test_quick():
    stands("corners", QUICK, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_long(seed):
    stands("corners", LONG, seed)
