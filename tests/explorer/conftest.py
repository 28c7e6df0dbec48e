"""A served page and a browser, for the tests that drive one."""

import threading

import pytest
from helpers.browser_page import new_browser


@pytest.fixture(scope="module")
def address():
    from werkzeug.serving import make_server

    from attnscope_explorer.app import create_app

    server = make_server("127.0.0.1", 0, create_app().server, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = new_browser(
        tmp_path_factory.mktemp("profile"), tmp_path_factory.mktemp("downloads")
    )
    yield driver
    driver.quit()
