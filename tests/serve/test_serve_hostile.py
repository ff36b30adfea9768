"""While the processes that open files are all taken up by documents that mean no good: others keep their time, and the
image of a page has the limits of a document."""

import contextlib
import io
import threading

import pytest
from PIL import Image
from served import httpx, png, wait_for

from ocria.document.decode import stated_size
from ocria.document.workers.pool import Handle
from ocria.document.workers.wire import Opening
from ocria.serve.problems import Problem
from ocria.serve.upload import Upload


@contextlib.contextmanager
def taken_up(server):
    """While this lasts the only process has no time."""
    workers = server.desk.workers
    assert workers.count == 1
    handle = Handle(0, Opening("busy", ""))
    process = workers._take(handle, None, False)
    try:
        yield
    finally:
        workers._give_back(process, handle)


def image(*sizes, kind="PNG"):
    first, *more = [Image.new("1", size) for size in sizes]
    out = io.BytesIO()
    first.save(out, kind, **({"save_all": True, "append_images": more} if more else {}))
    return out.getvalue()


def kind_of(answer):
    return answer.status_code, answer.json()["error"]["type"]


@pytest.mark.parametrize("name", ["a.png", "a.pdf"])
def test_a_document_keeps_its_time_while_all_processes_are_taken_up(server, scan, pdf, name):
    content = scan[0] if name == "a.png" else pdf
    with taken_up(server):
        answer = server.client.post("/v1/parse", files={"file": (name, content)}, data={"timeout": "1"})
        assert kind_of(answer) == (504, "timeout")
        assert server.client.get("/health").status_code == 200
    assert server.client.post("/v1/parse", files={"file": (name, content)}).status_code == 200


def test_the_image_of_a_page_has_the_limit_on_pixels(server):
    with server.held(), taken_up(server):
        made = server.client.post("/v1/jobs", files={"file": ("a.png", image((1200, 1200)))})
        where = made.headers["location"]
    assert kind_of(server.client.get(f"{where}/pages/1.png")) == (413, "too_large")
    wait_for(lambda: server.client.get(where).json()["state"] == "failed")
    assert kind_of(server.client.get(f"{where}/pages/1.png")) == (413, "too_large"), "told, not drawn"


def test_the_largest_page_of_a_tiff_counts(server):
    content = image((10, 10), (1200, 1200), (20, 20), kind="TIFF")
    assert stated_size(content) == (1200, 1200)
    assert stated_size(content[:-40]) is not None, "damaged behind the first page"
    assert kind_of(server.client.post("/v1/parse", content=content)) == (413, "too_large")


def test_images_for_clients_that_went_away_are_not_drawn(server, monkeypatch):
    jobs = {}
    for name in ("stays.png", "gone.png"):
        jobs[name] = server.client.post("/v1/jobs", files={"file": (name, png(["fox"]))}).headers["location"]
        wait_for(lambda name=name: server.client.get(jobs[name]).json()["state"] == "done")
    workers, called = server.desk.workers, []
    real = workers.run
    monkeypatch.setattr(workers, "run", lambda call, path, *rest, **more: called.append(path) or real(
        call, path, *rest, **more))  # fmt: skip
    answers = []

    def stay():
        with server.new_client() as client:
            answers.append(client.get(f"{jobs['stays.png']}/pages/1.png").status_code)

    with taken_up(server):
        staying = [threading.Thread(target=stay) for _ in range(4)]  # as many as are drawn at once
        for thread in staying:
            thread.start()
        wait_for(lambda: called.count("stays.png") == 4)
        for _ in range(3):
            with server.new_client() as client, pytest.raises(httpx.ReadTimeout):
                client.get(f"{jobs['gone.png']}/pages/1.png", timeout=0.3)
        gone = ("/v1/jobs/{id}/pages/{page}.png", 499)
        wait_for(lambda: server.desk.metrics.requests[gone] >= 3)
    for thread in staying:
        thread.join()
    stay()  # behind all that waited
    assert answers == [200] * 5
    assert "gone.png" not in called


def test_a_file_that_was_deleted_meanwhile_is_told():
    upload = Upload.of_bytes(b"x", "a.txt")
    assert upload.read() == b"x"
    upload.close()
    with pytest.raises(Problem) as told:
        upload.read()
    assert told.value.status == 404
