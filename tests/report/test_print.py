"""The report on paper, in a real browser: a claim as large as claims get stands on one sheet.
Nothing is downloaded: where a piece is missing, the tests skip.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers import fake_claims as fake

from attnscope.claims.claim import Comparison, Context
from attnscope.claims.table import Table
from attnscope.claims.verdict import run_claim
from attnscope.figures.figure import Figure, Line, Panel
from attnscope.report.build import page

CHROMIUM = os.environ.get("ATTNSCOPE_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("ATTNSCOPE_CHROMEDRIVER") or shutil.which("chromedriver")
HOW = "printing needs a Chromium, its driver and Selenium"
if not (CHROMIUM and DRIVER):
    pytest.skip(HOW, allow_module_level=True)
pytest.importorskip("selenium", reason=HOW)

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

INCH = 96  # CSS pixels
MARGINS = (26 / 25.4, 24 / 25.4)  # inches across and down, as @page has them
SHEETS = {"letter": (8.5, 11.0), "A4": (8.27, 11.69)}
# bottom of what a claim shows, by its id; columns of panels and the place of the first table
LOOK = """return [...document.querySelectorAll('article')].map((article) => {
  const panels = [...article.querySelectorAll('.panel')].map((p) => p.getBoundingClientRect());
  const table = article.querySelector('.small').getBoundingClientRect();
  return { height: article.getBoundingClientRect().height, wide: document.body.scrollWidth,
           row: panels.filter((p) => p.top === panels[0].top).length,
           beside: table.left >= panels[panels.length - 1].right && table.top < panels[0].bottom };
})"""


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    quiet = "--disable-quic --no-first-run --disable-background-networking --disable-sync"
    fresh = f"--user-data-dir={tmp_path / 'profile'} --window-size=1200,1000"
    for argument in f"--headless --no-sandbox --disable-gpu {quiet} {fresh}".split():
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def large_claim():
    """As the largest of the catalogue: 18 comparisons, 12 lines of code, a table of ten rows."""
    x = np.linspace(0.0, 1.0, 5)
    panels = tuple(Panel(f"panel {i}", "x", "y", (Line(x, x, "line"),)) for i in range(3))
    words = "a quantity with a name of some length, at this and that setting"
    why = "5 standard errors; a true statement fails for 6e-7 of the seeds an entry"
    table = Table("risks", ("setting", "one", "two"), (("L = 10", 0.12345, 0.5),) * 10, 3)
    return replace(
        run_claim(fake.HOLDS, Context()),
        statement="A statement of four lines on paper. " * 14,
        comparisons=tuple(
            Comparison(words, 1.0, 1.0, 1e-10, why=f"{why} {i // 3}") for i in range(18)
        ),
        figure=Figure("three panels", panels, columns=2),
        tables=(table,),
        snippet="print('a line of code as long as lines of code are here', 12345)\n" * 12,
    )


@pytest.mark.slow
def test_a_claim_as_large_as_they_get_stands_on_one_sheet(tmp_path, browser):
    path = tmp_path / "index.html"
    path.write_text(page([large_claim()], 0, "1.2.3"), "utf-8")
    browser.get(path.as_uri())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for across, down in SHEETS.values():
        width = round((across - MARGINS[0]) * INCH)
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        (claim,) = browser.execute_script(LOOK)
        assert claim["height"] <= (down - MARGINS[1]) * INCH
        assert claim["row"] == 3 and claim["beside"] and claim["wide"] <= width
