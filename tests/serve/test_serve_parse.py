"""`POST /v1/parse` and jobs: files in, documents out, and everything that is refused."""

import asyncio
import io
import json
import socket
import struct
import threading
import zlib

import pytest
from served import LIMITS, events_of, httpx, wait_for

import ocria


def parse(server, content, name="a.pdf", **fields):
    return server.client.post("/v1/parse", files={"file": (name, content)}, data=fields)


def error_of(answer, status, kind):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == (kind, kind)
    assert error["message"]
    return error


def test_a_form_and_a_body_give_what_python_gives(server, pdf):
    expected = ocria.parse(pdf, pages="2-3", mode="text", jobs=0).markdown
    answer = parse(server, pdf, pages="2-3", mode="text")
    assert answer.status_code == 200
    assert answer.text == expected
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert (answer.headers["ocria-status"], answer.headers["ocria-pages"]) == ("ok", "2")
    raw = server.client.post("/v1/parse", params={"pages": "2-3", "mode": "text"}, content=pdf)
    assert raw.text == expected


def test_the_model_reads_an_image(server, scan):
    answer = parse(server, scan[0], "a.png", format="text")
    assert answer.status_code == 200
    assert scan[1] in answer.text
    assert answer.headers["ocria-model"] == "ocria-nano"


@pytest.mark.parametrize(
    ("format", "accept", "content_type"),
    [
        ("html", "*/*", "text/html; charset=utf-8"),
        ("", "application/json", "application/json"),
        ("jsonl", "text/plain", "application/x-ndjson"),
        ("", "text/plain;q=0.9, */*", "text/plain; charset=utf-8"),
        ("pdf", "*/*", "application/pdf"),
        ("markdown", "*/*", "text/markdown; charset=utf-8"),
    ],
)
def test_formats(server, pdf, format, accept, content_type):
    files, headers = {"file": ("../../up.pdf", pdf)}, {"Accept": accept}
    answer = server.client.post("/v1/parse", files=files, data={"format": format, "mode": "text"}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == content_type
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "../" not in answer.text
    if content_type == "application/json":
        assert answer.json()["document"]["path"] == "up.pdf"
    if content_type == "application/pdf":
        assert answer.content.startswith(b"%PDF")
    else:
        assert "Words of page 2" in answer.text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "/etc"}, "model"),
        ({"device": "cpu"}, "device"),
        ({"path": "/etc/passwd"}, "path"),
        ({"jobs": "0"}, "jobs"),
        ({"draft": "/etc"}, "draft"),
        ({"images": "extract"}, None),
        ({"mode": "fast"}, None),
        ({"pages": "x"}, None),
        ({"pages": "9"}, None),
        ({"dpi": "10"}, None),
        ({"stream": "perhaps"}, None),
        ({"timeout": "-1"}, None),
        ({"format": "docx"}, None),
    ],
)
def test_options_that_are_not_for_clients_or_cannot_be_met(server, pdf, fields, param):
    assert error_of(parse(server, pdf, **fields), 422, "usage_error")["param"] == param


def test_inputs_that_cannot_be_read(server, pdf):
    import pymupdf

    error_of(parse(server, b"\x00\x01\x02" * 50, "a.bin"), 422, "input_error")
    assert "a.pdf" in error_of(parse(server, b"%PDF-1.7 nothing", "a.pdf"), 422, "input_error")["message"]
    with pymupdf.open("pdf", pdf) as document:
        locked = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="secret", owner_pw="owner")
    error_of(parse(server, locked), 422, "encrypted_error")
    assert parse(server, locked, password="secret", mode="text").status_code == 200
    error_of(server.client.post("/v1/parse", content=b""), 400, "bad_request")


def part(told):
    return f"--x\r\nContent-Disposition: form-data; {told}\r\n\r\n1\r\n--x--\r\n".encode()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("multipart/form-data; boundary=x", b"--x\r\nnonsense"),
        ("multipart/form-data", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", part('name="pages"')),
        ("multipart/form-data; boundary=x", b"\xff" * 2000),
        ("multipart/form-data; boundary=x", part('name="other"; filename="a"')),
        ("multipart/form-data; boundary=x", part('filename="a"')),
        ("multipart/form-data; boundary=x", part('name="file"; filename="a"')[:-9]),
    ],
)
def test_malformed_forms(server, head, body):
    error_of(server.client.post("/v1/parse", content=body, headers={"Content-Type": head}), 400, "bad_request")


