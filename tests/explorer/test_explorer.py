"""The explorer without a browser: states and addresses, controls, Plotly's form of a figure, the
server's manners. Its views are in test_explorer_views.py and test_explorer_bags.py."""

import gc
import json
import signal
import socket
import subprocess
import sys
import urllib.request
import weakref

import numpy as np
import pytest
from helpers.patience import HANG
from hypothesis import given
from hypothesis import strategies as st

import attnscope as at

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope_explorer.app import create_app, serve
from attnscope_explorer.compute import answer
from attnscope_explorer.controls import position, ticks
from attnscope_explorer.knobs import DEFAULTS, GROUPS
from attnscope_explorer.page import page
from attnscope_explorer.python_lines import computed
from attnscope_explorer.state import (
    FIELDS,
    VIEWS,
    Choice,
    Number,
    Numbers,
    State,
    carried_query,
    default_state,
    from_query,
    from_values,
    to_query,
)


def state_of(view, change):
    return default_state(view).changed(**change)


def values_of(field):
    if isinstance(field, Choice):
        return st.sampled_from(list(field.options))
    if isinstance(field, Numbers):
        one = st.integers(1, 10**6) if field.argument.whole else st.floats(0, 10**6)
        return st.lists(one, min_size=1, max_size=12).map(tuple)
    if field.whole:
        return st.integers(int(field.low), int(field.high))
    number = st.floats(field.low, field.high)
    return st.none() | number if field.optional else number


@pytest.mark.parametrize("view", VIEWS)
@given(data=st.data())
def test_a_link_reopens_the_state(view, data):
    chosen = {name: data.draw(values_of(FIELDS[name])) for name in VIEWS[view]}
    state = state_of(view, chosen)
    assert from_query(view, to_query(state)) == (state, [])
    assert from_query(view, "?" + to_query(state)) == (state, [])


@pytest.mark.slow
@given(view=st.sampled_from(list(VIEWS)), query=st.text(max_size=60))
def test_any_text_in_the_address_gives_a_state_and_sentences(view, query):
    state, sentences = from_query(view, query)
    assert isinstance(state, State) and state.view == view
    assert all(s.endswith(".") and "\n" not in s for s in sentences)


BAD = (
    "dim=1 dim=4.5 dim=many dim= dim=None length=1e99 inverse_temperature=nan noise=inf gamma2=-1 "
    "predictor=tanh colour=red"
)


@pytest.mark.parametrize("pair", BAD.split())
def test_a_bad_value_is_one_sentence_and_the_default_stands(pair):
    name, text = pair.split("=")
    state, sentences = from_values("landscape", [(name, text)])
    assert state == default_state("landscape")
    assert len(sentences) == 1 and name in sentences[0] and "must be" in sentences[0]
    assert answer("landscape", [(name, text)]) == (None, None, sentences[0])


def test_what_cannot_be_computed_is_one_sentence():
    assert "another overlap" in answer("landscape", [("x", "nu"), ("y", "nu")])[2]
    assert (
        "at most 10000000" in answer("posterior", [("dim", "1000000"), ("length", "1000")])[2]
    )
    assert "one of /landscape" in str(page("/nothing", "")[0])
    assert "must be a whole number" in json.dumps(
        page("/risk", "?dim=x")[-1].to_plotly_json(), default=lambda c: c.to_plotly_json()
    )


def test_a_task_travels_between_views_and_the_dimension_always():
    state = state_of("landscape", {"dim": 80, "gamma2": 0.25, "runs": 7})
    assert carried_query(state, "risk") == "dim=80&gamma2=0.25"
    # one dimension across tabs, also where a view has its own default
    assert carried_query(default_state("posterior"), "risk") == "dim=20"
    assert carried_query(default_state("risk"), "posterior") == "dim=400"
    assert carried_query(default_state("landscape"), "training") == ""


