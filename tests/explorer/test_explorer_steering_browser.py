"""The page steers itself, in a real browser: buttons that turn knobs, the stage under the mouse, a
phone, the keyboard, little motion, and who may speak to the page.
"""

import json
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from helpers.browser_page import (
    FIGURE,
    complaints,
    knob,
    needs_a_browser,
    opened,
    preferring,
    settled,
    sized,
    text,
    wait,
)

needs_a_browser()

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from attnscope_explorer.state import VIEWS

STAGE = "return document.querySelector('#stage .stage-title')?.textContent || ''"
REQUESTS = (
    "return performance.getEntriesByType('resource').filter((e) => "
    "e.name.includes('_dash-update')).length"
)


def pressed(browser, words):
    """Press the button of advice with these words."""
    buttons = browser.find_elements(By.CSS_SELECTOR, "#advice button")
    next(button for button in buttons if words in button.text).click()


@pytest.mark.slow
def test_an_unstable_step_is_said_in_red_and_mended_by_a_button(browser, address):
    opened(browser, f"{address}/landscape?step_size=0.05&runs=5")
    assert "unstable" in browser.find_element(By.CSS_SELECTOR, ".advised.warn").text
    pressed(browser, "stable step")
    wait(lambda: "step_size" not in browser.current_url, "the address without the step")
    wait(lambda: "unstable" not in text(browser, "advice"), "the note to go")
    assert knob(browser, "step_size").get_attribute("value") == "auto"


# per view: the panel of paths, an axis of each of which is an overlap; the others have none
PATHS = {"landscape": "x", "training": "x8", "risk": "", "posterior": ""}
# overlaps go from about 0 to 1, once: a path that leaps to and fro at every step is a hundred long
LONGEST = 4.0


def longest_path(data, axis):
    """The longest way of a run in this panel."""
    longest = 0.0
    for trace in data:
        if (
            trace.get("xaxis", "x") != axis
            or trace.get("mode") != "lines"
            or not trace["name"]
        ):
            continue
        x, y = (np.array(trace[name], dtype=float) for name in ("x", "y"))
        ends = np.flatnonzero(np.isnan(x))
        for part in np.split(np.stack([x, y]), ends, axis=1):
            steps = np.diff(part[:, np.isfinite(part[0])], axis=1)
            longest = max(longest, float(np.hypot(*steps).sum()))
    return longest


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 60, 10**4, 10**6])
@pytest.mark.parametrize("view", PATHS)
def test_no_dimension_has_an_unstable_step_or_a_hairball(browser, address, view, dim):
    """Where a step would be unstable the page takes another and says so."""
    opened(browser, f"{address}/{view}?dim={dim}")
    wait(lambda: "it goes on" not in text(browser, "note"), "the end of the training")
    assert text(browser, "message") == ""
    assert not browser.find_elements(By.CSS_SELECTOR, ".advised.warn")
    said = text(browser, "advice")
    if PATHS[view]:
        assert ("follows the stability limit" in said) == (dim > 1000)
        assert longest_path(json.loads(settled(browser)), PATHS[view]) < LONGEST


@pytest.mark.slow
def test_a_hairball_would_be_seen(browser, address):
    """The check above can fail: an unstable step is a red note, and paths that leap."""
    opened(browser, f"{address}/landscape?dim=10000&step_size=0.05&runs=5")
    assert browser.find_elements(By.CSS_SELECTOR, ".advised.warn")
    assert longest_path(json.loads(settled(browser)), "x") > LONGEST


@pytest.mark.slow
def test_swapped_runs_offer_the_plane_that_shows_them(browser, address):
    opened(browser, f"{address}/landscape")
    assert "roles swapped" in text(browser, "advice")
    pressed(browser, "(eta, theta)")
    wait(lambda: "x=eta&y=theta" in browser.current_url, "the other plane")
    wait(lambda: "Back to" in text(browser, "advice"), "the way back")
    assert text(browser, "message") == ""
    settled(browser)
    pressed(browser, "Start from moments")
    wait(lambda: "start=moments" in browser.current_url, "the other start")
    wait(lambda: "swapped" not in text(browser, "advice"), "no swapped run")


