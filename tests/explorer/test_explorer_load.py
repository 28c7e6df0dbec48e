"""Twenty clients at once for a minute: every request answered without a sentence of complaint, and
memory flat after the first third.

`pytest tests/explorer/test_explorer_load.py -s` prints the memory every five seconds (Linux).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from helpers.patience import HANG

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope_explorer.state import VIEWS, default_state, plain

CLIENTS, SECONDS = 20, 60.0
TURNED = {
    "landscape": ("gamma2", "seed"),
    "training": ("gamma2", "seed"),
    "posterior": ("gamma2", "seed"),
    "risk": ("gamma2",),
}
# measured: 258 -> 259 MB; before computations had two threads of their own it was 300 -> 354
GROWTH = 1.05


def knob(name, value):
    return {"id": {"type": "knob", "name": name}, "property": "value", "value": plain(value)}


def request_body(redraw, view, rng):
    """What the page sends when a slider of this view was moved."""
    values = {name: getattr(default_state(view), name) for name in VIEWS[view]} | (
        {"runs": 10} if "runs" in VIEWS[view] else {}
    )
    for name in TURNED[view]:
        values[name] = (
            rng.randrange(1000) if name == "seed" else round(rng.uniform(0.1, 1.5), 3)
        )
    outputs = []
    for part in redraw["output"].strip(".").split("..."):
        identity, name = part.rsplit(".", 1)
        every = [{"id": {"type": "row", "name": n}, "property": name} for n in values]
        outputs.append(
            every if identity.startswith("{") else {"id": identity, "property": name}
        )
    state = [{"id": "view", "property": "data", "value": view}]
    inputs = [[knob(name, value) for name, value in values.items()]]
    return {
        "output": redraw["output"],
        "outputs": outputs,
        "inputs": inputs,
        "state": state,
        "changedPropIds": [],
    }


def client(address, redraw, seed, end, seen, complaints):
    rng = random.Random(seed)
    while time.monotonic() < end:
        body = json.dumps(request_body(redraw, rng.choice(list(TURNED)), rng)).encode()
        head = {"Content-Type": "application/json"}
        try:
            asked = urllib.request.Request(f"{address}/_dash-update-component", body, head)
            with urllib.request.urlopen(asked, timeout=HANG) as reply:
                message = json.load(reply)["response"]["message"]["children"]
            complaints += [message] if message else []
        except OSError as error:
            complaints.append(repr(error))
        seen.append(1)


def megabytes(process):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)
def test_memory_is_flat_and_nobody_is_refused():
    code = "from attnscope_explorer.app import serve; serve(port=0, open_browser=False)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        address = process.stdout.readline().split()[2].rstrip("/")
        with urllib.request.urlopen(f"{address}/_dash-dependencies", timeout=HANG) as reply:
            redraw = next(
                d
                for d in json.load(reply)
                if "message.children" in d["output"] and "query.data" in d["output"]
            )
        start = time.monotonic()
        seen = []
        complaints = []
        memory = []
        end = start + SECONDS
        threads = [
            threading.Thread(target=client, args=(address, redraw, i, end, seen, complaints))
            for i in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(5)
            memory.append(megabytes(process))
            print(
                f"{time.monotonic() - start:5.0f} s  {memory[-1]:6.0f} MB  {len(seen)} requests"
            )
        for thread in threads:
            thread.join()
    finally:
        process.terminate()
        process.wait(timeout=HANG)
        process.stdout.close()
    assert complaints == [] and len(seen) > CLIENTS
    assert memory[-1] <= GROWTH * memory[len(memory) // 3]


@pytest.mark.slow
def test_ctrl_c_ends_the_page_while_it_computes(tmp_path):
    """As the command does: at once, quietly, and with nothing left of what was uploaded."""
    code = (
        "import tempfile; tempfile.tempdir = " + repr(str(tmp_path)) + "\n"
        "from attnscope_explorer import uploads\n"
        "from attnscope_explorer.app import leave, serve\n"
        "uploads._upload_folder(); serve(port=0, open_browser=False); leave()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().split()[2].rstrip("/")
        with urllib.request.urlopen(f"{address}/_dash-dependencies", timeout=HANG) as reply:
            redraw = next(
                d
                for d in json.load(reply)
                if "message.children" in d["output"] and "query.data" in d["output"]
            )
        assert list(tmp_path.iterdir())
        heavy = {"batch": 1000, "length": 100, "runs": 50, "steps": 200_000, "dim": 10**6}
        values = {
            name: getattr(default_state("training"), name) for name in VIEWS["training"]
        }
        body = request_body(redraw, "training", random.Random(0))
        body["inputs"] = [[knob(name, value) for name, value in (values | heavy).items()]]
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(
            f"{address}/_dash-update-component", json.dumps(body).encode(), head
        )
        with urllib.request.urlopen(
            asked, timeout=HANG
        ) as reply:  # a step, or what it says of it
            assert reply.status == 200
        threading.Thread(target=_ignored, args=(asked,), daemon=True).start()
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0 and "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def _ignored(asked):
    with contextlib.suppress(OSError):  # the server ends while it computes the answer
        urllib.request.urlopen(asked, timeout=HANG).close()
