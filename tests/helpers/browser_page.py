"""A page of the explorer in a real browser: Debian's Chromium driven by Selenium. Nothing is
downloaded: where a piece is missing, tests skip.
"""

import json
import os
import shutil
import time

import pytest

CHROMIUM = (
    os.environ.get("ATTNSCOPE_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("google-chrome")
)
DRIVER = os.environ.get("ATTNSCOPE_CHROMEDRIVER") or shutil.which("chromedriver")
HOW = (
    "browser tests need a Chromium, its driver and Selenium: apt install chromium "
    "chromium-driver && pip install selenium"
)
PATIENCE = 300.0  # seconds; a page answers in well under one, but a test machine may be busy
FIGURE = (
    "const g = document.querySelector('#graph .js-plotly-plot'); return g && g.data ? "
    "JSON.stringify(g.data) : ''"
)

LOADING = "return document.querySelector('[data-dash-is-loading]') !== null"


def needs_a_browser():
    """Skip the module where there is none, or no Dash."""
    pytest.importorskip(
        "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
    )
    if not (CHROMIUM and DRIVER):
        pytest.skip(HOW, allow_module_level=True)
    pytest.importorskip("selenium", reason=HOW)


def new_browser(profile, downloads):
    """A headless Chromium with a fresh profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    quiet = (
        "--disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync"
    )
    fresh = f"--user-data-dir={profile} --window-size=1200,1000"
    for argument in f"--headless --no-sandbox --disable-gpu --disable-dev-shm-usage {quiet} {fresh}".split():
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # explicit paths: Selenium fetches nothing
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.downloads = downloads
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior",
        {"behavior": "allow", "downloadPath": str(driver.downloads)},
    )
    driver.get("about:blank")
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # a fresh profile opens the browser's own first page
    return driver


def sized(browser, width, height=900, mobile=False):
    """The page as wide as a screen of this size; 0 takes that back."""
    if not width:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        return
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def preferring(browser, **features):
    """The system's preferences: color_scheme="dark", reduced_motion="reduce"."""
    named = [
        {"name": f"prefers-{name.replace('_', '-')}", "value": value}
        for name, value in features.items()
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})


def wait(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


def opened(browser, url):
    from attnscope_explorer.callbacks import STILL_COMPUTING

    browser.get("about:blank")
    browser.get(url)
    wait(lambda: browser.execute_script(FIGURE), "the figure")
    wait(lambda: text(browser, "note") not in ("", STILL_COMPUTING), "the note")
    return browser


def text(browser, identity):
    return browser.execute_script(
        "const e = document.getElementById(arguments[0]); return e ? e.textContent : ''",
        identity,
    )


def knob(browser, name, kind="knob"):
    identity = json.dumps(
        {"name": name, "type": kind}, separators=(",", ":")
    )  # not a valid CSS selector, hence the script
    return browser.execute_script("return document.getElementById(arguments[0])", identity)


def settled(browser):
    """The figure once it has stopped changing."""
    last = browser.execute_script(FIGURE)
    since = time.monotonic()
    while time.monotonic() - since < 0.4:
        time.sleep(0.05)
        now = browser.execute_script(FIGURE)
        if now != last or browser.execute_script(LOADING):  # however long the server takes
            last = now
            since = time.monotonic()
    return last


def complaints(browser, address):
    """Console errors, and every request that went elsewhere."""
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    urls = [
        e["params"]["request"]["url"]
        for e in events
        if e["method"] == "Network.requestWillBeSent"
    ]
    assert any(u.startswith(address) for u in urls)  # the log does record requests
    return errors + [
        u for u in urls if not u.startswith((address, "data:", "blob:", "about:"))
    ]
