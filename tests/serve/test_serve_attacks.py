"""Clients that mean no good, or know no better: the server answers them, and everybody else."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import zipfile

import pytest
from served import LIMITS, httpx, wait_for
from test_serve_chat import ask, data_url, message
from test_serve_parse import error_of, parse

from ocria.serve import connection, intake
from ocria.serve.options import ServeOptions
from ocria.serve.run import Server

HOST = b"Host: localhost\r\n"
NO_LIMIT = httpx.Limits(max_connections=None)
PARSE = b"POST /v1/parse?mode=text HTTP/1.1\r\n" + HOST


@contextlib.contextmanager
def connected(server):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 120) as wire:
        yield wire


def said(wire):
    """All that comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(65536):
            parts.append(part)
    return b"".join(parts)


def one_answer(wire):
    """The head and the body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += wire.recv(1)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += wire.recv(length - len(body))
    return head, body


@pytest.mark.parametrize("before", [b"", b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n"], ids=["first", "second"])
def test_half_a_head_is_not_waited_for(server, monkeypatch, before):
    monkeypatch.setattr(connection, "HEAD_S", 0.5)
    with connected(server) as wire:
        if before:
            wire.sendall(before)
            assert one_answer(wire)[1] == b'{"status":"live"}'
        wire.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert said(wire) == b""


def test_connections_that_idle_make_room(server, monkeypatch):
    server.client.get("/health/live")
    connections = server.server.server_state.connections
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(server))
        wait_for(lambda: len(connections) >= 4)
        monkeypatch.setattr(connection, "MOST_CONNECTIONS", 2)
        wire = stack.enter_context(connected(server))
        wire.sendall(b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n")
        assert one_answer(wire)[0].startswith(b"HTTP/1.1 200")


def test_answers_that_nobody_takes(server, monkeypatch):
    monkeypatch.setattr(connection, "TAKE_S", 0.5)
    length = len(server.client.get("/app.js").content)
    asked = (b"GET /app.js HTTP/1.1\r\n" + HOST + b"\r\n") * (24_000_000 // length)
    with connected(server) as wire:
        address = wire.getsockname()
        wire.settimeout(2)
        with contextlib.suppress(TimeoutError):
            wire.sendall(asked)
        wait_for(lambda: all(one.client != address for one in list(server.server.server_state.connections)))


@pytest.mark.parametrize(
    "sent",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 100_000,
     b"GET / HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 100_000,
     b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
     b"POST /v1/parse HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n"],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_http(server, sent):
    with connected(server) as wire:
        with contextlib.suppress(ConnectionError):
            wire.sendall(sent)
            if b"\r\n" not in sent:
                wire.shutdown(socket.SHUT_WR)
        head, _, body = said(wire).partition(b"\r\n\r\n")
    if b"\r\n" in sent:
        assert head.startswith(b"HTTP/1.1 400")
        assert b"x-content-type-options: nosniff" in head.lower()
        assert json.loads(body)["error"]["type"] == "bad_request"


def test_a_broken_chunk_in_the_middle(server):
    with connected(server) as wire:
        wire.sendall(PARSE + b"Transfer-Encoding: chunked\r\n\r\n4\r\n%PDF\r\n")
        wait_for(lambda: len(server.desk.intake) == 1)
        wire.sendall(b"no length\r\n")
        said(wire)
    server.wait_until_free()
    assert server.client.get("/health").status_code == 200


def test_slow_bodies_take_no_place_in_the_queue(server, pdf):
    with contextlib.ExitStack() as stack:
        for _ in range(LIMITS["queue"] + LIMITS["concurrency"] + 1):
            stack.enter_context(connected(server)).sendall(PARSE + b"Content-Length: 1000\r\n\r\n%PDF")
        wait_for(lambda: len(server.desk.intake) == LIMITS["queue"] + LIMITS["concurrency"] + 1)
        assert server.client.get("/health").json()["uploading"] == len(server.desk.intake)
        assert parse(server, pdf, mode="text").status_code == 200


def test_a_body_that_pauses(server, monkeypatch):
    monkeypatch.setattr(intake, "STALL_S", 0.3)
    with connected(server) as wire:
        wire.sendall(PARSE + b"Content-Length: 1000\r\n\r\n%PDF")
        assert b"upload_timeout" in said(wire)


def test_the_slowest_of_too_many_bodies_makes_room(server, pdf, monkeypatch):
    monkeypatch.setattr(intake, "MOST_BODIES", 2)
    with connected(server) as young:
        young.sendall(PARSE + b"Content-Length: 1000\r\n\r\n%PDF")
        wait_for(lambda: len(server.desk.intake) == 1)
        monkeypatch.setattr(intake, "MOST_BODIES", 1)
        monkeypatch.setattr(intake, "_YOUNG_S", 600.0)
        busy = error_of(parse(server, pdf, mode="text"), 429, "busy")
        assert "bodies" in busy["message"]
        monkeypatch.setattr(intake, "_YOUNG_S", 0.0)
        assert parse(server, pdf, mode="text").status_code == 200
        assert b"upload_timeout" in said(young)


def test_a_slash_too_many_and_other_methods(server):
    for path in ("/health/", "/v1/models/", "/v1/parse/", "/v1/chat/completions/", "/v1/responses", "/v1/embeddings"):
        answer = server.client.get(path)
        error_of(answer, 404, "not_found")
        assert "location" not in answer.headers
    for method, path in (("OPTIONS", "/v1/parse"), ("PUT", "/v1/jobs"), ("TRACE", "/"), ("BREW", "/v1/models")):
        answer = server.client.request(method, path)
        error_of(answer, 405, "method_not_allowed")
        assert answer.headers["allow"]
    head = server.client.head("/v1/models")
    assert (head.status_code, head.content) == (200, b"")


def test_a_fault_of_the_server_is_told_without_its_reason(server, monkeypatch):
    def fail():
        raise RuntimeError("hunter2")

    with monkeypatch.context() as patch:
        patch.setattr(server.desk, "counts", fail)
        answer = server.client.get("/health")
    error_of(answer, 500, "internal_error")
    assert server.client.get("/health").status_code == 200
    assert "hunter2" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert 'route="/health",status="500"' in server.client.get("/metrics").text


def test_a_client_that_asks_before_it_sends(server, pdf):
    head = PARSE + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with connected(server) as wire:
        wire.sendall(head % len(pdf))
        assert one_answer(wire)[0].startswith(b"HTTP/1.1 100")
        wire.sendall(pdf)
        assert one_answer(wire)[0].startswith(b"HTTP/1.1 200")
        wire.sendall(head % 10**9)
        answer = said(wire)
        assert answer.startswith(b"HTTP/1.1 413"), "it is not asked for the body"
        assert answer.count(b"HTTP/1.1") == 1


def test_requests_that_do_not_wait_for_answers(server, pdf):
    one = PARSE + b"Content-Length: %d\r\n\r\n" % len(pdf) + pdf
    with connected(server) as wire:
        wire.sendall(one + one + b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n")
        answers = [one_answer(wire) for _ in range(3)]
    assert all(head.startswith(b"HTTP/1.1 200") for head, _ in answers)
    assert b"Words of page 1" in answers[1][1]
    assert b"live" in answers[2][1]


def test_forms_with_too_much(server, pdf):
    twice = [("file", ("a.pdf", pdf)), ("file", ("b.pdf", pdf))]
    error_of(server.client.post("/v1/parse", files=twice), 400, "bad_request")
    fields = {f"field{n}": "1" for n in range(1000)}
    error_of(server.client.post("/v1/parse", files={"file": pdf}, data=fields), 400, "bad_request")
    error_of(server.client.post("/v1/parse", files={"file": pdf}, data={"password": "x" * 100_000}), 400, "bad_request")
    error_of(server.client.post("/v1/parse", params=fields, content=pdf), 422, "usage_error")


@pytest.mark.parametrize("name", ["ä.pdf", "a\r\nSet-Cookie: b=c.pdf", "\u202efdp.a", "a" * 5000, "..", "", 'a";b.pdf'])
def test_names_of_files(server, pdf, name):
    made = server.client.post("/v1/jobs", params={"name": name, "mode": "text"}, content=pdf)
    assert made.status_code == 202
    where = made.headers["location"]
    wait_for(lambda: server.client.get(where).json()["state"] == "done")
    answer = server.client.get(f"{where}/result?download=true")
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    told = made.json()["name"]
    assert 1 <= len(told) <= 200
    assert told.isprintable()


def test_numbers_that_are_too_long(server, pdf):
    where = server.client.post("/v1/jobs", params={"mode": "text"}, content=pdf).headers["location"]
    for path in (f"{where}/pages/{'9' * 5000}.png", f"{where}/pages/-1.png", f"{where}/events?after={'9' * 5000}"):
        error_of(server.client.get(path), 422, "usage_error")


def test_fifty_clients_at_a_short_queue(server, scan):
    """Those that find no place are told so, and nobody is lost."""
    places = LIMITS["queue"] + LIMITS["concurrency"]
    before = server.metric("ocria_rejected_total")

    async def rush():
        async with httpx.AsyncClient(base_url=server.url, timeout=300, trust_env=False, limits=NO_LIMIT) as client:
            with server.held():
                posts = [client.post("/v1/parse", files={"file": ("a.png", scan[0])}) for _ in range(50)]
                answers = asyncio.gather(*posts)
                await asyncio.to_thread(wait_for, lambda: server.desk.metrics.rejected == before + 50 - places)
            return await answers

    answers = asyncio.run(rush())
    assert sorted(answer.status_code for answer in answers) == [200] * places + [429] * (50 - places)
    assert all(scan[1] in answer.text for answer in answers if answer.status_code == 200)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)


def test_many_who_watch_one_job(server, scan):
    async def watch():
        async with httpx.AsyncClient(base_url=server.url, timeout=300, trust_env=False, limits=NO_LIMIT) as client:
            with server.held():
                where = (await client.post("/v1/jobs", files={"file": ("a.png", scan[0])})).headers["location"]
                answers = asyncio.gather(*(client.get(f"{where}/events") for _ in range(40)))
                await asyncio.to_thread(wait_for, lambda: len(server.server.server_state.tasks) >= 40)
            return await answers

    answers = asyncio.run(watch())
    assert all(answer.text.count("event: result\n") == 1 for answer in answers)


def test_a_process_that_is_killed_while_it_works(server, scan):
    """Another does its work again."""
    with server.held():
        made = server.client.post("/v1/jobs", files={"file": ("a.png", scan[0])})
        where = made.headers["location"]
        wait_for(lambda: _drawn(server, where))
        for pid in server.desk.workers.pids:
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.client.get(where).json()["state"] == "done")
    assert scan[1] in server.client.get(f"{where}/result").text


def _drawn(server, where):
    """Whether the lines of the page are known, so that the engine is next."""
    job = server.desk.find(where.rpartition("/")[2])
    return any(told.name == "lines_found" for told in job.log.after(0))


def test_no_file_is_opened_in_the_process_of_the_server(server, scan, pdf, monkeypatch):
    """Not even its header; neither for a completion, nor for a searchable PDF."""
    import pymupdf
    from PIL import Image

    def fail(*_, **__):
        raise AssertionError("opened in the process of the server")

    archive = zipped({"a.txt": b"x"})
    with monkeypatch.context() as patch:
        for module, name in ((pymupdf, "open"), (pymupdf.Document, "__init__"), (Image, "open"), (zipfile, "ZipFile")):
            patch.setattr(module, name, fail)
        for kind in ("PNG", "TIFF"):
            patch.setitem(Image.OPEN, kind, (fail, fail))
        assert parse(server, pdf, mode="text", format="pdf").content.startswith(b"%PDF")
        assert parse(server, scan[0], "a.png", format="pdf").content.startswith(b"%PDF")
        assert scan[1] in ask(server, messages=message(data_url(scan[0]))).text
        assert ask(server, messages=message(data_url(archive))).status_code == 422
        assert parse(server, archive, "a.docx").status_code == 422


def zipped(files):
    import io

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def test_archives_that_unpack_to_too_much(server):
    """Kilobytes that become many megabytes: refused by a child, within its bounds."""
    zeros = b" " * (50 << 20)
    book = {"mimetype": b"application/epub+zip", "META-INF/container.xml": zeros}
    assert parse(server, zipped(book), "a.epub", mode="text").status_code == 422
    assert server.client.get("/health").status_code == 200


def test_a_document_that_takes_for_ever_to_open(server, pdf, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server.desk.workers, "_open_s", 2.0)
        deep = b"<html><body>" + b"<div>" * 60_000
        assert "opening" in error_of(parse(server, deep, "a.html", mode="text"), 504, "timeout")["message"]
    assert parse(server, pdf, mode="text").status_code == 200


def test_json_that_unpacks_to_too_much(server):
    body = b'{"messages": [' + b"[]," * 120_000 + b"[]]}"
    error_of(server.client.post("/v1/chat/completions", content=body), 413, "too_large")


def test_names_of_this_machine_in_the_sixth_version(server):
    assert server.client.get("/v1/models", headers={"Host": "[::1]:8000"}).status_code == 200
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6")
    from ocria.document.options import ParseOptions

    other = Server(ServeOptions(host="::1", port=0), ParseOptions())
    with contextlib.closing(other._socket):
        assert other.url.startswith("http://[::1]:")


def test_a_key_that_is_no_text(server):
    for told in (b"\xff\xfe", b"Bearer \xe4", b"Basic " + base64.b64encode(b"\xff:\xff")):
        assert server.client.get("/v1/models", headers={"Authorization": told}).status_code == 200