def test_too_many_bytes(server):
    too_many = b"\0" * (LIMITS["max_bytes"] + 1)
    error_of(server.client.post("/v1/parse", content=too_many), 413, "too_large")
    error_of(server.client.post("/v1/parse", content=iter([too_many[:1000], too_many])), 413, "too_large")
    error_of(parse(server, too_many), 413, "too_large")
    error_of(server.client.post("/v1/chat/completions", content=too_many), 413, "too_large")


def test_too_many_pages(server):
    import pymupdf

    with pymupdf.open() as document:
        for number in range(LIMITS["max_pages"] + 1):
            document.new_page(width=200, height=100).insert_text((20, 40), f"Words {number}")
        content = document.tobytes()
    assert "pages" in error_of(parse(server, content, mode="text"), 413, "too_large")["cure"]
    assert parse(server, content, mode="text", pages="2-4").status_code == 200


def bomb(width, height):
    """A PNG that says to be large and is a few bytes."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(1001, 1000), (60_000, 60_000)])
def test_images_that_unpack_to_too_much(server, size):
    error_of(parse(server, bomb(*size), "a.png"), 413, "too_large")


def test_time_that_runs_out(server, scan):
    with server.held():
        error_of(parse(server, scan[0], "a.png", timeout="1"), 504, "timeout")


def test_routes_that_are_not_there(server):
    error_of(server.client.get("/v1/parse"), 405, "method_not_allowed")
    for path in ("/v1/nothing", "/v1/jobs/none", "/v1/jobs/none/events", "/v1/jobs/none/pages/1.png"):
        error_of(server.client.get(path), 404, "not_found")


def raw(server, request):
    """What a server answers to bytes that no client library would send."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(request)
        connection.settimeout(60)
        return connection.recv(65536)


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "//etc/passwd", "/web/../../options.py", "/index.html/../run.py",
     "/v1/jobs/..%2f..%2fetc/result", "/v1/models/../../etc/passwd"],
)  # fmt: skip
def test_no_path_leads_out(server, path):
    answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404")


def test_files_beside_the_server_are_not_read(server, tmp_path, monkeypatch):
    """Documents that name other files get nothing of them."""
    import pymupdf

    secret = tmp_path / "secret.txt"
    secret.write_text("hidden treasure")
    with pymupdf.open() as document:
        document.new_page().insert_text((50, 80), "hidden treasure", fontsize=30)
        document[0].get_pixmap().save(tmp_path / "secret.png")
    html = f'<p>Words<img src="{tmp_path}/secret.png"><img src="file://{tmp_path}/secret.png"></p>'
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="300" height="300">'
        f'<text x="9" y="30">Words</text><image href="file://{tmp_path}/secret.png" width="300" height="300"/>'
        f'<image xlink:href="{tmp_path}/secret.png" width="300" height="300"/></svg>'
    )
    for name, content in (("a.html", html), ("a.svg", svg), (str(secret), "Words"), ("file:///etc/passwd", "Words")):
        answer = parse(server, content.encode(), name if "." in name else f"{name}.txt", images="embed")
        assert "treasure" not in answer.text
        assert "root:" not in answer.text
        assert str(tmp_path) not in answer.text


def test_headers_of_all_answers(server):
    for path in ("/", "/app.js", "/style.css", "/health", "/metrics", "/v1/models", "/nothing"):
        headers = server.client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'"), path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    page = server.client.get("/").text
    assert "<script>" not in page
    assert "style=" not in page


def test_other_pages_and_names_are_kept_out(server):
    get = server.client.get
    error_of(get("/v1/models", headers={"Origin": "http://evil.example"}), 403, "forbidden")
    error_of(get("/v1/models", headers={"Origin": "null"}), 403, "forbidden")
    assert get("/v1/models", headers={"Origin": server.url}).status_code == 200
    error_of(get("/v1/models", headers={"Host": "evil.example"}), 421, "forbidden")
    error_of(get("/v1/models", headers={"Host": "localhost.evil.example:80"}), 421, "forbidden")
    error_of(get("/v1/models", headers={"Host": "[::1"}), 421, "forbidden")
    error_of(get("/v1/models", headers={"Origin": "http://["}), 403, "forbidden")
    assert get("/v1/models", headers={"Host": "localhost:1"}).status_code == 200


