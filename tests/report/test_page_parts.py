"""The parts of the page: coverage, what rests on what, notation, mathematics, the zip file."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import re
import zipfile
from urllib.parse import unquote

import pytest
from helpers import fake_claims as fake
from helpers.paths import ROOT

from attnscope.claims.claim import Comparison, Context
from attnscope.claims.paper import known_papers
from attnscope.claims.provenance import Provenance
from attnscope.claims.registry import all_claims
from attnscope.claims.table import Table
from attnscope.claims.verdict import run_claim
from attnscope.errors import AttnscopeError
from attnscope.figures.figure import Figure
from attnscope.figures.outcomes import OUTCOMES
from attnscope.report import build
from attnscope.report.archive import archive
from attnscope.report.cards import claim_card
from attnscope.report.coverage import coverage, known_claims, resting, unplaced
from attnscope.report.graph import dependents
from attnscope.report.mathematics import mathematics
from attnscope.report.notation import TASK, key, outcome_key, symbols
from attnscope.report.tables import table_lines


def test_every_statement_stands_once_with_its_claims_or_the_reason_why_not():
    claims = all_claims()
    sheets = coverage(known_claims(claims, ()))
    rows = [row for sheet in sheets for row in sheet.rows]
    assert sorted(row.key for row in rows) == sorted(known_papers().statements)
    assert [row.key for row in rows if not row.checked and not row.gap] == []
    marked = {mark.id for row in rows for mark in (*row.checked, *row.about)}
    marked |= {mark.id for mark in unplaced(known_claims(claims, ()))}
    assert marked == {claim.id for claim in claims}


def test_new_claims_are_about_a_statement_and_do_not_check_it():
    new = fake.fake("slr-01-new", None, provenance=Provenance("new here", ("A/theorem-1",)))
    old = fake.fake("slr-02-old", None, provenance=Provenance("same", ("A/theorem-5",)))
    rows = {row.key: row for row in coverage(known_claims([new, old], ()))[0].rows}
    assert [m.id for m in rows["A/theorem-1"].about] == ["slr-01-new"]
    assert not rows["A/theorem-1"].checked and "not checked" in rows["A/theorem-1"].gap
    assert [m.word for m in rows["A/theorem-5"].checked] == ["not run in this report"]
    assert coverage(known_claims([new, old], ()))[0].covered == 1


def test_claims_rest_on_claims_and_never_on_themselves():
    rests_on = {claim.id: claim.rests_on for claim in all_claims()}
    assert [
        other for ids in rests_on.values() for other in ids if other not in rests_on
    ] == []
    fall = dependents(rests_on)
    assert [name for name in fall if name in fall[name]] == []
    assert len(fall["slr-02-closed-form-risk"]) >= 10


def test_the_page_lists_what_rests_on_what():
    base = fake.fake("slr-01-base", None)
    above = fake.fake("slr-02-above", None, rests_on=("slr-01-base",))
    top = fake.fake("slr-03-top", None, rests_on=("slr-02-above",))
    rows = resting(known_claims([base, above, top], ()))
    assert [(m.id, [x.id for x in others]) for m, others in rows] == [
        ("slr-01-base", ["slr-02-above", "slr-03-top"]),
        ("slr-02-above", ["slr-03-top"]),
    ]
    assert 'id="rests"' in build.page([run_claim(fake.HOLDS, Context())], 0, "1.2.3")


def test_what_falls_goes_through_others_and_ends_in_circles():
    assert dependents({"a": ("b",), "b": ("a",)}) == {"a": ["a", "b"], "b": ["a", "b"]}


def test_the_card_has_a_formula_and_a_picture_of_each_symbol():
    names = [symbol.name for symbol in symbols()]
    assert set(names) == {"kappa", "nu", "eta", "theta", "rho", "lambda", "signal", "gamma"}
    for symbol in symbols():
        assert symbol.formula.startswith("<math>") and symbol.formula.endswith("</math>")
        assert symbol.picture.startswith("<svg ") and "currentColor" in symbol.picture
    # the pictures of the overlaps differ in their names, those of the curves in their curves
    assert len({symbol.picture for symbol in symbols()}) == len(names)
    assert all("<math>" in formula for _, formula in TASK)


def test_the_mathematics_is_as_its_generator_writes_it():
    pytest.importorskip("latex2mathml")
    pytest.importorskip("mdit_py_plugins")
    pytest.importorskip("sphinx")
    path = ROOT / "tools" / "bundle_mathematics.py"
    spec = importlib.util.spec_from_file_location("bundle_mathematics", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    fresh = tool.bundle()
    old = [name for name, text in fresh.items() if mathematics([name]).get(name) != text]
    assert old == [], "run python tools/bundle_mathematics.py"


def test_bundled_mathematics_asks_nobody_and_shows_no_raw_formula():
    pieces = mathematics(["risk", "heads", "nothing"])
    assert list(pieces) == ["heads", "risk"]
    for text in pieces.values():
        assert "//" not in text and "<a " not in text and "\\mathrm" not in text
        assert text.count("<math") == text.count("</math>") > 20


def test_the_zip_file_has_what_the_folder_has_and_no_time(tmp_path):
    verdicts = [run_claim(claim, Context()) for claim in (fake.HOLDS, fake.SKIPPED)]
    build.write_report(verdicts, tmp_path, 0, "1.2.3")
    with zipfile.ZipFile(tmp_path / "report.zip") as packed:
        names = packed.namelist()
        assert set(names) == {"index.html", "verdicts.json", "figures/slr-01-holds.csv"}
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        for name in names:
            assert packed.read(name) == (tmp_path / name).read_bytes()
    same = {"b": "é", "a": "2"}
    assert archive(same) == archive(dict(same)) != archive({"b": "é", "a": "3"})
    assert zipfile.ZipFile(io.BytesIO(archive(same))).read("b").decode() == "é"


def test_data_of_figures_is_inside_the_page_unless_long(monkeypatch):
    verdict = run_claim(fake.HOLDS, Context())
    html = build.page([verdict], 0, "1.2.3")
    (address,) = re.findall(r'<a href="data:text/csv;charset=utf-8,([^"]*)"', html)
    assert unquote(address) == verdict.figure.to_csv()
    for limit in ("FIGURE_DATA_LETTERS", "PAGE_DATA_LETTERS"):
        with monkeypatch.context() as patch:
            patch.setattr(build, limit, 10)
            html = build.page([verdict], 0, "1.2.3")
        assert "data:text/csv" not in html and "slr-01-holds.csv, in report.zip" in html


def test_colours_are_explained_once_on_the_card_and_below_figures_that_declare_them():
    words = " ".join(word for _, word in outcome_key())
    assert all(name in words for name in OUTCOMES)
    assert [word for _, word in key(Figure("t", (), meanings=("theory", "", "seen")))] == [
        "theory",
        "seen",
    ]
    verdict = run_claim(fake.HOLDS, Context())
    plain = build.page([verdict], 0, "1.2.3")
    declared = dataclasses.replace(verdict.figure, meanings=("theory of bands",))
    html = build.page([dataclasses.replace(verdict, figure=declared)], 0, "1.2.3")
    assert "theory of bands" in html and html.count('class="key"') == 2
    assert plain.count('class="key"') == 1 and "unspecialised" in plain


TABLE = Table(
    "risks & more", ("model", "risk", "runs"), (("one<two", 0.123456, 12),), digits=2
)


def test_small_tables_are_on_the_page_in_the_record_and_in_80_columns():
    verdict = dataclasses.replace(run_claim(fake.HOLDS, Context()), tables=(TABLE,))
    html = build.page([verdict], 0, "1.2.3")
    assert "<caption>risks &amp; more</caption>" in html
    assert '<th scope="row">one&lt;two</th><td class="num">0.12</td>' in html
    record = verdict.record()
    assert record["tables"][0]["rows"] == [["one<two", 0.123456, 12]]
    card = claim_card(fake.HOLDS, record, "here")
    assert "risks & more" in card and "0.12" in card and "draws & no more" in card


def test_wide_tables_are_broken_over_lines():
    wide = Table("t " * 60, ("name of something " * 3,) * 4, (("some words " * 8,) * 4,))
    lines = table_lines(wide.record(), 80)
    assert max(map(len, lines)) <= 80 and " ".join(lines).count("something") == 12


def test_tables_refuse_rows_that_do_not_fit_and_numbers_that_are_none():
    with pytest.raises(AttnscopeError, match="2 cells a row, one a column, got 1"):
        Table("t", ("a", "b"), (("x",),))
    with pytest.raises(AttnscopeError, match="finite numbers, got nan"):
        Table("t", ("a", "b"), (("x", float("nan")),))
    with pytest.raises(AttnscopeError, match="at least one row"):
        Table("t", ("a", "b"), ())


def test_neighbours_of_one_reason_share_its_cell():
    one, two = (Comparison(name, 1, 1, 0.1, why="a reason") for name in "xy")
    failed = Comparison("z", 1, 2, 0.1, why="a reason")
    other = Comparison("u", 1, 1, 0.1, why="another")
    verdict = run_claim(fake.HOLDS, Context())
    rows = (one, two, failed, other, one)
    html = build.page([dataclasses.replace(verdict, comparisons=rows)], 0, "1.2.3")
    assert re.findall(r'<td class="why"([^>]*)>([^<]*)</td>', html) == [
        (' rowspan="2"', "a reason"),
        ("", "a reason"),  # a row that fails keeps its own
        ("", "another"),
        ("", "a reason"),
    ]
