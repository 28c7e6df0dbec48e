"""The figure that follows a slider: the request of its own (attnscope_explorer/live_figure.py), and what the page
does with it (assets/quick.js) in a real browser.
"""

import json
import time

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

needs_a_browser()

from selenium.webdriver.common.keys import Keys

from attnscope_explorer.app import create_app
from attnscope_explorer.callbacks import _parts
from attnscope_explorer.compute import cached_view
from attnscope_explorer.live_figure import LIVE_VIEWS
from attnscope_explorer.state import VIEWS, from_query

# counts drawings and requests of both kinds from here on
COUNT = """const g = document.querySelector('#graph .js-plotly-plot');
    window.drawn = 0; g.on('plotly_afterplot', () => window.drawn++); performance.clearResourceTimings()"""
SEEN = """const asked = (word) => performance.getEntriesByType('resource').filter((e) => e.name.includes(word)).length;
    return [window.drawn, asked('/figure'), asked('_dash-update')]"""


@pytest.fixture(scope="module")
def client():
    return create_app().server.test_client()


def body(view, **texts):
    inputs = [{"name": name, "value": value} for name, value in texts.items()]
    return {"output": "figure", "view": view, "inputs": inputs}


@pytest.mark.parametrize("view", LIVE_VIEWS)
def test_the_figure_is_that_of_the_chain(client, view):
    texts = {"seed": "3"} if "seed" in VIEWS[view] else {}
    # a busy machine may need more than the time a request waits
    own = wait(lambda: client.post("/figure", json=body(view, **texts)).json, "the figure")
    state, _ = from_query(view, "&".join(f"{a}={b}" for a, b in texts.items()))
    theirs = _parts(state, cached_view(state), fresh=True)[0]
    assert own["figure"] == json.loads(json.dumps(theirs))
    assert theirs["layout"]["meta"]["key"].startswith(f"{view}?")
    # what is kept for downloads is left alone
    assert "key" not in cached_view(state).plotly["layout"]["meta"]


def test_a_text_that_cannot_be_used_has_no_figure(client):
    assert client.post("/figure", json=body("landscape", dim="three")).json == {}


@pytest.mark.parametrize(
    "wrong",
    [
        body("training", dim="30"),
        body("bags"),
        body("nowhere"),
        body("landscape", colour="red"),
        {"output": "figure", "view": ["landscape"], "inputs": []},
        {"output": "figure", "view": "landscape", "inputs": [["dim", "3"]]},
        {"output": "figure", "inputs": []},
        {"view": "landscape"},
        [],
    ],
)
def test_another_form_gets_one_line(client, wrong):
    answer = client.post("/figure", json=wrong)
    assert answer.status_code == 400
    assert answer.text == "the request is not one of this page's\n"


def test_the_gate_stands_before_it(client):
    foreign = {"Origin": "http://evil.example"}
    assert client.post("/figure", json=body("landscape"), headers=foreign).status_code == 403
    rebound = {"Host": "rebound.example"}
    assert client.post("/figure", json=body("landscape"), headers=rebound).status_code == 403


def test_a_slider_draws_its_figure_once_and_the_texts_follow(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    before = settled(browser)
    browser.execute_script(COUNT)
    knob(browser, "gamma2", "slider").send_keys(Keys.ARROW_RIGHT)
    wait(lambda: browser.execute_script(FIGURE) != before, "the figure")
    value = knob(browser, "gamma2").get_attribute("value")
    wait(lambda: f"gamma2={value}" in browser.current_url, "the address")
    wait(lambda: f"gamma={value}**0.5" in text(browser, "code"), "the lines")
    drawn, own, chain = browser.execute_script(SEEN)
    assert (drawn, own) == (1, 1) and chain >= 1
    state, _ = from_query("landscape", f"runs=3&gamma2={value}")
    assert json.loads(settled(browser))[0]["z"] == cached_view(state).plotly["data"][0]["z"]
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_a_drag_ends_at_its_last_position(browser, address):
    """Twelve positions in a row: fewer requests than positions, the box follows at once, and what
    stands there in the end is the last position's, in the figure and in every text.
    """
    opened(browser, f"{address}/landscape?runs=3")
    settled(browser)
    browser.execute_script(COUNT)
    drag = """const seen = window.seen = [];
        const slider = document.getElementById(JSON.stringify({name: 'inverse_temperature', type: 'slider'}));
        const box = document.getElementById(JSON.stringify({name: 'inverse_temperature', type: 'knob'}));
        const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
        let left = 12;
        const move = () => {
            set.call(slider, Number(slider.value) + 1);
            slider.dispatchEvent(new Event('input', {bubbles: true}));
            seen.push(box.value);
            if (--left) setTimeout(move, 15);
        };
        move();"""
    browser.execute_script(drag)
    wait(lambda: browser.execute_script("return window.seen.length") == 12, "the drag")
    boxes = browser.execute_script("return window.seen")
    assert len(set(boxes)) == 12
    wait(lambda: f"inverse_temperature={boxes[-1]}" in browser.current_url, "the address")
    wait(lambda: f"at.Erf({boxes[-1]})" in text(browser, "code"), "the lines")
    state, _ = from_query("landscape", f"runs=3&inverse_temperature={boxes[-1]}")
    assert json.loads(settled(browser))[0]["z"] == cached_view(state).plotly["data"][0]["z"]
    assert browser.execute_script(SEEN)[1] < 12
    assert knob(browser, "inverse_temperature").get_attribute("value") == boxes[-1]
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_a_knob_turned_after_the_slider_wins(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    settled(browser)
    script = """const slider = document.getElementById(JSON.stringify({name: 'gamma2', type: 'slider'}));
        const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
        set.call(slider, Number(slider.value) + 1);
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        document.querySelector('input[type=radio][value=linear]').click();"""
    browser.execute_script(script)
    value = knob(browser, "gamma2").get_attribute("value")
    wait(lambda: "linear" in browser.current_url, "the predictor in the address")
    wait(lambda: f"gamma2={value}" in browser.current_url, "the slider in the address")
    state, _ = from_query("landscape", f"predictor=linear&gamma2={value}&runs=3")
    true = cached_view(state).plotly["data"][0]["z"]
    wait(lambda: json.loads(browser.execute_script(FIGURE))[0]["z"] == true, "both in it")


@pytest.mark.slow
def test_the_same_page_opened_again_is_drawn_again(browser, address):
    opened(browser, f"{address}/landscape?runs=3")
    settled(browser)
    knob(browser, "gamma2", "slider").send_keys(Keys.ARROW_RIGHT)
    wait(lambda: "gamma2=" in browser.current_url, "the address")
    before = settled(browser)
    browser.find_element("id", "nav-landscape").click()
    time.sleep(0.3)
    wait(lambda: browser.execute_script(FIGURE) == before, "the same figure")
    browser.find_element("id", "nav-tour").click()
    wait(lambda: text(browser, "note") == "", "another page")
    browser.back()
    wait(lambda: browser.execute_script(FIGURE) == before, "the same figure again")
