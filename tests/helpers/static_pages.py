"""The explorer as plain files in a browser: opening an address, waiting, and what the page says."""

import json

from attnscope_explorer.static_page.tables import TABLE_AXES, Axis
from helpers.browser_page import FIGURE, text, wait

# Coarse tables of the default spread, a second's work: the page is what is tested with them
FEW = {
    "gamma2": (0.5,),
    "signal": (2.0, 3.2, 5.0, 7.5, 10.0, 14.5),
    "dim": (8, 20, 60, 150, 400),
    "length": (2, 5, 10, 40, 100),
    "inverse_temperature": TABLE_AXES["softmax"][3].nodes[::3],
}
COARSE = {
    name: tuple(Axis(a.knob, FEW[a.knob], a.scale, a.whole) for a in axes)
    for name, axes in TABLE_AXES.items()
}
BUSY = ("it goes on", "Training ")


def shown(browser, site, address):
    """Open an address of the page behind the hash, and wait until it has computed."""
    browser.get("about:blank")
    browser.get(f"file://{site}/index.html{address}")
    return settled_page(browser)


def settled_page(browser):
    def ready():
        if browser.execute_script("return document.querySelector('.tour-cards') !== null"):
            return True
        note = text(browser, "note")
        drawn = browser.execute_script(FIGURE) and note
        return text(browser, "message") or (drawn and not any(word in note for word in BUSY))

    wait(ready, "the view")
    return browser


def outside(browser):
    """Console errors and warnings, and every request that is not of a file."""
    errors = [e["message"] for e in browser.get_log("browser")]
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    sent = [e for e in events if e["method"] == "Network.requestWillBeSent"]
    urls = [e["params"]["request"]["url"] for e in sent]
    assert any(url.startswith("file:") for url in urls)  # the log does record requests
    return errors + [
        u for u in urls if not u.startswith(("file:", "data:", "blob:", "about:"))
    ]
