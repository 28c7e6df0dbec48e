"""The wheel in an environment of its own with the base dependencies alone: how large it is, and that
everything of tests/helpers/base_calls.py holds there.
"""

import os
import subprocess
import sys
import venv

import pytest
from helpers.paths import ROOT

LIMIT_MB = 760  # what the base dependencies take, with an allowance for their next versions


def run(*words, folder):
    """What a command prints; no package of this process's path is in its way."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={name: x for name, x in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_works_with_its_base_dependencies_alone(tmp_path, capsys):
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("needs a checkout")
    pip = ("-m", "pip", "--disable-pip-version-check", "-q")
    run(sys.executable, *pip, "wheel", "--no-deps", "-w", tmp_path, ROOT, folder=tmp_path)
    [wheel] = tmp_path.glob("attnscope-*.whl")
    venv.create(tmp_path / "bare", with_pip=True)
    python = tmp_path / "bare" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    run(python, *pip, "install", "-c", constraints, wheel, folder=tmp_path)
    [packages] = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) / 1e6
    with capsys.disabled():
        print(f"\nsite-packages of the base install: {size:.0f} MB")
    assert size <= LIMIT_MB
    extra = [
        name
        for name in ("jax", "optax", "matplotlib", "jinja2", "mpmath")
        if (packages / name).exists()
    ]
    assert not extra
    said = run(python, ROOT / "tests" / "helpers" / "base_calls.py", folder=tmp_path)
    assert said.strip() == "fine; loaded of the extras: []"
    assert "single-location regression" in run(
        tmp_path / "bare" / "bin" / "attnscope", "risk", folder=tmp_path
    )
