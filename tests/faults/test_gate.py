"""Who may speak to the explorer page: Host, Origin, form, and the headers of every answer."""

import json

import pytest

pytest.importorskip("dash")

from attnscope_explorer.app import create_app

HOSTS = [
    ("127.0.0.1", "127.0.0.1:8050", 200),
    ("127.0.0.1", "localhost:8050", 200),
    ("127.0.0.1", "[::1]:8050", 200),
    ("127.0.0.1", "evil.example:8050", 403),
    ("127.0.0.1", "192.168.0.7:8050", 403),
    ("127.0.0.1", "localhost.evil.example", 403),
    ("0.0.0.0", "192.168.0.7:8050", 200),
    ("0.0.0.0", "evil.example", 403),
    ("lab.example", "lab.example", 200),
]


@pytest.fixture(scope="module")
def page():
    return create_app().server.test_client()


@pytest.mark.parametrize(("listens", "asked", "status"), HOSTS)
def test_a_name_that_is_not_ours_is_refused(listens, asked, status, page):
    client = page if listens == "127.0.0.1" else create_app(listens).server.test_client()
    answer = client.get("/", headers={"Host": asked})
    assert answer.status_code == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_a_foreign_page_cannot_post(page):
    body = json.dumps({"output": "x.y", "inputs": []})
    kind = {"Content-Type": "application/json"}
    foreign = {"Origin": "http://evil.example", **kind}
    refused = page.post("/_dash-update-component", data=body, headers=foreign)
    assert refused.status_code == 403
    assert refused.get_data(as_text=True).count("\n") == 1


FORMLESS = [
    b"",
    b"{",
    b"[]",
    b'{"output": 3}',
    b"[" * 100_000,
    b'{"output": "a", "inputs": [1]}',
]


@pytest.mark.parametrize("body", FORMLESS, ids=range(len(FORMLESS)))
def test_a_body_of_another_form_is_one_line_and_prints_nothing(body, page, capfd):
    kind = {"Content-Type": "application/json"}
    answer = page.post("/_dash-update-component", data=body, headers=kind)
    assert answer.status_code == 400
    assert len(answer.data) < 200
    said = capfd.readouterr()
    assert said.out + said.err == ""


def test_a_callback_that_is_not_there_is_one_line(page, capfd):
    body = json.dumps(
        {"output": "no.such", "inputs": [{"id": "x" * 10**6}], "changedPropIds": []}
    )
    kind = {"Content-Type": "application/json"}
    answer = page.post("/_dash-update-component", data=body, headers=kind)
    assert answer.status_code == 500
    said = capfd.readouterr()
    assert len(said.out + said.err) < 500
    assert "Traceback" not in said.err