@pytest.mark.parametrize("view", VIEWS)
def test_every_knob_has_a_labelled_control(view):
    found, labels = [], 0

    def walk(node):
        nonlocal labels
        if isinstance(node, (list, tuple)):
            for child in node:
                walk(child)
        elif hasattr(node, "to_plotly_json"):
            identity = getattr(node, "id", None)
            if isinstance(identity, dict) and identity["type"] == "knob":
                found.append(identity["name"])
            labels += node.__class__.__name__ in ("Label", "Legend")
            walk(getattr(node, "children", None))

    walk(page(f"/{view}", ""))
    assert sorted(found) == sorted(VIEWS[view])
    assert labels > len(found)
    assert {name for names in VIEWS.values() for name in names} == set(FIELDS)
    assert all(getattr(default_state(view), name) == DEFAULTS[view][name] for name in FIELDS)
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(FIELDS)


def test_sliders_cover_their_range():
    for field in (f for f in FIELDS.values() if isinstance(f, Number)):
        assert (position(field.low, field), position(field.high, field)) == (0, ticks(field))
        assert ticks(field) >= 5


def test_a_computation_leaves_no_circle_of_arrays_behind():
    """What the lines made is freed when it is dropped, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        names = computed(
            "import numpy as np\nbig = np.zeros(1000)\ndef use():\n    return big\n"
        )
        gone = weakref.ref(names["big"])
        del names
        assert gone() is None
    finally:
        gc.enable()


def test_plotly_dict_draws_every_kind_of_mark():
    z = np.array([[1.0, 10.0], [np.nan, 1000.0]])
    marks = (
        Line([0, 1, 2], [1, np.nan, 3], "line"),
        Band([0, 1], [0, 0], [1, 2], "band"),
        Points([0], [1], "p", error=[0.1]),
    )
    figure = Figure(
        "t",
        (
            Panel("a", "x", "y", marks, log_y=True, y_range=(1, 100)),
            Panel("b", "x", "y", (Heat([0, 1], [0, 1], z, "z", log_z=True),)),
        ),
    )
    out = json.loads(json.dumps(plotly_dict(figure), allow_nan=False))
    assert [t["type"] for t in out["data"]] == ["scatter"] * 4 + ["heatmap"]
    assert out["data"][0]["y"] == [1, None, 3] and out["data"][-1]["z"] == [[0, 1], [None, 3]]
    assert out["layout"]["yaxis"]["range"] == [0, 2] and out["data"][3]["error_y"][
        "array"
    ] == [0.1]
    assert out["data"][2]["fill"] == "tonexty" and out["data"][-1]["yaxis"] == "y2"


def test_views_do_not_import_dash_and_nothing_imports_plotly():
    code = (
        "import attnscope_explorer.views.landscape, attnscope_explorer.views.risk, sys; "
        "print([m for m in ('dash', 'plotly') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_the_page_forbids_the_browser_every_other_host():
    client = create_app().server.test_client()
    answer = client.get("/risk?dim=80")
    assert (
        answer.status_code == 200
        and "default-src 'self'" in answer.headers["Content-Security-Policy"]
    )
    text = answer.get_data(as_text=True)
    sources = [
        part.split('"')[0] for key in ('src="', 'href="') for part in text.split(key)[1:]
    ]
    assert sources and all(s.startswith("/") and not s.startswith("//") for s in sources)
    for name in ("explorer.js", "explorer.css"):
        with client.get(f"/assets/{name}") as asset:
            assert asset.status_code == 200


def test_a_port_that_cannot_be_used_is_one_sentence():
    with pytest.raises(at.AttnscopeError, match="port of explore must be a whole number"):
        serve(port=70_000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(at.AttnscopeError, match="host and port of explore must be free"):
            serve(port=taken.getsockname()[1], open_browser=False)


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("127.0.0.2", True)])
def test_serve_answers_warns_and_ends_quietly(host, warns):
    """127.0.0.2 is this machine too, but not the address that a user means by it:
    it stands for any other --host.
    """
    code = (
        f"from attnscope_explorer.app import serve; serve(host={host!r}, port=0, "
        "open_browser=False)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("Warning") == warns
        line = process.stdout.readline() if warns else line
        port = int(line.split(f"{host}:")[1].split("/")[0])
        assert urllib.request.urlopen(f"http://{host}:{port}/", timeout=HANG).status == 200
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0 and "Traceback" not in errors
