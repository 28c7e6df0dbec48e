"""The plain files as `attnscope explore --static` writes them: every tour walked, tables within their
stated errors at places that their makers did not look at, and the size.
"""

import json
import math

import numpy as np
import pytest
from helpers.browser_page import needs_a_browser, new_browser, sized, text
from helpers.javascript import STATIC, evaluated
from helpers.static_pages import COARSE, outside, shown
from typer.testing import CliRunner

needs_a_browser()

import attnscope as at
from attnscope.cli import app
from attnscope_explorer.state import to_query
from attnscope_explorer.static_page.build import SITE_BYTES
from attnscope_explorer.static_page.examples import EXAMPLE_ADDRESSES, state_of
from attnscope_explorer.static_page.tables import interpolated_log_excess, make_tables
from attnscope_explorer.tours.registry import all_tours

PLACES = 100  # fresh places of a table, at random between its nodes


@pytest.mark.slow
def test_the_page_reads_tables_as_their_maker_does():
    tables = make_tables(COARSE)
    record = {name: table.record() for name, table in tables.items()}
    rng = np.random.default_rng(5)
    places = {name: [_place(t, rng) for _ in range(20)] for name, t in tables.items()}
    given = {"record": record, "places": {}}
    for name, rows in places.items():
        knobs = [axis.knob for axis in tables[name].axes]
        given["places"][name] = [dict(zip(knobs, row)) for row in rows]
    read = "all.map((x) => attnscopeBetween.logExcess(name, x))"
    each = f"Object.entries(given.places).map(([name, all]) => [name, {read}])"
    call = f"(window.attnscopeTables = given.record, Object.fromEntries({each}))"
    page = evaluated([STATIC / "tables.js"], call, given)
    for name, table in tables.items():
        exact = [interpolated_log_excess(table, place) for place in places[name]]
        np.testing.assert_allclose(page[name], exact, rtol=1e-10)


def _place(table, rng):
    out = []
    for axis in table.axes:
        low, high = math.log(axis.nodes[0]), math.log(axis.nodes[-1])
        x = math.exp(rng.uniform(low, high))
        x = min(max(x, axis.nodes[0]), axis.nodes[-1])
        out.append(float(round(x)) if axis.whole else x)
    return out


def test_listed_examples_are_addresses_in_their_shortest_form():
    for view, queries in EXAMPLE_ADDRESSES.items():
        for query in queries:
            assert to_query(state_of(view, query)) == query


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = CliRunner().invoke(app, ["explore", "--static", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.output.splitlines()[-1])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = new_browser(
        tmp_path_factory.mktemp("profile"), tmp_path_factory.mktemp("downloads")
    )
    sized(driver, 1300, 1000)
    yield driver
    driver.quit()


@pytest.mark.slow
def test_it_is_small_and_whole(site):
    folder, told = site
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) == told["bytes"] <= SITE_BYTES
    assert len(files) == told["files"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "sigma", "bayes"])
def test_tables_are_within_their_stated_errors(site, name):
    """At places drawn at random: twice the largest error of 200 middles of cells holds at each."""
    folder, _ = site
    text_of = (
        (folder / "data" / "tables.js").read_text().removeprefix("window.attnscopeTables = ")
    )
    record = json.loads(text_of.rstrip().removesuffix(";"))
    table = record[name]
    rng = np.random.default_rng(77)
    places = []
    while len(places) < PLACES:
        place = {}
        for axis in table["axes"]:
            i = rng.integers(len(axis["nodes"]) - 1)
            a, b = axis["nodes"][i : i + 2]
            x = math.exp(rng.uniform(math.log(a), math.log(b)))
            place[axis["knob"]] = round(x) if axis["knob"] in ("dim", "length") else x
        places.append(place)
    value = f"attnscopeBetween.logExcess('{name}', x)"
    pair = f"[{value}, attnscopeBetween.error('{name}', {value})]"
    call = f"(window.attnscopeTables = given[0], given[1].map((x) => {pair}))"
    page = evaluated([STATIC / "tables.js"], call, [record, places])
    for place, (value, error) in zip(places, page):
        assert abs(value - _library(name, place)) <= error, place


def _library(name, place):
    if name == "bayes":
        task = at.SingleLocation(place["dim"], place["length"], gamma=place["gamma2"] ** 0.5)
        return task.bayes_risk().log_excess
    task = at.SingleLocation(
        4, place["length"], gamma=place["gamma2"] ** 0.5, signal=place["signal"]
    )
    head = (
        at.Softmax(place["inverse_temperature"])
        if name == "softmax"
        else at.optimal_sigma(task)
    )
    return at.risk(task, head, at.Overlaps.oracle()).log_excess


@pytest.mark.slow
@pytest.mark.parametrize("tour", all_tours(), ids=lambda tour: tour.name)
def test_every_tour_is_walked(browser, site, tour):
    folder, told = site
    for k, step in enumerate(tour.steps, start=1):
        turned = [f"?{step.turned}"] if step.turned else []
        for query in ("", *turned):
            if _left_out(told, step, query):
                continue
            shown(browser, folder, f"#tour/{tour.name}/{k}{query}")
            assert step.title in text(browser, "tour")
            assert text(browser, "message") == "" and text(browser, "address-message") == ""
            assert text(browser, "note") != "" and text(browser, "table") != ""
    assert outside(browser) == []


def _left_out(told, step, query):
    """Sentences need the encoder of the text corpus, which may be missing here."""
    address = f"/{step.view}?{query.removeprefix('?') or step.query}"
    return any(sentence.startswith(address + ":") for sentence in told["left_out"])


@pytest.mark.slow
def test_every_example_opens(browser, site):
    folder, told = site
    for view, queries in EXAMPLE_ADDRESSES.items():
        for query in queries:
            if any(s.startswith(f"/{view}?{query}:") for s in told["left_out"]):
                continue
            shown(browser, folder, f"#/{view}?{query}")
            assert text(browser, "message") == "", (view, query)
            assert "Computed beforehand" in text(browser, "note")
    assert outside(browser) == []


# what the answers say that depends on the library's own draws
COUNTS = [
    ("#tour/swapped-runs/2", "30 oracle, 0 swapped"),
    ("#tour/swapped-runs/3", "14 oracle, 16 swapped"),
    ("#tour/swapped-runs/7?x=kappa&y=eta&seed=1", "16 oracle, 14 swapped"),
    ("#tour/temperature/8", "oracle, 28 of 30"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("address", "words"), COUNTS)
def test_runs_end_as_the_answers_say(browser, site, address, words):
    shown(browser, site[0], address)
    drawn = browser.execute_script(
        "return document.querySelector('#graph .js-plotly-plot').data.map((t) => t.name).join('; ')"
    )
    assert words in text(browser, "note") or words in drawn
