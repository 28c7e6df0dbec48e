"""Tours in a real browser: every step walked, its address, knobs, keys and presenter mode."""

import json
from xml.etree import ElementTree

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

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from attnscope_explorer.callbacks import STILL_COMPUTING
from attnscope_explorer.fields import plain as typed
from attnscope_explorer.state import from_query
from attnscope_explorer.tours.registry import all_tours, one_tour

TOUR = one_tour("swapped-runs")
HTML = "return document.documentElement.className"


def path(browser, address):
    return browser.current_url.removeprefix(address)


def at(browser, address, tour, k):
    """Wait until the k-th step is there with its figure and its knobs, under its own address."""
    step = tour.steps[k - 1]
    wait(lambda: path(browser, address) == f"/tour/{tour.name}/{k}", f"the address of {k}")
    title = "const h = document.querySelector('.tour h2'); return h ? h.textContent : ''"
    wait(lambda: browser.execute_script(title) == step.title, step.title)
    for name, html in step.html().items():
        wait(lambda: text(browser, f"tour-{name}") == _text(html), f"the {name}")  # noqa: B023
    wait(lambda: browser.execute_script(FIGURE), "the figure")
    wait(lambda: text(browser, "note") not in ("", STILL_COMPUTING), "the note")
    state, _ = from_query(step.view, step.query)
    for name, value in state.chosen:
        box = knob(browser, name)
        if box.tag_name == "input":
            assert box.get_attribute("value") == typed(value)
        else:
            picked = box.find_element(By.CSS_SELECTOR, "input:checked")
            assert picked.get_attribute("value") == str(value)
    return step


def _text(html):
    """What an element with this content has as its text."""
    return "".join(ElementTree.fromstring(f"<p>{html}</p>").itertext())


@pytest.mark.slow
def test_a_step_is_a_link_and_its_formula_is_set(browser, address):
    opened(browser, f"{address}/tour/{TOUR.name}/2")
    at(browser, address, TOUR, 2)
    assert browser.find_elements(By.CSS_SELECTOR, "#tour-formula math .ink-key")
    assert browser.find_element(By.ID, "nav-tour").get_attribute("aria-current") == "page"
    details = browser.find_element(By.CSS_SELECTOR, ".tour details")
    assert details.get_attribute("open") is None
    assert not browser.find_element(By.ID, "tour-answer").is_displayed()
    details.find_element(By.TAG_NAME, "summary").click()
    assert browser.find_element(By.ID, "tour-answer").is_displayed()
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_next_previous_back_and_forward(browser, address):
    opened(browser, f"{address}/tour/{TOUR.name}/2")
    browser.find_element(By.ID, "tour-next").click()
    at(browser, address, TOUR, 3)
    assert (
        browser.find_element(By.CSS_SELECTOR, ".tour details").get_attribute("open") is None
    )
    browser.find_element(By.ID, "tour-step-4").click()
    at(browser, address, TOUR, 4)
    browser.back()
    at(browser, address, TOUR, 3)
    browser.forward()
    at(browser, address, TOUR, 4)
    browser.find_element(By.ID, "tour-previous").click()
    at(browser, address, TOUR, 3)
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_a_knob_that_is_turned_is_in_the_address_and_its_return_is_too(browser, address):
    opened(browser, f"{address}/tour/{TOUR.name}/5")
    step = at(browser, address, TOUR, 5)

    def turned(value):
        browser.execute_script("arguments[0].select()", knob(browser, "inverse_temperature"))
        knob(browser, "inverse_temperature").send_keys(value, Keys.ENTER)

    turned("0.07")
    wait(lambda: "inverse_temperature=0.07" in path(browser, address), "the address")
    turned("0.05")
    wait(lambda: path(browser, address) == f"/tour/{TOUR.name}/5", "the step's own")
    # every knob at its default is not the step's own: the address says it by one of them
    opened(browser, f"{address}/tour/{TOUR.name}/7?x=kappa")
    wait(lambda: path(browser, address).endswith("/7?y=nu"), "a default that is spelled out")
    opened(browser, f"{address}/tour/{TOUR.name}/5")
    before = settled(browser)
    browser.find_element(By.CSS_SELECTOR, ".tour summary").click()
    browser.find_element(By.LINK_TEXT, "Turn it for me").click()
    wait(lambda: step.turned.split("&")[0].split("=")[1] in path(browser, address), "turned")
    wait(lambda: browser.execute_script(FIGURE) not in ("", before), "another figure")
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_presenter_mode_and_its_keys(browser, address):
    opened(browser, f"{address}/tour/{TOUR.name}/1")
    at(browser, address, TOUR, 1)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.ARROW_RIGHT)  # outside presenter mode keys are the browser's
    body.send_keys("p")
    wait(lambda: "presenting" in browser.execute_script(HTML), "presenter mode")
    assert not browser.find_element(By.CSS_SELECTOR, ".controls").is_displayed()
    size = "return parseFloat(getComputedStyle(document.querySelector('.tour')).fontSize)"
    assert browser.execute_script(size) >= 20
    assert path(browser, address).endswith("/1")
    last = len(TOUR.steps)
    for key, k in ((Keys.ARROW_RIGHT, 2), (Keys.END, last), (Keys.ARROW_RIGHT, last)):
        browser.find_element(By.TAG_NAME, "body").send_keys(key)
        at(browser, address, TOUR, k)
    for key, k in ((Keys.ARROW_LEFT, last - 1), (Keys.HOME, 1), (Keys.ARROW_LEFT, 1)):
        browser.find_element(By.TAG_NAME, "body").send_keys(key)
        at(browser, address, TOUR, k)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    wait(lambda: "presenting" not in browser.execute_script(HTML), "the page as before")
    assert browser.find_element(By.CSS_SELECTOR, ".controls").is_displayed()
    assert complaints(browser, address) == []


