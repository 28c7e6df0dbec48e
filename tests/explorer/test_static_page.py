"""The plain files in a real browser, from file://: nothing asked of any host, the knobs, the stage,
and the numbers of erf and linear attention against the library, digit by digit.
"""

import json
import math
import time

import numpy as np
import pytest
from helpers.browser_page import needs_a_browser, new_browser, preferring, sized, text, wait
from helpers.static_pages import COARSE, outside, settled_page, shown

needs_a_browser()

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import attnscope as at
from attnscope_explorer.stage_data import sequence
from attnscope_explorer.static_page.build import write_static
from attnscope_explorer.tours.registry import all_tours

CLOSE = 1e-9  # relative: the bar of the page
POINTS = 20
KINDS = {"erf": at.Erf, "linear": at.LinearAttention}
DATA = "const g = document.querySelector('#graph .js-plotly-plot'); return JSON.stringify(g.data)"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The first tour, which needs nothing computed beforehand, and coarse tables."""
    folder = tmp_path_factory.mktemp("site")
    write_static(folder, COARSE, {}, tours=all_tours()[:1])
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = new_browser(
        tmp_path_factory.mktemp("profile"), tmp_path_factory.mktemp("downloads")
    )
    sized(driver, 1300, 1000)
    yield driver
    driver.quit()


def traces(browser):
    return json.loads(browser.execute_script(DATA))


def spread(count):
    """POINTS places of so many."""
    return np.unique(np.linspace(0, count - 1, POINTS).round().astype(int))


@pytest.mark.slow
def test_every_view_opens_without_a_complaint_or_a_request(browser, site):
    for view in ("landscape", "risk", "training?steps=200", "posterior", "samples"):
        shown(browser, site, f"#/{view}")
    assert outside(browser) == []


@pytest.mark.parametrize(
    "word",
    [pytest.param(kind, marks=pytest.mark.slow if kind == "erf" else []) for kind in KINDS],
)
def test_the_landscape_is_the_librarys(browser, site, word):
    shown(
        browser,
        site,
        f"#/landscape?predictor={word}&steps=10&runs=2&noise=0.2&eta=0.1&rho=0.05",
    )
    heat = traces(browser)[0]
    places = [
        (i, j)
        for j, row in enumerate(heat["customdata"])
        for i, z in enumerate(row)
        if z is not None
    ]
    task = at.SingleLocation(dim=400, length=10, noise=0.2)
    for i, j in (places[n] for n in spread(len(places))):
        o = at.Overlaps(heat["x"][i], 0.1, 0.0, heat["y"][j], 0.05)
        exact = at.risk(task, KINDS[word](0.1), o).value
        assert heat["customdata"][j][i] == pytest.approx(exact, rel=CLOSE)


def test_the_risk_curves_are_the_librarys(browser, site):
    shown(browser, site, "#/risk?dim=50&length=7&gamma2=0.6")
    task = at.SingleLocation(dim=50, length=7, gamma=0.6**0.5)
    found = {trace["name"]: trace for trace in traces(browser) if trace["mode"] == "lines"}
    for word, kind in KINDS.items():
        x, y = found[word]["x"], found[word]["y"]
        for i in spread(len(x)):
            exact = at.risk(task, kind(x[i]), at.Overlaps.oracle()).excess
            assert y[i] == pytest.approx(exact, rel=CLOSE)
    assert found["best linear predictor"]["y"][0] == pytest.approx(
        task.linear_risk().excess, rel=CLOSE
    )
    assert found["null"]["y"][0] == pytest.approx(task.null_risk().excess, rel=CLOSE)
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#table tbody tr')].map((r) => [...r.children].map((c) => c.textContent))"
    )
    for word, kind in KINDS.items():
        best, risk = at.optimal_inverse_temperature(task, kind)
        row = next(r for r in rows if r[0] == word and r[3] == "best inverse temperature")
        # five digits are shown; a minimum's place is flat to the root of its rounding
        assert float(row[1]) == pytest.approx(best, rel=1e-4)
        assert float(row[2]) == pytest.approx(risk.excess, rel=1e-4)


@pytest.mark.parametrize("word", KINDS)
def test_training_is_the_librarys(browser, site, word):
    shown(browser, site, f"#/training?predictor={word}&steps=400&runs=12&step_size=0.004")
    run = at.train(
        at.SingleLocation(dim=400, length=10),
        KINDS[word](0.1),
        start="sphere",
        runs=12,
        steps=400,
        step_size=0.004,
        log_every=4,
        progress=False,
    )
    # undecided so early: runs one by one, a gap after each
    risk = np.array([np.nan if y is None else y for y in traces(browser)[0]["y"]], float)
    page = risk.reshape(12, -1)[:, :-1]
    for j in spread(len(run.step)):
        np.testing.assert_allclose(page[:, j], run.excess[:, j], rtol=CLOSE)


@pytest.mark.parametrize("length", [10, 24])
def test_the_posterior_view_shows_the_librarys_sequence(browser, site, length):
    """The page has the sequence of 10 tokens; one of 24 is handed to it."""
    task = at.SingleLocation(dim=400, length=length)
    batch = task.sample(1, seed=1)
    shown(browser, site, "#/posterior?dim=400")
    if length > 10:
        own = sequence(batch.tokens[0], task, batch.location[0], batch.target[0])
        script = "window.attnscopeDrawn.sequences[arguments[0]] = arguments[1]; location.hash = arguments[2]"
        browser.execute_script(
            script, f"400 {length} 0.5 0 1", own, f"#/posterior?dim=400&length={length}"
        )
        wait(lambda: f"length={length}" in browser.current_url, "the address")
        wait(lambda: len(traces(browser)[1]["x"]) == length - 1, "the longer sequence")
    data = traces(browser)
    found = {}
    for panel in range(1, 8):
        axis = "x" if panel == 1 else f"x{panel}"
        points = [t for t in data if t["xaxis"] == axis and t["mode"] == "markers"]
        values = {int(x): y for t in points for x, y in zip(t["x"], t["y"])}
        found[panel] = np.array([values[i + 1] for i in range(length)])
    np.testing.assert_allclose(found[1], batch.tokens[0] @ task.key, rtol=CLOSE)
    np.testing.assert_allclose(found[2], batch.tokens[0] @ task.value, rtol=CLOSE)
    posterior = task.location_posterior(batch.tokens)[0]
    np.testing.assert_allclose(found[3], posterior, rtol=1e-7, atol=1e-300)
    for panel, kind in ((5, at.Erf), (7, at.LinearAttention)):
        best, _ = at.optimal_inverse_temperature(task, kind)
        weights = at.attention_weights(kind(best), task.key, batch.tokens)[0]
        np.testing.assert_allclose(
            found[panel], weights, rtol=1e-5
        )  # of a flat minimum's place
    sigma = at.attention_weights(at.optimal_sigma(task), task.key, batch.tokens)[0]
    np.testing.assert_allclose(found[4], sigma, rtol=CLOSE, atol=1e-300)


def test_outside_its_tables_the_page_names_the_live_one(browser, site):
    shown(browser, site, "#/risk?gamma2=0.7")
    note = text(browser, "note")
    assert "There are gaps" in note and "attnscope explore computes the rest" in note
    assert "not in the table" in text(browser, "table")
    shown(browser, site, "#/landscape?predictor=softmax&inverse_temperature=1.5")
    assert "attnscope explore" in text(browser, "message")
    assert "?predictor=softmax&inverse_temperature=1.5" in text(browser, "message")
    assert outside(browser) == []


@pytest.mark.slow
def test_values_that_cannot_be_used_get_a_sentence(browser, site):
    shown(browser, site, "#/landscape?dim=abc&colour=red&steps=10")
    said = text(browser, "address-message")
    assert (
        "dim of this page must be a whole number from 5 to 1000000, got 'abc'; try dim=400."
        in said
    )
    assert "got 'colour'" in said
    browser.get("about:blank")
    browser.get(f"file://{site}/index.html#/nowhere")
    assert "got 'nowhere'" in wait(
        lambda: browser.find_element(By.CSS_SELECTOR, "main .message").text, "a sentence"
    )
    browser.get("about:blank")
    browser.get(f"file://{site}/index.html#tour/swapped-runs/99")
    assert f"from 1 to {len(all_tours()[0].steps)}" in wait(
        lambda: browser.find_element(By.CSS_SELECTOR, "main .message").text, "a sentence"
    )


@pytest.mark.slow
def test_keys_turn_knobs_and_the_address_follows(browser, site):
    shown(browser, site, "#/landscape?steps=10")
    box = browser.find_element(By.ID, "knob-dim")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("80", Keys.ENTER)
    wait(lambda: "dim=80" in browser.current_url, "the address")
    settled_page(browser)
    slider = browser.find_element(By.ID, "slider-inverse_temperature")
    slider.send_keys(Keys.ARROW_RIGHT)
    wait(lambda: "inverse_temperature=0.1" in browser.current_url, "the address")
    browser.find_element(
        By.CSS_SELECTOR, "input[name=knob-predictor][value=linear]"
    ).send_keys(Keys.SPACE)
    wait(lambda: "predictor=linear" in browser.current_url, "the address")
    settled_page(browser)
    again = browser.execute_script(DATA)
    shown(browser, site, "#" + browser.current_url.split("#")[1])
    assert browser.execute_script(DATA) == again  # the link reopens what was shown
    box = browser.find_element(By.ID, "knob-dim")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("1", Keys.ENTER)
    wait(lambda: "must be a whole number from 5" in text(browser, "message"), "a sentence")
    assert "dim=80" in browser.current_url


def test_the_task_goes_from_tab_to_tab(browser, site):
    shown(browser, site, "#/landscape?steps=10&dim=60&length=4")
    browser.find_element(By.LINK_TEXT, "Posterior").click()
    wait(lambda: "#/posterior?dim=60&length=4" in browser.current_url, "the address")


STAGE = "return document.querySelector('#stage .stage-sentence').textContent"
PIXEL = """const [curve, point] = arguments, g = document.querySelector('#graph .js-plotly-plot');
const t = g.data[curve], x = g._fullLayout.xaxis, y = g._fullLayout.yaxis;
const at = Array.isArray(point) ? [t.x[point[1]], t.y[point[0]]] : [t.x[point], t.y[point]];
const box = g.getBoundingClientRect();
return [box.left + x._offset + x.l2p(at[0]), box.top + y._offset + y.l2p(at[1])]"""


def point_at(browser, curve, point):
    """Move the mouse there, in two steps: Plotly looks at most every 50 ms."""
    x, y = browser.execute_script(PIXEL, curve, point)
    for shift in (3, 0):
        browser.execute_cdp_cmd(
            "Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x + shift, "y": y}
        )
        time.sleep(0.1)


@pytest.mark.slow
def test_what_is_under_the_mouse_comes_on_stage(browser, site):
    # paths that end in a minimum would lie over its mark
    shown(browser, site, "#/landscape?steps=10&runs=1&x=eta&y=theta")
    data = traces(browser)
    marks = [i for i, t in enumerate(data) if t.get("name", "").startswith("swapped")]
    point_at(browser, marks[0], 0)
    wait(lambda: "point swapped (minimum)" in text(browser, "stage"), "the minimum on stage")
    point_at(browser, 0, [50, 10])
    wait(lambda: "a head at eta" in text(browser, "stage"), "a point of the plane on stage")
    said = browser.execute_script(STAGE)
    browser.find_element(By.CSS_SELECTOR, ".stage-heads button").send_keys(Keys.ENTER)
    wait(lambda: "point oracle (minimum)" in text(browser, "stage"), "the oracle on stage")
    shown(browser, site, "#/landscape?steps=2000&runs=6&x=eta&y=theta")
    data = traces(browser)
    path = next(i for i, t in enumerate(data) if " paths: " in t.get("name", ""))
    x, y = data[path]["x"], data[path]["y"]
    far = max(
        range(len(x)),
        key=lambda i: 0 if x[i] is None else 0.4 - abs(abs(x[i]) + abs(y[i]) - 0.4),
    )
    point_at(browser, path, far)
    wait(lambda: "a run on its way" in text(browser, "stage"), "a run on stage")
    assert browser.execute_script(STAGE) != said


def test_the_stage_is_read_by_keys_and_says_its_sentence(browser, site):
    shown(browser, site, "#/posterior")
    box = browser.find_element(By.CSS_SELECTOR, "#stage .stage-box")
    assert text(browser, "stage").count("decides") and "predicts" in box.get_attribute(
        "aria-label"
    )
    box.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.find_element(By.CSS_SELECTOR, ".stage-readout").text.startswith("Token 2")


@pytest.mark.slow
def test_a_tour_is_walked_and_presented_by_keys(browser, site):
    tour = all_tours()[0]
    shown(browser, site, f"#tour/{tour.name}/1")
    page = browser.find_element(By.TAG_NAME, "body")
    page.send_keys("p")
    assert "presenting" in browser.find_element(By.TAG_NAME, "html").get_attribute("class")
    for k in range(2, len(tour.steps) + 1):
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
        wait(
            lambda k=k: browser.current_url.endswith(f"#tour/{tour.name}/{k}"),
            "the next step",
        )
    browser.find_element(By.TAG_NAME, "body").send_keys(
        Keys.ARROW_RIGHT
    )  # its end is its end
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.HOME)
    wait(lambda: browser.current_url.endswith("/1"), "the first step")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.END)
    wait(lambda: browser.current_url.endswith(f"/{len(tour.steps)}"), "the last step")
    browser.find_element(By.TAG_NAME, "body").send_keys("p")
    assert "presenting" not in browser.find_element(By.TAG_NAME, "html").get_attribute(
        "class"
    )
    shown(browser, site, f"#tour/{tour.name}/7")
    browser.find_element(By.CSS_SELECTOR, ".tour summary").click()
    browser.find_element(By.LINK_TEXT, "Turn it for me").click()
    wait(lambda: "seed=1" in browser.current_url, "the turned knob")
    settled_page(browser)
    assert "14 swapped" in text(browser, "note")  # what the answer says
    assert outside(browser) == []


@pytest.mark.slow
def test_nothing_is_wider_than_a_phone(browser, site):
    try:
        sized(browser, 360, 780, mobile=True)
        for address in (
            "#/landscape?steps=50",
            "#/risk",
            "#/training?steps=50",
            "#/posterior",
            "#tours",
            "#tour/swapped-runs/4",
        ):
            shown(browser, site, address)
            width = browser.execute_script("return document.documentElement.scrollWidth")
            assert width <= 360, address
    finally:
        sized(browser, 1300, 1000)


# Every text's colour against the first background behind it that is not transparent
CONTRAST = """
const parts = (c) => c.match(/[\\d.]+/g).map(Number);
const linear = (x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
const light = (c) => {
  const [r, g, b] = parts(c).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor, p = parts(c);
    if (p.length < 4 || p[3] === 1) return c;
  }
  return 'rgb(255, 255, 255)';
};
const out = [];
document.querySelectorAll('body *').forEach((e) => {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.closest('.unseen, .js-plotly-plot, script')) return;
  const style = getComputedStyle(e), svg = e.namespaceURI.endsWith('svg');
  const a = light(svg ? style.fill : style.color), b = light(behind(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) out.push(`${e.tagName} ${e.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
});
return out;
"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_aa(browser, site, scheme):
    try:
        preferring(browser, color_scheme=scheme)
        for address in (
            "#/landscape?steps=50&step_size=0.1",
            "#/posterior",
            "#tour/swapped-runs/3",
            "#tours",
            "#/risk?dim=abc",
        ):
            shown(browser, site, address)
            browser.execute_script(
                "document.querySelectorAll('details').forEach((x) => { x.open = true; })"
            )
            assert browser.execute_script(CONTRAST) == [], address
    finally:
        preferring(browser)


@pytest.mark.slow
def test_csv_and_svg_are_saved(browser, site):
    shown(browser, site, "#/risk")
    browser.find_element(By.ID, "csv").click()
    browser.find_element(By.ID, "svg").click()
    wait(
        lambda: (
            {"attnscope-risk.csv", "attnscope-risk.svg"}
            <= {p.name for p in browser.downloads.iterdir()}
        ),
        "downloads",
    )
    lines = wait(
        lambda: (browser.downloads / "attnscope-risk.csv").read_text().splitlines(),
        "the table",
    )
    assert lines[0] == "curve,x,y,z" and lines[1].startswith("erf,")
    assert math.isfinite(float(lines[1].split(",")[2]))
