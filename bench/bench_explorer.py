"""From a slider's key press to the redrawn figure in Chromium, beside the library call behind it,
measured in one run.

The page adds to the computation: the request, JSON both ways, Plotly's drawing. The clock stops when
the whole figure is drawn, once; texts beside it may follow. Needs Chromium, its
driver and Selenium (see tests/explorer/test_explorer_browser.py); says so and ends where they are
missing. With the name of a case ("landscape, erf") it measures that one alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import logging
import shutil
import statistics
import sys
import tempfile
import threading
import time
from typing import Any

CHROMIUM = os.environ.get("ATTNSCOPE_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("ATTNSCOPE_CHROMEDRIVER") or shutil.which("chromedriver")
REPEATS = 15
# seconds between two measurements: the page is idle again, texts and address have followed
REST = 0.7
# Counts redraws: Plotly tells when it has drawn. The clock starts in the page, with the slider's
# own event.
PROBE = """
const [name, done] = arguments;
const graph = document.querySelector('#graph .js-plotly-plot');
const slider = document.getElementById(JSON.stringify({name: name, type: 'slider'}));
const drawn = () => { graph.removeListener('plotly_afterplot', drawn); done(performance.now() - start); };
graph.on('plotly_afterplot', drawn);
const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
const start = performance.now();
set.call(slider, Number(slider.value) + 1);
slider.dispatchEvent(new Event('input', {bubbles: true}));
"""
CASES = {
    "landscape, erf": ("/landscape", "gamma2"),
    "landscape, linear": ("/landscape?predictor=linear", "gamma2"),
    "landscape, softmax": ("/landscape?predictor=softmax&inverse_temperature=2", "gamma2"),
    "risk against inverse temperature": ("/risk", "gamma2"),
    "training, population": ("/training", "gamma2"),
    "training, SGD": ("/training?batch=5&dim=80", "gamma2"),
    "posterior": ("/posterior", "gamma2"),
    "convergence": ("/convergence", "noise"),
}
# ms on an idle machine; the others have three times the library's time and 150
BARS = {"landscape, erf": 120.0, "landscape, linear": 120.0, "landscape, softmax": 1000.0}


def main() -> None:
    if not (CHROMIUM and DRIVER):
        return print(
            "bench_explorer needs a Chromium and its driver: apt install chromium chromium-driver; "
            "skipped"
        )
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return print("bench_explorer needs Selenium: pip install selenium; skipped")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    from werkzeug.serving import make_server

    from attnscope_explorer.app import create_app

    server = make_server("127.0.0.1", 0, create_app().server, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    quiet = (
        "--disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync"
    )
    fresh = f"--user-data-dir={tempfile.mkdtemp()} --window-size=1200,1000"
    for argument in f"--headless --no-sandbox --disable-gpu --disable-dev-shm-usage {quiet} {fresh}".split():
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    browser.set_script_timeout(60)
    try:
        print("\nexplorer: slider to redrawn figure, medians")
        print(f"{'view':<28}{'library ms':>12}{'page ms':>12}{'bar ms':>12}  ok")
        chosen = {name: case for name, case in CASES.items() if sys.argv[1:] in ([], [name])}
        for name, case in chosen.items():
            print(
                "{:<28}{:>12}{:>12}{:>12}  {}".format(
                    *_measured(browser, f"http://127.0.0.1:{server.server_port}", name, *case)
                )
            )
    finally:
        browser.quit()
        server.shutdown()


def _measured(
    browser: Any, address: str, name: str, path: str, slider: str
) -> tuple[str, ...]:
    """Medians over slider positions: of the page,
    then of the same states' lines run by the library alone.
    """
    from attnscope_explorer import python_lines as code
    from attnscope_explorer.compute import VIEW_FUNCTIONS
    from attnscope_explorer.state import from_query

    browser.get(address + path)
    while not browser.execute_script(
        "const g = document.querySelector('#graph .js-plotly-plot'); return g && g.data && "
        "g.data.length"
    ):
        time.sleep(0.05)
    time.sleep(1.0)
    repeats = REPEATS
    page = []
    library = []
    for _ in range(repeats + 1):
        page.append(browser.execute_async_script(PROBE, slider))
        time.sleep(REST)
        query = browser.execute_script("return location.search")
        lines = VIEW_FUNCTIONS[path[1:].split("?")[0]](
            from_query(path[1:].split("?")[0], query)[0]
        ).code
        start = time.perf_counter()
        code.computed(lines)
        library.append(1e3 * (time.perf_counter() - start))
    a = statistics.median(library[1:])
    b = statistics.median(page[1:])
    bar = BARS.get(name, 3 * a + 150)
    return name, f"{a:.0f}", f"{b:.0f}", f"{bar:.0f}", "yes" if b <= bar else "no"


if __name__ == "__main__":
    main()
