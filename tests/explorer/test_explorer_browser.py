"""The explorer in a real browser: Debian's Chromium driven by Selenium. Nothing is downloaded:
where a piece is missing, the tests skip.
"""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.browser_page import (
    FIGURE,
    complaints,
    knob,
    needs_a_browser,
    opened,
    settled,
    text,
    wait,
)
from helpers.tolerances import LAST_DIGIT

needs_a_browser()

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from attnscope_explorer.state import VIEWS

VISIBLE_SLIDERS = """return [...document.querySelectorAll('.knob input[type=range]')]
    .filter((x) => x.offsetParent !== null).map((x) => JSON.parse(x.id).name)"""

# every view in `make test-all`, this in `make test`
QUICK = ("landscape",)
SOME = [
    view if view in QUICK else pytest.param(view, marks=pytest.mark.slow) for view in VIEWS
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_loads_without_complaint_or_outside_request(browser, address, view):
    opened(browser, f"{address}/{view}")
    time.sleep(0.5)
    assert complaints(browser, address) == []
    assert text(browser, "message") == "" and text(browser, "code").startswith("import")
    assert browser.find_element(By.ID, f"nav-{view}").get_attribute("aria-current") == "page"


def test_an_outside_request_would_be_seen_and_is_refused(browser, address):
    """The check above can fail: a request made on purpose is logged,
    and the page's policy stops it.
    """
    opened(browser, f"{address}/risk")
    complaints(browser, address)
    browser.execute_script(
        "fetch('http://example.invalid/x').catch(() => null); fetch('/risk')"
    )
    assert any(
        "example.invalid" in c
        for c in wait(lambda: complaints(browser, address), "the complaint")
    )


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_each_slider_changes_the_figure(browser, address, view):
    shows_all = {
        "posterior": "tuning=fixed&dim=30",
        "training": "batch=5&dim=80&steps=2000",
        "bags": "data=drawn",
    }  # knobs without effect are hidden
    opened(browser, f"{address}/{view}?{shows_all.get(view, '')}")
    names = browser.execute_script(VISIBLE_SLIDERS)
    assert len(names) >= {"bags": 1, "samples": 3}.get(view, 4)
    for name in names:
        before = settled(browser)
        knob(browser, name, "slider").send_keys(Keys.ARROW_RIGHT * 12)
        wait(
            lambda before=before: browser.execute_script(FIGURE) != before,
            f"the figure after the slider {name} of {view}",
        )
        assert text(browser, "message") == "", name


@pytest.mark.slow
def test_a_link_reopens_the_view(browser, address):
    opened(browser, f"{address}/landscape")
    knob(browser, "dim", "slider").send_keys(Keys.ARROW_LEFT * 20)
    wait(lambda: "dim=" in browser.current_url, "the address")
    shown = settled(browser)
    link = browser.current_url
    opened(browser, link)
    assert settled(browser) == shown


def test_typing_moves_the_slider_and_bad_values_get_a_sentence(browser, address):
    opened(browser, f"{address}/risk")
    box = knob(browser, "dim")
    box.send_keys(Keys.CONTROL + "a")
    box.send_keys("1000000" + Keys.ENTER)
    wait(
        lambda: knob(browser, "dim", "slider").get_attribute("value") == "200",
        "the slider's end",
    )
    box.send_keys(Keys.CONTROL + "a")
    box.send_keys("three" + Keys.ENTER)
    sentence = wait(lambda: text(browser, "message"), "a sentence")
    assert (
        sentence
        == "dim of this page must be a whole number from 2 to 1000000, got 'three'; try dim=400."
    )
    opened(browser, f"{address}/risk?dim=-1&colour=red")
    assert "dim of this page must be" in text(browser, "address-message")
    assert "Traceback" not in browser.page_source


@pytest.mark.parametrize("view", SOME)
def test_the_copied_python_reproduces_the_shown_numbers(browser, address, view):
    own = {
        "convergence": "keys=2&seed=4",
        "bags": "data=drawn&bag=3",
        "samples": "length=4",
    }
    task = own.get(view, "dim=50&length=7")
    opened(browser, f"{address}/{view}?{task}")
    wait(
        lambda: text(browser, "note") and "it goes on" not in text(browser, "note"),
        "the end of the computation",
    )
    data = json.loads(settled(browser))
    permissions = {
        "origin": address,
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
    }
    browser.execute_cdp_cmd("Browser.grantPermissions", permissions)
    browser.find_element(By.ID, "copy").click()
    wait(lambda: text(browser, "copy") == "Copied", "the button to say so")
    code = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    names = {}
    exec(code, names)
    close = lambda seen, true: np.testing.assert_allclose(
        np.ravel(seen).astype(float), np.ravel(true), rtol=LAST_DIGIT
    )
    if view == "landscape":
        close(data[0]["z"], names["risk"])
    elif view == "risk":
        for trace in data[: len(names["curves"])]:
            close(trace["y"], np.exp(names["curves"][trace["name"]]))
    elif view == "training":
        oracle = names["run"].outcome == "oracle"  # the first group drawn, as a band
        assert 10 <= oracle.sum() < len(oracle)
        low, high = np.quantile(names["excess"][oracle], (0.025, 0.975), axis=0)
        close(data[0]["y"], [*low, *high[::-1]])
    elif view == "convergence":
        close(data[0]["y"], names["curves"]["softmax"])
    elif view == "samples":
        close(data[0]["y"], names["curves"][0].values["excess"])
    elif view == "bags":
        close(data[0]["y"], names["prediction"])
    else:
        true = [t["y"][0] for t in data if t["name"] == "informative token"]
        close(true[2], names["posterior"][names["location"]])


@pytest.mark.slow
def test_training_plays_pauses_and_scrubs(browser, address):
    opened(browser, f"{address}/training")
    lines = lambda: [t for t in json.loads(browser.execute_script(FIGURE)) if t["name"]]
    points = lambda: len(lines()[0]["x"])  # bands have no name
    wait(
        lambda: points() == 101 and text(browser, "frame-text") == "Step 20000",
        "the last step",
    )
    play = browser.find_element(By.ID, "play")
    play.click()
    wait(lambda: 5 < points() < 60, "some frames")
    play.click()
    wait(lambda: text(browser, "play") == "Play", "the pause")
    time.sleep(0.3)
    stopped = points()
    time.sleep(0.5)
    assert points() == stopped
    browser.find_element(By.ID, "frame").send_keys(Keys.HOME)
    wait(lambda: points() == 1 and text(browser, "frame-text") == "Step 0", "the first step")


@pytest.mark.slow
def test_training_grows_while_it_runs_and_stops_when_told(browser, address):
    """A softplus run of minutes: the figure grows by itself, Stop holds it,
    its lines are those of what is shown, Go on goes on.
    """
    opened(
        browser,
        f"{address}/training?predictor=softplus&inverse_temperature=2&runs=3&steps=2000&dim=50",
    )
    done = lambda: int(re.search(r"Step (\d+) of 2000", text(browser, "note")).group(1))
    first = done()
    wait(lambda: done() > first, "more steps")
    stop = browser.find_element(By.ID, "stop")
    stop.click()
    wait(lambda: text(browser, "stop") == "Go on", "the button to say how to go on")
    loading = "return document.getElementById('note').hasAttribute('data-dash-is-loading')"
    wait(lambda: not browser.execute_script(loading), "the piece that was under way")
    held = done()
    assert f"steps={held}," in text(browser, "code")
    time.sleep(1.5)
    assert done() == held and 0 < held < 2000
    stop.click()
    wait(lambda: done() > held, "more steps again")
    stop.click()  # or it would keep the server busy for the tests that follow
    assert complaints(browser, address) == []


def chosen_file(browser, path):
    """Hand a file to the page as the dialogue would."""
    browser.find_element(By.CSS_SELECTOR, "#upload input[type=file]").send_keys(str(path))


def test_an_upload_is_fitted_and_a_bad_one_gets_a_sentence(browser, address, tmp_path):
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((60, 4, 3))
    where = rng.integers(0, 4, 60)
    tokens[np.arange(60), where, 0] += 6
    np.savez(tmp_path / "mine.npz", bags=tokens, y=tokens[np.arange(60), where, 1])
    (tmp_path / "bad.csv").write_text("sack,y,a\n1,2,3\n")
    (tmp_path / "pickled.npz").write_bytes(b"\x80\x04K\x01.")
    (tmp_path / "large.csv").write_bytes(b"bag,y,a\n" + b"1,2,3\n" * 3_000_000)
    opened(browser, f"{address}/bags?data=drawn")
    for name, words in (
        ("bad.csv", "bad.csv must have a column bag"),
        ("pickled.npz", "pickled.npz must be an .npz file of plain arrays"),
        ("large.csv", "at most 16 MB"),
    ):
        chosen_file(browser, tmp_path / name)
        wait(lambda words=words: words in text(browser, "upload-message"), words)
    chosen_file(browser, tmp_path / "mine.npz")
    wait(lambda: "data=upload&upload=" in browser.current_url, "the address of the upload")
    wait(lambda: "path = 'bags.npz'" in text(browser, "code"), "the lines that read the file")
    assert text(browser, "upload-message") == "" and text(browser, "message") == ""
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_a_new_draw_and_the_downloads(browser, address):
    opened(browser, f"{address}/posterior")
    before = settled(browser)
    browser.find_element(By.ID, "redraw").click()
    wait(
        lambda: browser.execute_script(FIGURE) != before and "seed=2" in browser.current_url,
        "the next draw",
    )
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"panel,kind,label")):
        browser.find_element(By.ID, kind).click()
        path = Path(browser.downloads, f"attnscope-posterior.{kind}")
        wait(lambda path=path: path.exists() and path.stat().st_size > 100, f"the {kind}")
        assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("view", SOME)
