"""Nineteen clients of the explorer for a minute, alone and beside a twentieth that sends the heaviest
legal request again and again: their median answer and the server's memory, in one run.

`python bench/bench_explorer_load.py` prints both and their ratios; the request is heavy by its
tokens (5 million of them in a step of SGD). Needs Linux, where memory is read from /proc.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from attnscope_explorer.callbacks import STILL_COMPUTING
from attnscope_explorer.knobs import DEFAULTS, VIEWS
from attnscope_explorer.state import plain

CLIENTS = 19
SECONDS = 60.0
LOOKS = (5.0, 15.0)  # seconds that somebody looks at an answer
# what clients turn, by view
TURNED = {
    "landscape": ("gamma2", "seed"),
    "training": ("gamma2", "seed"),
    "posterior": ("gamma2", "seed"),
    "risk": ("gamma2",),
}
# as many tokens in a step as are let through, as many steps as there are
HEAVY = {"batch": 1000, "length": 100, "runs": 50, "steps": 200_000, "dim": 10**6}


def body(redraw: dict[str, Any], view: str, changed: dict[str, object]) -> bytes:
    """What the page sends when these knobs of this view were turned."""
    values = {name: DEFAULTS[view][name] for name in VIEWS[view]} | changed
    outputs: list[Any] = []
    for part in redraw["output"].strip(".").split("..."):
        identity, name = part.rsplit(".", 1)
        every = [{"id": {"type": "row", "name": n}, "property": name} for n in values]
        outputs.append(
            every if identity.startswith("{") else {"id": identity, "property": name}
        )
    knobs = [
        {"id": {"type": "knob", "name": name}, "property": "value", "value": plain(value)}
        for name, value in values.items()
    ]
    asked = {
        "output": redraw["output"],
        "outputs": outputs,
        "inputs": [knobs],
        "state": [{"id": "view", "property": "data", "value": view}],
        "changedPropIds": [],
    }
    return json.dumps(asked).encode()


def asked(address: str, data: bytes, again: bool = True) -> tuple[float, str]:
    """(seconds until the answer, sentence of complaint): as the page does, one asks again as long
    as the server says that it goes on computing.
    """
    start = time.perf_counter()
    head = {"Content-Type": "application/json"}
    while True:
        request = urllib.request.Request(f"{address}/_dash-update-component", data, head)
        with urllib.request.urlopen(request, timeout=120) as reply:
            found = json.load(reply)["response"]
        if not again or found.get("note", {}).get("children") != STILL_COMPUTING:
            return time.perf_counter() - start, found["message"]["children"]


def light(
    address: str, redraw: dict[str, Any], seed: int, end: float, out: list[Any]
) -> None:
    rng = random.Random(seed)
    while time.monotonic() < end:
        view = rng.choice(list(TURNED))
        changed: dict[str, object] = {"runs": 10} if "runs" in VIEWS[view] else {}
        for name in TURNED[view]:
            changed[name] = (
                rng.randrange(1000) if name == "seed" else round(rng.uniform(0.1, 1.5), 3)
            )
        out.append(asked(address, body(redraw, view, changed)))
        time.sleep(rng.uniform(*LOOKS))


def heavy(address: str, redraw: dict[str, Any], end: float, out: list[Any]) -> None:
    seed = 0
    while time.monotonic() < end:
        seed += 1
        out.append(
            asked(address, body(redraw, "training", HEAVY | {"seed": seed}), again=False)
        )


def memory(pid: int) -> float:
    """Megabytes of the process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def measured(seconds: float, beside: bool) -> dict[str, Any]:
    """Median seconds of the light clients' answers, most memory, complaints."""
    code = "from attnscope_explorer.app import serve; serve(port=0, open_browser=False)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2].rstrip("/")
        with urllib.request.urlopen(f"{address}/_dash-dependencies", timeout=60) as reply:
            redraw = next(
                d
                for d in json.load(reply)
                if "message.children" in d["output"] and "query.data" in d["output"]
            )
        for view in TURNED:  # compiled code is loaded once, for both measurements
            asked(address, body(redraw, view, {}))
        end = time.monotonic() + seconds
        seen: list[Any] = []
        weighed: list[Any] = []
        threads = [
            threading.Thread(target=light, args=(address, redraw, i, end, seen))
            for i in range(CLIENTS)
        ]
        if beside:
            threads.append(
                threading.Thread(target=heavy, args=(address, redraw, end, weighed))
            )
        for thread in threads:
            thread.start()
        peak = 0.0
        while time.monotonic() < end:
            time.sleep(1)
            peak = max(peak, memory(process.pid))
        for thread in threads:
            thread.join()
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()
    times = [t for t, _ in seen]
    return {
        "median": statistics.median(times),
        "answers": len(times),
        "heavy": len(weighed),
        "memory": peak,
        "complaints": [m for _, m in (*seen, *weighed) if m],
    }


def main(seconds: float = SECONDS) -> tuple[dict[str, Any], dict[str, Any]]:
    alone, beside = (measured(seconds, other) for other in (False, True))
    print(f"\nexplorer: {CLIENTS} clients for {seconds:.0f} s, alone and beside a heavy one")
    print(f"{'':<10}{'answers':>9}{'median ms':>11}{'peak MB':>9}{'heavy':>7}  complaints")
    for name, found in (("alone", alone), ("beside", beside)):
        print(
            f"{name:<10}{found['answers']:>9}{1e3 * found['median']:>11.0f}"
            f"{found['memory']:>9.0f}{found['heavy']:>7}  {len(found['complaints'])}"
        )
    times = beside["median"] / alone["median"]
    size = beside["memory"] / alone["memory"]
    print(f"ratios: answers {times:.2f} (bar 2), memory {size:.2f} (bar 1.3)")
    return alone, beside


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
