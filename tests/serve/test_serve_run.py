"""The process: who may come in, how it starts, and how it ends."""

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from in_process import called
from served import WAIT_S, Running, httpx, wait_for

from ocria.errors import EngineError, UsageError
from ocria.serve.gate import route_of
from ocria.serve.options import ServeOptions

KEY = "correct horse battery staple"


@pytest.fixture(scope="module")
def locked():
    """A server with a key; its model is not waited for."""
    server = Running(key=KEY.encode())
    yield server
    server.stop()


def basic(password):
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize(
    "told", [None, "Bearer", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", "Basic ???", basic("x"), f"Token {KEY}"]
)
@pytest.mark.parametrize("path", ["/", "/app.js", "/metrics", "/v1/models", "/v1/jobs/x", "/nothing"])
def test_without_the_key(locked, path, told):
    answer = locked.client.get(path, headers={} if told is None else {"Authorization": told})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["error"]["type"] == "unauthorized"


def test_with_the_key(locked):
    for told in (f"Bearer {KEY}", f"bearer {KEY}", basic(KEY)):
        assert locked.client.get("/metrics", headers={"Authorization": told}).status_code == 200
    asked = locked.client.get("/", headers={"Accept": "text/html,*/*"})
    assert asked.headers["www-authenticate"].startswith("Basic"), "browsers ask for it"


def test_health_needs_no_key(locked):
    assert locked.client.get("/health/live").json() == {"status": "live"}
    assert locked.client.get("/health").json()["status"] in ("loading", "ready")


def test_a_body_is_refused_before_it_is_taken(locked):
    """And the client hears of it."""
    answer = locked.client.post("/v1/parse", content=b"x" * 3_000_000)
    assert answer.status_code == 401


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_body_that_does_not_come():
    server = Running(upload_timeout=0.3)
    try:
        answer = server.client.post("/v1/parse", content=slow_body())
        assert (answer.status_code, answer.json()["error"]["type"]) == (408, "upload_timeout")
        wait_for(lambda: server.desk.taken == 0)
    finally:
        server.stop()


def test_the_second_call_to_end_cancels(scan):
    server, answers = Running(grace=600.0), []
    server.wait_until_ready()
    ask = lambda: answers.append(server.client.post("/v1/parse", files={"file": ("a.png", scan[0])}))  # noqa: E731
    request = threading.Thread(target=ask)
    with server.held():
        request.start()
        wait_for(lambda: server.desk.counts()["running"] == 1)
        for _ in range(2):
            server.server.stop()
        request.join(WAIT_S)
    server.stop()
    assert (answers[0].status_code, answers[0].json()["error"]["type"]) == (503, "stopping")


def test_who_is_refused_hears_of_it_though_the_body_never_comes(locked):
    port = int(locked.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(b"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def slow_body():
    yield b"%PDF"
    time.sleep(1.5)
    yield b"-1.7"


def test_an_engine_that_fails_is_told_and_the_server_goes_on(server, scan, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such luck")

    engine = server.desk.model._reader._engine
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_round", fail)
        answer = server.client.post("/v1/parse", files={"file": ("a.png", scan[0])})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "engine_error")
    assert scan[1] in server.client.post("/v1/parse", files={"file": ("a.png", scan[0])}).text


def test_a_model_that_is_not_there_ends_the_server(tmp_path):
    from ocria.document.options import ParseOptions
    from ocria.serve.run import Server

    server = Server(ServeOptions(port=0, quiet=True), ParseOptions(model=str(tmp_path / "none"), jobs=0))
    with pytest.raises(EngineError):
        server.serve_until_stopped()


def test_an_address_that_is_taken(server):
    port = int(server.url.rpartition(":")[2])
    result = called("serve", "--port", port)
    assert result.returncode == 2
    assert b"cannot be taken" in result.stderr


def test_options_are_checked(tmp_path):
    for wrong in ({"port": -1}, {"concurrency": 0}, {"grace": 0.0}, {"key": "ä".encode()}, {"max_bytes": 0}):
        with pytest.raises(UsageError):
            ServeOptions(**wrong)
    assert called("serve", "--api-key-file", tmp_path / "none").returncode == 4
    (tmp_path / "empty").write_text("\n")
    assert called("serve", "--api-key-file", tmp_path / "empty").returncode == 2
    assert not ServeOptions(host="0.0.0.0").loopback
    assert ServeOptions(host="::1").loopback


def test_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ocria.serve.run")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = called("serve")
    assert result.returncode == 7
    assert b"pip install 'ocria[serve]'" in result.stderr


def test_counts_know_no_ids():
    for path, route in (
        ("/", "/"),
        ("/v1/jobs/abc", "/v1/jobs/{id}"),
        ("/v1/jobs/abc/events", "/v1/jobs/{id}/events"),
        ("/v1/jobs/abc/pages/3.png", "/v1/jobs/{id}/pages/{page}.png"),
        ("/v1/models/a/b", "/v1/models/{name}"),
        ('/"\n', "other"),
        ("/v1/jobs/a/b/c/d", "other"),
    ):
        assert route_of(path) == route


def children(pid):
    """The processes below one, as Linux has them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells of processes")
@pytest.mark.parametrize(
    ("number", "grace"),
    [(signal.SIGTERM, "60"), (signal.SIGTERM, "0.2"), (signal.SIGKILL, "60")],
    ids=["finish", "cancel", "kill"],
)
def test_signals(number, grace, tmp_path):
    """What runs is finished, or cancelled when it takes too long; no process is left, also of a server that is
    killed."""
    import numpy as np
    from PIL import Image

    lines = np.full((1400, 900), 255, np.uint8)
    for y in range(20, 1380, 30):
        lines[y : y + 12, 30:870:7] = 0
    image = Image.fromarray(lines)
    # What is to be cancelled must not be done before.
    more = [image] * (0 if grace == "60" and number == signal.SIGTERM else 15)
    image.save(tmp_path / "pages.tif", save_all=True, append_images=more)
    arguments = ["--port", "0", "--no-config", "--threads", "1", "--jobs", "1", "--grace", grace]
    arguments += ["--log-format", "json"]
    errors = (tmp_path / "errors").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "ocria", "serve", *arguments],
        stderr=errors, env={**os.environ, "OCRIA_API_KEY": KEY, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        said = lambda: (tmp_path / "errors").read_text()  # noqa: E731
        wait_for(lambda: "serving ocria-nano at" in said() or process.poll() is not None)
        url = re.search(r"listening at (http://\S+);", said())[1]
        below = children(process.pid)
        assert below
        for child in below:
            with open(f"/proc/{child}/environ", "rb") as file:
                assert KEY.encode() not in file.read()
        answers = []
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=url, timeout=WAIT_S, trust_env=False, headers=headers) as client:
            content = (tmp_path / "pages.tif").read_bytes()
            def ask():
                try:
                    answers.append(client.post("/v1/parse", content=content).status_code)
                except httpx.TransportError:
                    answers.append("nothing")

            request = threading.Thread(target=ask)
            request.start()
            wait_for(lambda: "ocria_documents_running 1" in client.get("/metrics").text)
            below = children(process.pid)
            process.send_signal(number)
            request.join(WAIT_S)
            assert process.wait(WAIT_S) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert answers == ["nothing" if number == signal.SIGKILL else 200 if grace == "60" else 503]
        wait_for(lambda: not [child for child in below if alive(child)])
        if number == signal.SIGKILL:
            return
        assert '"route": "/v1/parse"' in said()
        assert KEY not in said()
        assert "Traceback" not in said()
    finally:
        process.kill()
        process.wait()
        errors.close()
