"""`import attnscope` and `attnscope --help` stay light; the public list is complete and lazy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

import attnscope as at

HEAVY = ("jax", "sklearn", "matplotlib", "dask", "dash", "numba", "pandas", "scipy")


@pytest.mark.parametrize(
    "code",
    [
        "import attnscope",
        "import attnscope; attnscope.__version__; dir(attnscope)",
        "import sys; sys.argv = ['attnscope', '--help']\nfrom attnscope.cli import app\ntry:\n    "
        "app()\nexcept SystemExit:\n    pass",
    ],
)
def test_light_imports(code):
    check = f"\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code + check], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip().splitlines()[-1] == "[]"


def test_exact_erf_risk_needs_no_jax():
    code = (
        "import attnscope as at, sys; at.risk(at.SingleLocation(400, 10), at.Erf(.1), "
        "at.Overlaps.oracle()); print('jax' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "False"


def test_a_first_train_loads_what_it_needs_alone():
    """scipy.stats takes half a second, pandas and JAX as much again: none of them is needed."""
    code = (
        "import attnscope as at, sys; at.train(at.SingleLocation(40, 10), at.Erf(.1), steps=20, "
        "log_every=20, step_size=1e-3); heavy = ('jax', 'pandas', 'scipy.stats', 'matplotlib'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    for name in at._MODULE_OF:
        thing = getattr(at, name)
        assert thing.__doc__, name
    assert set(at._MODULE_OF) >= at._UNLISTED
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        at.nothing


def typed_names() -> set[str]:
    """Public names that README, docs, examples, templates, claims and tours tell one to type."""
    folders = ("docs", "examples", "src/attnscope_claims", "src/attnscope_explorer")
    files = [ROOT / "README.md", *(ROOT / "src/attnscope/cli/templates").glob("*.txt")]
    for folder in folders:
        files += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".md", ".py", ".ipynb") and "_build" not in path.parts
        ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r"\bat\.([A-Za-z_]+)", text)) & set(at._MODULE_OF)


def test_completion_offers_what_the_documentation_tells_one_to_type():
    assert typed_names() - set(dir(at)) == set()
    assert {"open_bags", "run_experiment", "message_passing"} <= set(dir(at))


def test_help_is_a_map():
    assert len(at.__doc__.splitlines()) == 10
    named = set(re.findall(r"\bat\.([A-Za-z_]+)", at.__doc__))
    assert named <= set(dir(at))


def test_rooms_are_lazy_namespaces_and_say_what_they_are():
    code = (
        "import attnscope as at; at.theory.risk.risk; at.theory.risk_gradient; "
        "at.tasks.SingleLocation; print(at.theory.__doc__[:6])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "Exact"
    for room in at._SUBPACKAGES:
        assert len(getattr(at, room).__doc__.splitlines()) >= 3, room


def test_a_room_names_every_file_it_has():
    """A folder explains itself: every module is named in its room's docstring."""
    root = Path(at.__file__).parent
    for door in sorted(root.rglob("__init__.py")):
        if door.parent in (root, root / "cli") or "claims" in door.parts:
            continue  # found by name: claims; the commands name themselves
        text = door.read_text()
        missing = [
            p.stem
            for p in sorted(door.parent.glob("*.py"))
            if p.stem != "__init__" and f"`{p.stem}`" not in text
        ]
        assert not missing, f"{door.parent.name}: {missing}"


def test_the_stub_lists_every_name():
    tool = ROOT / "tools" / "make_stub.py"
    if not tool.exists():
        pytest.skip("the tools are not part of the wheel")
    assert subprocess.run([sys.executable, str(tool), "--check"]).returncode == 0