def test_the_list_the_start_page_and_wrong_addresses(browser, address):
    browser.get(f"{address}/tour")
    cards = (
        "return [...document.querySelectorAll('.tour-cards h3')].map((h) => h.textContent)"
    )
    wait(lambda: browser.execute_script(cards) == [t.title for t in all_tours()], "the list")
    opened(browser, address)
    strip = browser.find_elements(By.CSS_SELECTOR, ".tour-strip a")
    assert [link.text for link in strip] == [tour.title for tour in all_tours()]
    browser.get(f"{address}/tour/{TOUR.name}/99")
    message = "const m = document.querySelector('main > .message'); return m && m.textContent"
    wait(lambda: browser.execute_script(message), "one sentence")
    assert "a whole number from 1 to 8" in browser.execute_script(message)
    assert complaints(browser, address) == []


@pytest.mark.slow
def test_on_a_phone_and_in_the_dark(browser, address):
    sized(browser, 360, 800, mobile=True)
    preferring(browser, color_scheme="dark")
    try:
        for k in (1, 2):
            opened(browser, f"{address}/tour/{TOUR.name}/{k}")
            at(browser, address, TOUR, k)
            assert (
                browser.execute_script("return document.documentElement.scrollWidth") <= 360
            )
        top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
        assert browser.execute_script(top, ".tour") < browser.execute_script(top, ".graph")
    finally:
        sized(browser, 0)
        preferring(browser)


@pytest.mark.slow  # some minutes: every step of every tour, by the button
def test_every_step_is_walked(browser, address):
    seen = {}
    for tour in all_tours():
        opened(browser, f"{address}/tour/{tour.name}/1")
        for k, step in enumerate(tour.steps, start=1):
            at(browser, address, tour, k)
            assert text(browser, "message") == ""
            # by its own words: traces differ from step to step
            seen[tour.name, k] = json.loads(settled(browser))
            assert text(browser, "tour-answer") and text(browser, "tour-question")
            assert browser.find_elements(By.CSS_SELECTOR, "#tour-formula math")
            if step is not tour.steps[-1]:
                browser.find_element(By.ID, "tour-next").click()
        browser.find_element(By.ID, "tour-next").click()
        wait(lambda: path(browser, address) == "/tour", "the list at the end")
    assert len(seen) == sum(len(tour.steps) for tour in all_tours())
    assert complaints(browser, address) == []
