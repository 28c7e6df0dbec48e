"""The pages that are made: reference, links, notebooks, the picture of the task, formulas that wrap."""

import inspect
import json
import re
import subprocess
import sys
from html import unescape

import pytest
from helpers.paths import ROOT

import attnscope as at

EXTENSIONS = ROOT / "docs" / "_ext"
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def extension(monkeypatch):
    """Imports a Sphinx extension of ours by name."""
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    return lambda name: __import__(name)


def test_every_public_name_has_its_place_in_the_reference(extension):
    api = extension("api")
    pages = api.pages()
    listed = {name for names in at._HOME.values() for name in names}
    assert set(api.where()) == listed
    for name, (page, anchor) in api.where().items():
        text = pages[page.removeprefix("generated/")]
        assert f"({anchor})=\n## {name}\n" in text and f"#{anchor})" in pages["names"]
    anchors = [anchor for _, anchor in api.where().values()]
    assert len(set(anchors)) == len(anchors)


def test_signatures_are_those_of_the_running_code(extension):
    """Read off the source here, asked of Python there: the same arguments with the same defaults."""
    api = extension("api")
    for name in api.where():
        thing = getattr(at, name)
        if not callable(thing) or name == "AttnscopeError":
            continue
        told = api.signature(thing)
        assert not re.search(r"<|object at|\*args", told), name
        node = api.ast.parse(f"def f{told}: ...").body[0].args
        given = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        true = inspect.signature(thing).parameters.values()
        plain = [p.name for p in true if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        assert [x.arg for x in given] == plain, name
        optional = [p for p in true if p.default is not p.empty]
        assert len(node.defaults) + len(list(filter(None, node.kw_defaults))) == len(optional)


def test_docstrings_become_paragraphs_lists_and_examples(extension):
    api = extension("api")
    text = "One *star* and `code`.\n\nArgs:\n    a: first,\n    going on.\n    b: second.\n\n>>> 1 + 1\n2"
    made = api.docstring(text)
    assert "One \\*star\\* and `code`." in made
    assert "- `a`: first, going on.\n- `b`: second." in made
    assert "```python\n>>> 1 + 1\n2\n```" in made


def test_ids_of_claims_and_names_are_found(extension):
    pytest.importorskip("sphinx")
    links = extension("links")
    assert links.CLAIM.findall("as slr-13 and exch-04-minimal say, not slr-1") == [
        "slr-13",
        "exch-04-minimal",
    ]
    assert {"slr-13", "exch-04", "beyond-20"} <= links.known()
    assert links.named("at.risk(task)")[1] == "at-risk"
    assert links.named("stationary_points")[1] == "at-stationary-points"
    assert links.named("risk") is None and links.named("nothing_of_ours") is None


def test_pages_name_no_claim_that_is_none(extension):
    pytest.importorskip("sphinx")
    links = extension("links")
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for found in links.CLAIM.findall(text):
            assert links.short(found) in links.known(), f"{page.name}: {found}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_without_outputs(path):
    assert path.stat().st_size < 20_000
    book = json.loads(path.read_text())
    assert book["nbformat"] == 4
    for cell in book["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, extension):
    notebooks = extension("notebooks")
    cells = notebooks.executed(path)
    code = [cell for cell in cells if cell[0] == "code"]
    assert len(code) >= 6
    assert all(printed or shown for _, _, printed, shown in code)
    assert sum("attnscope-card" in shown for _, _, _, shown in code) >= 2


def test_a_cell_shows_its_last_value_and_what_it_prints(extension):
    run = extension("notebooks").run
    names = {}
    assert run("x = 2", names, "a") == ("", "")
    assert run("print(x)\nx + 1", names, "b") == ("2\n", "<pre>3</pre>")
    assert run("x;", names, "c") == ("", "")
    with pytest.raises(ZeroDivisionError):
        run("1 / 0", names, "d")


def test_the_picture_of_the_task_is_what_the_library_draws():
    command = [sys.executable, str(ROOT / "tools" / "make_task_picture.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_long_formulas_come_in_pieces_that_lose_nothing(extension):
    pytest.importorskip("latex2mathml")
    mathml = extension("mathml")
    convert = lambda latex: mathml.mended(mathml.convert(latex))
    words = lambda markup: re.sub(r"<[^>]*>", "", unescape(markup))
    whole = convert(r"R(a) = (1-a^2) E[Y^2] + |x-\mu|^2 - f(a|b) + c, \quad d = 1")
    pieces = mathml.in_pieces(whole)
    assert words(pieces) == words(whole)
    parts = pieces.split("<wbr>")
    assert len(parts) == 7 and all(part.startswith("<math") for part in parts)
    # neither brackets nor bars are broken open
    assert all(words(p).count("(") == words(p).count(")") for p in parts)
    assert all(words(p).count("|") != 1 or "(a|b)" in words(p) for p in parts)
    assert mathml.in_pieces(convert("k = 1")) == convert("k = 1")


def test_every_finding_has_a_claim_with_something_of_ours(extension):
    pytest.importorskip("sphinx")
    links = extension("links")
    claims = {links.short(claim.id): claim for claim in links.own_claims()}
    text = (ROOT / "docs" / "findings.md").read_text()
    findings = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    assert len(findings) >= 15
    for finding in findings:
        cited = [claims[links.short(found)] for found in links.CLAIM.findall(finding)]
        assert cited, finding
        for claim in cited:
            where_from = claim.provenance
            assert where_from.relation in ("new here", "contradicted") or where_from.ours, (
                claim.id
            )


def test_the_paper_cites_what_is_there(extension):
    pytest.importorskip("sphinx")
    links = extension("links")
    text = (ROOT / "paper.md").read_text()
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper.bib").read_text(), re.MULTILINE))
    assert set(re.findall(r"@(\w+)", text)) == keys
    assert all(links.short(found) in links.known() for found in links.CLAIM.findall(text))
    assert f"as {len(links.known())} executable claims" in text