def test_events_and_the_result(server, scan):
    answer = parse(server, scan[0], "a.png", stream="true", format="text")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    numbers = [number for number, _, _ in events if number is not None]
    assert numbers == sorted(set(numbers))
    names = [name for _, name, _ in events]
    for name in ("job", "document_started", "page_started", "page_routed", "page_done", "document_done", "result"):
        assert names.count(name) == 1, name
    assert "tokens_accepted" not in names
    told = {name: data for _, name, data in events}
    assert scan[1] in told["page_done"]["markdown"]
    assert scan[1] in told["result"]["content"]
    assert names[-1] == "result"
    assert all(data.get("path", "a.png") == "a.png" for _, _, data in events)


def test_events_end_with_what_is_wrong(server):
    events = events_of(parse(server, b"%PDF-1.7 nothing", stream="true").text)
    assert events[-1][1] == "error"
    assert events[-1][2]["error"]["type"] == "input_error"
    assert events[-1][2]["error"]["status"] == 422


def test_a_pdf_as_an_event_is_base64(server, pdf):
    import base64

    told = events_of(parse(server, pdf, stream="true", format="pdf", mode="text").text)[-1][2]
    assert base64.b64decode(told["content"]).startswith(b"%PDF")


def test_two_clients_at_once(server, scan, pdf):
    """Both are with the model before either is done."""
    answers = []
    with server.held():
        threads = [
            threading.Thread(target=lambda: answers.append(parse(server, scan[0], "a.png"))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: server.desk.counts()["running"] == 2)
        assert parse(server, pdf, mode="text", timeout="1").status_code == 504, "no third one runs"
    for thread in threads:
        thread.join()
    assert [scan[1] in answer.text for answer in answers] == [True, True]


def test_a_full_queue_and_clients_that_go_away(server, scan):
    """The queue is refused while it is full, and is free again when its clients have left."""
    rejected, cancelled = server.metric("ocria_rejected_total"), server.metric("ocria_cancelled_total")
    places = LIMITS["queue"] + LIMITS["concurrency"]

    async def leave():
        async with httpx.AsyncClient(base_url=server.url, timeout=120, trust_env=False) as client:
            tasks = [
                asyncio.create_task(client.post("/v1/parse", files={"file": ("a.png", scan[0])}, data=fields))
                for fields in ({}, {"stream": "true"}, {})[:places]
            ]
            while server.desk.taken < places or server.desk.counts()["running"] < LIMITS["concurrency"]:
                await asyncio.sleep(0.02)
            refused = await client.post("/v1/parse", files={"file": ("a.png", scan[0])})
            for task in tasks:
                task.cancel()
            return refused

    with server.held():
        refused = asyncio.run(leave())
        error_of(refused, 429, "busy")
        assert 1 <= int(refused.headers["retry-after"]) <= 120
        wait_for(lambda: server.desk.taken == 0)  # although the engine stands still
    server.wait_until_free()
    assert server.metric("ocria_rejected_total") == rejected + 1
    assert server.metric("ocria_cancelled_total") == cancelled + places
    assert scan[1] in parse(server, scan[0], "a.png").text


def test_a_client_that_leaves_while_it_sends(server):
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(head + b"%PDF")
        wait_for(lambda: len(server.desk.intake) == 1)
    server.wait_until_free()


def test_no_upload_is_left(server, scan, monkeypatch):
    from ocria.serve.upload import Upload

    made, make = [], Upload.__init__
    monkeypatch.setattr(Upload, "__init__", lambda self, *rest: (made.append(self), make(self, *rest))[1])
    for fields in ({}, {"stream": "true"}, {"format": "pdf"}, {"mode": "wrong"}, {"timeout": "0.001"}):
        parse(server, scan[0], "a.png", **fields)
    parse(server, b"%PDF-1.7 nothing")
    assert len(made) == 6
    wait_for(lambda: all(upload._file.closed for upload in made))


def test_a_job_from_its_beginning_to_its_end(server, pdf):
    import base64

    from PIL import Image

    made = server.client.post("/v1/jobs", files={"file": ("a.pdf", pdf)}, data={"mode": "text"})
    assert made.status_code == 202
    where = made.headers["location"]
    assert where == f"/v1/jobs/{made.json()['id']}"
    events = events_of(server.client.get(f"{where}/events").text)
    assert events[-1][1] == "result"
    assert "content" not in events[-1][2]
    assert [data["page"] for _, name, data in events if name == "page_done"] == [1, 2, 3]
    some = events[3][0]
    rest = events_of(server.client.get(f"{where}/events", headers={"Last-Event-ID": str(some)}).text)
    assert rest[-1][:2] == events[-1][:2]
    assert [e for e in rest if e[0] is not None] == [e for e in events if e[0] is not None and e[0] > some]
    job = server.client.get(where).json()
    assert (job["state"], job["pages"], job["pages_done"], job["status"]) == ("done", 3, 3, "ok")
    page = server.client.get(f"{where}/pages/2.png", params={"width": "150"})
    assert page.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(page.content)).size == (150, 100)
    for number in (0, 4):
        error_of(server.client.get(f"{where}/pages/{number}.png"), 404, "not_found")
    error_of(server.client.get(f"{where}/pages/1.png", params={"width": "1"}), 422, "usage_error")
    result = server.client.get(f"{where}/result", params={"format": "html", "download": "true"})
    assert "Words of page 3" in result.text
    assert result.headers["content-disposition"] == "attachment; filename*=UTF-8''a.pdf.html"
    assert json.loads(server.client.get(f"{where}/result", params={"format": "json"}).text)
    assert base64.b64encode(server.client.get(f"{where}/result?format=pdf").content).startswith(b"JVBER")
    assert server.client.delete(where).status_code == 204
    error_of(server.client.get(where), 404, "not_found")
    error_of(server.client.get(f"{where}/pages/2.png"), 404, "not_found")