@pytest.mark.slow
def test_points_of_one_place_stand_side_by_side(browser, address):
    """In the plane of kappa and nu, the swapped minimum and the saddle."""
    opened(browser, f"{address}/landscape")
    data = json.loads(settled(browser))
    place = {t["name"].split(":")[0]: t["x"][0] for t in data if t.get("mode") == "markers"}
    assert abs(place["swapped"] - place["degenerate"]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_the_stage_shows_the_head_under_the_mouse_without_a_request(browser, address, view):
    sized(browser, 1400)
    try:
        opened(browser, f"{address}/{view}")
        wait(lambda: browser.execute_script(STAGE), "the stage")
        settled(browser)
        place = browser.find_element(By.CSS_SELECTOR, "#graph .nsewdrag")
        asked = browser.execute_script(REQUESTS)
        seen = set()
        for share in (-0.4, -0.2, 0.0, 0.2, 0.4):
            moved = int(share * place.size["width"])
            ActionChains(browser).move_to_element_with_offset(place, moved, 20).perform()
            time.sleep(0.2)
            seen.add(browser.execute_script(STAGE))
        buttons = browser.find_elements(By.CSS_SELECTOR, ".stage-heads button")
        for i in range(len(buttons)):
            again = browser.find_elements(By.CSS_SELECTOR, ".stage-heads button")
            again[i].send_keys(Keys.ENTER)
            seen.add(browser.execute_script(STAGE))
        assert len(seen) >= 2, seen
        assert browser.execute_script(REQUESTS) == asked
        assert complaints(browser, address) == []
    finally:
        sized(browser, 0)


@pytest.mark.slow
def test_the_stage_follows_the_knobs(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    sentence = "return document.querySelector('#stage .stage-sentence')?.textContent || ''"
    before = wait(lambda: browser.execute_script(sentence), "the stage")
    knob(browser, "inverse_temperature", "slider").send_keys(Keys.ARROW_RIGHT * 20)
    wait(lambda: browser.execute_script(sentence) != before, "another sentence")


def test_what_cannot_be_shown_takes_the_old_figure_away(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    labels = browser.find_elements(By.CSS_SELECTOR, ".knob label")
    script = "return [...document.querySelectorAll('input[type=radio]')].filter((x) => x.value === 'nu')"
    assert labels
    browser.execute_script(script)[0].click()  # of the horizontal axis: nu against nu
    wait(lambda: "another overlap" in text(browser, "message"), "the sentence")
    wait(lambda: json.loads(browser.execute_script(FIGURE)) == [], "an empty figure")
    assert text(browser, "code") == ""


@pytest.mark.slow
def test_on_a_phone_knobs_and_figure_are_together(browser, address):
    sized(browser, 360, 740, mobile=True)
    try:
        opened(browser, f"{address}/landscape?runs=3")
        sheet = browser.find_element(By.CSS_SELECTOR, ".sheet")
        assert not browser.find_element(By.ID, "settings").is_displayed()
        sheet.click()
        figure = browser.find_element(By.ID, "graph")
        browser.execute_script("arguments[0].scrollIntoView()", figure)
        boxes = """const [a, b] = [document.querySelector('#graph .nsewdrag'), document.getElementById('settings')]
            .map((x) => x.getBoundingClientRect()); return [a.top, a.bottom, b.top, b.bottom, window.innerHeight]"""
        top, bottom, knobs_top, knobs_bottom, high = browser.execute_script(boxes)
        assert 0 <= top < knobs_top < knobs_bottom <= high
        # most of the figure is in view above the knobs
        assert (min(bottom, knobs_top) - top) / (bottom - top) > 0.5
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        before = settled(browser)
        knob(browser, "inverse_temperature", "slider").send_keys(Keys.ARROW_RIGHT * 20)
        wait(lambda: browser.execute_script(FIGURE) != before, "the figure to follow")
        knob(browser, "inverse_temperature", "slider").send_keys(Keys.ESCAPE)
        assert not browser.find_element(By.ID, "settings").is_displayed()
    finally:
        sized(browser, 0)


@pytest.mark.slow
def test_the_keyboard_reaches_everything_that_can_be_pressed(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    reach = """return [...document.querySelectorAll('a[href], button, input')].filter((x) => x.offsetParent !== null)
        .filter((x) => x.tabIndex < 0 && x.id !== 'choose').map((x) => x.outerHTML.slice(0, 80))"""
    assert browser.execute_script(reach) == []
    seen = set()
    body = browser.find_element(By.TAG_NAME, "body")
    for _ in range(90):
        body.send_keys(Keys.TAB)
        element = browser.switch_to.active_element
        seen.add(element.get_attribute("id") or element.text or element.tag_name)
        body = element
    assert {"nav-risk", "png", "copy", "oracle"} <= seen
    assert any("inverse_temperature" in name for name in seen)


@pytest.mark.slow
def test_little_motion_is_respected(browser, address):
    """No training is drawn piece by piece, nothing plays by itself."""
    preferring(browser, reduced_motion="reduce")
    try:
        count = """const g = document.querySelector('#graph .js-plotly-plot');
            window.drawn = 0; g.on('plotly_afterplot', () => window.drawn++)"""
        opened(
            browser,
            f"{address}/training?predictor=softplus&inverse_temperature=2&runs=2&steps=2000&dim=30",
        )
        browser.execute_script(count)
        going = lambda: "it goes on" in text(browser, "note")
        first = text(browser, "note")
        wait(lambda: text(browser, "note") != first or not going(), "more steps")
        assert browser.execute_script("return window.drawn") <= 1
        assert text(browser, "play") == "Play"
        browser.find_element(By.ID, "stop").click()
    finally:
        preferring(browser)


def test_the_page_has_its_headers_and_refuses_strangers(browser, address):
    opened(browser, f"{address}/risk")
    script = """const done = arguments[0]; fetch('/risk').then((r) => done(
        Object.fromEntries(['content-security-policy', 'x-content-type-options', 'referrer-policy'].map((n) => [n, r.headers.get(n)]))))"""
    headers = browser.execute_async_script(script)
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    # a page of another origin in the same browser: its script reads nothing and posts nothing
    complaints(browser, address)
    browser.get("data:text/html,<p>another page</p>")
    stranger = """const done = arguments[1]; fetch(arguments[0] + '/_dash-update-component', {method: 'POST', body: '{}',
        headers: {'Content-Type': 'text/plain'}}).then((r) => done('read ' + r.status), () => done('refused'))"""
    assert browser.execute_async_script(stranger, address) == "refused"
    # a foreign name that resolves to this machine
    port = address.rsplit(":", 1)[1]
    asked = urllib.request.Request(address, headers={"Host": f"rebound.example:{port}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    assert refused.value.code == 403
    refused.value.close()
