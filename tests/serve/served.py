"""A server in a thread, and what tests send it."""

import contextlib
import io
import json
import threading
import time

import pytest
from PIL import Image, ImageDraw, ImageFont

from ocria.document.options import ParseOptions

for _name in ("starlette", "uvicorn", "python_multipart", "httpx"):
    pytest.importorskip(_name, reason=f"{_name} is not installed: these tests need ocria[serve] and httpx")

import httpx  # noqa: E402

from ocria.serve.options import ServeOptions  # noqa: E402
from ocria.serve.run import Server  # noqa: E402

WAIT_S = 120.0
LIMITS = {"queue": 1, "concurrency": 2, "max_bytes": 400_000, "max_pages": 3, "max_pixels": 1_000_000}


class Running:
    """A server in a thread, and what tests do with it."""

    def __init__(self, **options):
        self.told = []
        chosen = ServeOptions(port=0, **{**LIMITS, "quiet": True, "grace": 20.0, **options})
        # One thread: the cores may be busy with other tests.
        base = ParseOptions(device="cpu", draft="none", threads=1, jobs=1, page_timeout=60.0)
        self.server = Server(chosen, base, self.told.append)
        self.url = self.server.url
        self.thread = threading.Thread(target=self.server.serve_until_stopped)
        self.thread.start()
        self.client = self.new_client()
        wait_for(lambda: self.client.get("/health/live").status_code == 200, httpx.TransportError)

    def new_client(self, **options):
        return httpx.Client(base_url=self.url, timeout=WAIT_S, trust_env=False, **options)

    @property
    def desk(self):
        return self.server._desk

    def wait_until_ready(self):
        wait_for(lambda: self.client.get("/health").status_code == 200)

    def wait_until_free(self):
        wait_for(lambda: self.desk.taken == 0 and len(self.desk.intake) == 0)
        reader = self.desk.model._reader
        if reader is not None:
            wait_for(lambda: reader._engine.idle)
            reader._engine.check_integrity()

    @contextlib.contextmanager
    def held(self):
        """While this lasts the engine takes no step."""
        with self.desk.model._reader._engine._lock:
            yield

    def metric(self, name):
        lines = self.client.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), None)

    def stop(self):
        self.client.close()
        self.server.stop()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive(), "the server does not end"


def wait_for(true, *ignored):
    end = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(*ignored):
            if true():
                return
        assert time.monotonic() < end, "that never came"
        time.sleep(0.02)


def png(lines):
    image = Image.new("L", (420, 40 + 60 * len(lines)), 255)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(28)
    for number, line in enumerate(lines):
        draw.text((30, 25 + 60 * number), line, fill=0, font=font)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def events_of(text):
    """Server-sent events as (id, name, data), comments left out; whatever is against their form fails."""
    found = []
    assert text.endswith("\n\n")
    for frame in text[:-2].split("\n\n"):
        if frame.startswith(":"):
            assert frame == ": "
            continue
        fields = [line.split(": ", 1) for line in frame.split("\n")]
        names = [name for name, _ in fields]
        assert names in (["id", "event", "data"], ["event", "data"]), frame
        told = dict(fields)
        data = json.loads(told["data"])
        assert data["type"] == told["event"]
        found.append((int(told["id"]) if "id" in told else None, told["event"], data))
    return found