def test_narrow_pages_fit_and_every_input_has_a_name(browser, address, view):
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, f"{address}/{view}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        unnamed = """return [...document.querySelectorAll('input, button')].filter((x) => x.offsetParent !== null)
            .filter((x) => !(x.labels && [...x.labels].some((l) => l.textContent.trim())) && !x.textContent.trim()
            && !x.ariaLabel).length"""
        assert browser.execute_script(unnamed) == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


BOXES = """const graph = document.querySelector('#graph .js-plotly-plot'), boxes = (query) =>
    [...graph.querySelectorAll(query)].map((x) => x.getBoundingClientRect());
    const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    const titles = boxes("[class^='infolayer'] [class$='title']"), ticks = boxes('.xtick text'), legend = boxes('.legend');
    return [titles.length, titles.flatMap((a) => [...ticks, ...legend].filter((b) => !apart(a, b))).length]"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("view", VIEWS)
def test_no_legend_or_number_lies_over_the_title_of_an_axis(browser, address, view, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, f"{address}/{view}")
        settled(browser)
        titles, covered = browser.execute_script(BOXES)
        assert titles >= 2 and covered == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_digits_are_square(browser, address):
    opened(browser, f"{address}/bags")
    size = (
        "return [...document.querySelectorAll('#images img')].map((x) => [x.naturalWidth, "
        "x.clientWidth, x.clientHeight])"
    )
    seen = wait(lambda: browser.execute_script(size), "the pictures")
    # a whole number of the screen's pixels for each of theirs
    assert seen == [[8, 64, 64]] * 8


def test_dark_pages_are_dark(browser, address):
    dark = lambda value: {"features": [{"name": "prefers-color-scheme", "value": value}]}
    paper = "return document.querySelector('#graph .js-plotly-plot').layout.paper_bgcolor"
    try:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark("light"))
        opened(browser, f"{address}/training")
        assert browser.execute_script(paper) == "#ffffff"
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark("dark"))
        wait(
            lambda: browser.execute_script(paper) == "#1a2029",
            "the figure to follow the system into the dark",
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark("light"))
