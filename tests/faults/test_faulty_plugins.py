"""Installed packages that do what they should not: one sentence names them, and every command works."""

import json
import subprocess
import sys

from helpers.papers import write_metadata

MODULES = {
    "exits": "import sys\nsys.exit(3)\n",
    "exits in words": "raise SystemExit('gone')\n",
    "base": "class Gone(BaseException):\n    pass\n\n\nraise Gone('away')\n",
    "mute": "class Mute(Exception):\n    def __str__(self):\n        raise self\n\n\nraise Mute\n",
    "loud": "import os\nprint('{loud')\nos.write(1, b'{louder')\nos.system('echo {loudest')\n",
    "syntax": "def (\n",
    "colours": "raise RuntimeError('\\x1b[2J\\nred')\n",
}
GROUPS = ("tasks", "predictors", "claims", "papers", "commands", "tours")
LISTS = (("tasks", "--json"), ("claims", "--json"), ("risk", "--length", "2", "--json"))


def install(site, name, source, points=None):
    """A distribution with this module, announced in every group."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(source)
    announced = points or "".join(
        f"[attnscope.{g}]\n{name}-{g} = {name}:thing\n" for g in GROUPS
    )
    write_metadata(site, name, "1", announced)


def command(site, *words):
    """(exit code, stdout, stderr) of the command line in a process of its own."""
    code = f"import sys; sys.path.append({str(site)!r}); sys.argv[0] = 'attnscope'\n"
    code += "from attnscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_faulty_modules_break_no_list(tmp_path):
    """All at once: each is named where it would have been listed, and the list is JSON."""
    site = tmp_path / "site"
    names = {what: f"faulty{i}" for i, what in enumerate(MODULES)}
    for what, name in names.items():
        install(site, name, MODULES[what])
    for words in LISTS[:2]:
        code, printed, said = command(site, *words)
        assert code == 0, said
        assert json.loads(printed)
        lines = said.splitlines()
        assert all("\x1b" not in line for line in lines)
        for what, name in names.items():
            assert any(name in line for line in lines), (what, said)
    code, printed, said = command(site, "--help")
    assert code == 0 and all(f"{name}-commands" in printed for name in names.values())
    code, _, said = command(site, f"{names['exits']}-commands")
    assert code == 2 and said.count("\n") == 1 and "SystemExit: 3" in said


def test_faulty_modules_are_not_loaded_by_other_commands(tmp_path):
    site = tmp_path / "site"
    install(site, "faulty", MODULES["exits"])
    code, printed, said = command(site, *LISTS[2])
    assert (code, said) == (0, "") and json.loads(printed)


GARBLED = {
    "no group": "name = value\n[attnscope.tasks]\nx\n",
    "no equals sign": "[attnscope.tasks]\nnonsense\n",
    "no text": b"\xff\xfe\x00garbled",
    "no colon": "[attnscope.tasks]\nx = ::::\n[attnscope.claims]\ny = !\n",
    "empty": "",
}


def test_garbled_entry_points_of_any_package_break_nothing(tmp_path):
    """Nor does metadata without a name."""
    site = tmp_path / "site"
    names = {what: f"bystander{i}" for i, what in enumerate(GARBLED)}
    for what, name in names.items():
        write_metadata(site, name, "1", "")
        content = GARBLED[what]
        content = content if isinstance(content, bytes) else content.encode()
        (site / f"{name}-1.dist-info" / "entry_points.txt").write_bytes(content)
    install(site, "nameless", "thing = 1\n")
    (site / "nameless-1.dist-info" / "METADATA").unlink()
    code, printed, said = command(site, "tasks", "--json")
    assert code == 0 and json.loads(printed)
    lines = said.splitlines()
    assert all(line.startswith("left out: ") for line in lines)
    for what, name in names.items():
        assert any(name in line for line in lines) == (what != "empty"), (what, said)
    assert any("nameless" in line for line in lines), said


ODD_NAMES = ("--json", "../x", "a b", "-", "Ü", "\x1b[2J")


def test_odd_names_are_left_out_in_one_sentence_each(tmp_path):
    site = tmp_path / "site"
    groups = ("tasks", "predictors", "commands")
    points = "".join(
        f"[attnscope.{group}]\n" + "".join(f"{name} = odd:thing\n" for name in ODD_NAMES)
        for group in groups
    )
    install(
        site,
        "odd",
        "class thing:\n    def weights(self): pass\n    projections = weights\n",
        points,
    )
    code, printed, said = command(site, "tasks", "--json")
    listed = json.loads(printed)
    assert code == 0
    assert all(row["origin"] == "attnscope" for row in listed["tasks"] + listed["predictors"])
    lines = said.splitlines()
    assert len(lines) == 2 * len(ODD_NAMES)
    assert all(line.startswith("left out: ") and "odd 1" in line for line in lines)
    assert "\x1b" not in said
    code, printed, said = command(site, "--help")
    assert code == 0 and "../x" not in printed
    assert len(said.splitlines()) == len(ODD_NAMES)


def test_ids_of_claims_are_no_paths(tmp_path):
    site = tmp_path / "site"
    source = """
from dataclasses import replace

from attnscope.claims.registry import one_claim

thing = replace(one_claim("slr-13-swapped-beats-oracle"), id="../../x")
"""
    install(site, "paths", source, "[attnscope.claims]\npaths = paths:thing\n")
    code, printed, said = command(site, "claims", "--json")
    assert code == 0 and "../../x" not in printed and json.loads(printed)
    assert "paths 1" in said and "letters, digits and hyphens" in said