def test_a_job_is_cancelled_while_it_is_read_and_while_it_waits(server, scan):
    def make():
        return server.client.post("/v1/jobs", files={"file": ("a.png", scan[0])}).headers["location"]

    with server.held():
        jobs = [make() for _ in range(3)]
        wait_for(lambda: server.client.get(jobs[1]).json()["state"] == "running")
        waiting = server.client.get(jobs[2]).json()
        assert (waiting["state"], waiting["ahead"]) == ("waiting", 0)
        error_of(server.client.get(f"{jobs[0]}/result"), 409, "not_done")
        for job in jobs:
            assert server.client.delete(job).status_code == 204
            error_of(server.client.get(job), 404, "not_found")
        wait_for(lambda: server.desk.taken == 0)


def test_few_jobs_are_kept(server, pdf, monkeypatch):
    made = server.client.post("/v1/jobs", files={"file": ("a.pdf", pdf)}, data={"mode": "text"})
    first = made.headers["location"]
    wait_for(lambda: server.client.get(first).json()["state"] == "done")
    upload = server.desk.find(made.json()["id"]).uploads[0]
    monkeypatch.setattr(server.desk, "options", _with(server.desk.options, keep_jobs=1))
    second = server.client.post("/v1/jobs", files={"file": ("b.pdf", pdf)}, data={"mode": "text"}).headers["location"]
    wait_for(lambda: server.client.get(second).json()["state"] == "done")
    error_of(server.client.get(first), 404, "not_found")
    assert upload._file.closed
    monkeypatch.setattr(server.desk, "options", _with(server.desk.options, keep_seconds=1e-9))
    error_of(server.client.get(second), 404, "not_found")


def _with(options, **changed):
    from dataclasses import replace

    return replace(options, **changed)


def test_metrics_are_what_prometheus_reads(server, scan):
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    before = server.metric("ocria_page_seconds_count")
    parse(server, scan[0], "a.png")
    families = {f.name: f for f in parser.text_string_to_metric_families(server.client.get("/metrics").text)}
    pages = next(s.value for s in families["ocria_page_seconds"].samples if s.name.endswith("_count"))
    assert pages == before + 1
    tokens = {s.labels["kind"]: s.value for s in families["ocria_tokens"].samples}
    assert tokens["in"] > 0
    assert tokens["out"] > 0
    assert families["ocria_engine_running"].samples[0].value == 0
    assert families["ocria_model_ready"].samples[0].value == 1
    for family in families.values():
        if family.type == "histogram":
            for route in {s.labels.get("route") for s in family.samples}:
                mine = [s for s in family.samples if s.labels.get("route") == route]
                counts = [s.value for s in mine if s.name.endswith("_bucket")]
                assert counts == sorted(counts)
                assert counts[-1] == next(s.value for s in mine if s.name.endswith("_count"))
