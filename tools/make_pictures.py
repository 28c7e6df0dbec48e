"""Take the README's pictures of the report and of the explorer: `python tools/make_pictures.py REPORT`,
REPORT the folder of `attnscope reproduce`; writes docs/pictures/report.png and explorer.png.

Needs selenium and a Chromium with its driver that are already there; nothing is downloaded.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# width and height in pixels: what fits half of a README's column and stays legible
REPORT = (960, 1000)
EXPLORER = (1200, 1040)
PORT = 8765
PATIENCE = 90  # seconds for the page to come up, and for its first figure


def browser(profile: str) -> Any:
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (*QUIET, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def taken(driver: Any, address: str, size: tuple[int, int], drawn: str) -> bytes:
    """A picture of the page once `drawn`, an expression of JavaScript, is true."""
    wide, high = size
    metrics = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(address)
    waited(lambda: driver.execute_script(f"return !!({drawn})"), address)
    time.sleep(5)  # the stage is still being drawn when the first figure is there
    return driver.get_screenshot_as_png()


def waited(ready: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"{what} was not ready within {PATIENCE} s")
        time.sleep(0.5)


def up(address: str) -> bool:
    try:
        with urlopen(address, timeout=2):
            return True
    except OSError:
        return False


def write(name: str, picture: bytes) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").save(FOLDER / name, optimize=True)
    print(f"{name}: {(FOLDER / name).stat().st_size // 1024} kB")


def main(report: str) -> None:
    page = Path(report, "index.html").resolve()
    if not page.exists():
        raise SystemExit(f"{report} must be the folder of a report, got no index.html in it")
    command = [sys.executable, "-m", "attnscope.cli", "explore", "--no-browser"]
    server = subprocess.Popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            write("report.png", taken(driver, page.as_uri(), REPORT, "document.body"))
            address = f"http://127.0.0.1:{PORT}/"
            waited(lambda: up(address), address)
            # map, arrows, stationary points and paths
            shown = (
                "(document.querySelector('.js-plotly-plot') || {data: []}).data.length > 3"
            )
            write("explorer.png", taken(driver, address, EXPLORER, shown))
        finally:
            driver.quit()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["report"]))
