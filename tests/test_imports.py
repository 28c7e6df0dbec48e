"""`import attnscope` and `attnscope --help` stay light; the public list is complete and lazy."""

import subprocess
import sys

import pytest

import attnscope as at

HEAVY = ("jax", "sklearn", "matplotlib", "dask", "dash", "numba", "pandas", "scipy")


@pytest.mark.parametrize(
    "code",
    [
        "import attnscope",
        "import attnscope; attnscope.__version__; dir(attnscope)",
        "import sys; sys.argv = ['attnscope', '--help']\nfrom attnscope.cli import app\ntry:\n    app()\nexcept SystemExit:\n    pass",
    ],
)
def test_light_imports(code):
    check = f"\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, check=True).stdout
    assert out.strip().splitlines()[-1] == "[]"


def test_exact_erf_risk_needs_no_jax():
    code = "import attnscope as at, sys; at.risk(at.SingleLocation(400, 10), at.Erf(.1), at.Overlaps.oracle()); print('jax' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


def test_every_public_name_exists_and_is_documented():
    for name in at.__all__:
        thing = getattr(at, name)
        assert name == "__version__" or thing.__doc__, name
    assert set(at.__all__) <= set(dir(at))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        at.nothing
