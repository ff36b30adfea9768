"""Load on a server over loopback: many clients, some of which go away or send what cannot be read.

    python bench/serve.py --clients 6 --requests 60
    python bench/serve.py --requests 200 --plot serve.png -- --threads 1

A server is started as a process of its own, with what stands behind `--` as its options, and driven by a bounded number
of clients that each send one request after the other: pages of one to three lines to be read by the model, PDFs with a
text layer, completions with an image, streams; and among them clients that leave in the middle, damaged files and
bodies that are too large. Clients that find the queue full come again, within a second.

First one client alone sends each of the documents once: at least nine of ten words must be right, else nothing is
measured. Under load every document must get the text that it got then, and every request must end as it should, else it
is lost.

Printed: requests by kind and how they ended, throughput, percentiles of latency, memory of the server and of its child
processes. Memory grows at first; what tells more is how that of the server grows over the second half of the requests,
in MiB for 100 of them (with fewer than 200 requests that says little). The last line is JSON; the exit code is 1 where
a request was lost or the server did not end well.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pymupdf
from PIL import Image, ImageDraw, ImageFont

MAX_BYTES = 300_000
KINDS = {"image": 6, "pdf": 4, "chat": 3, "stream": 3, "leaver": 3, "damaged": 2, "too-large": 1}
"""How often each kind of request comes."""
READ = ("image", "pdf", "chat", "stream")
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "reads", "page", "of", "old", "book")
START_S = 300.0
LEAST_RIGHT = 0.9
DOCUMENTS = 6
"""Of each kind."""


@dataclass(frozen=True)
class Memory:
    """Resident memory at one moment, MiB."""

    seconds: float
    requests: int
    """That had ended."""
    server: float
    children: float


@dataclass
class Work:
    """A document, what it says, and what the server made of it when it had nothing else to do."""

    words: list[str]
    content: bytes
    text: str | None = None


@dataclass
class Tally:
    """What became of the requests."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    ended: Counter[str] = field(default_factory=Counter)
    right: float = 0.0
    """Share of words that were right before the load."""
    rejected: int = 0
    pages: int = 0
    lost: list[str] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)


class Client:
    """Sends requests until none is left."""

    def __init__(
        self, url: str, tally: Tally, draw: random.Random, patience_s: float, works: dict[str, list[Work]]
    ):
        self._url, self._tally, self._draw, self._patience_s = url, tally, draw, patience_s
        self._works = works

    async def gate(self) -> float:
        """Read every document alone and keep its text; the share of words that are right."""
        right = asked = 0
        async with httpx.AsyncClient(base_url=self._url, timeout=self._patience_s, trust_env=False) as http:
            for kind in READ:
                for work in self._works[kind]:
                    work.text = await self._read(http, kind, work)
                    right += sum((Counter(work.words) & Counter(work.text.split())).values())
                    asked += len(work.words)
        return right / asked

    async def run(self, left: list[str]) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=self._patience_s, trust_env=False) as http:
            while left:
                kind = left.pop()
                begun = time.monotonic()
                try:
                    how = await self._once(http, kind)
                except (httpx.HTTPError, ValueError, KeyError, AssertionError) as error:
                    self._tally.lost.append(f"{kind}: {type(error).__name__}: {error}")
                    how = "lost"
                self._tally.ended[f"{kind} {how}"] += 1
                self._tally.seconds[kind].append(time.monotonic() - begun)

    async def _once(self, http: httpx.AsyncClient, kind: str) -> str:
        """One request, again where the queue is full. Raises AssertionError where it does not end as it should."""
        draw = self._draw
        image = draw.choice(self._works["image"]).content
        if kind == "leaver":
            return await self._leave(http, image)
        if kind == "damaged":
            broken = (image[:60], b"%PDF-1.7\n" + os.urandom(500), os.urandom(300), b"PK\x03\x04nothing")
            content = draw.choice(broken)
            answer = await self._post(http, "/v1/parse", content=content)
            assert answer.status_code == 422, answer.text[:200]
            return "refused"
        if kind == "too-large":
            answer = await self._post(http, "/v1/parse", content=os.urandom(MAX_BYTES + 1))
            assert answer.status_code == 413, answer.text[:200]
            return "refused"
        work = draw.choice(self._works[kind])
        text = await self._read(http, kind, work)
        assert text == work.text, f"{work.text!r} became {text!r}"
        self._tally.pages += 1
        return "read"

    async def _read(self, http: httpx.AsyncClient, kind: str, work: Work) -> str:
        """The Markdown of a document. Raises AssertionError where there is none."""
        if kind == "chat":
            url = "data:image/png;base64," + base64.b64encode(work.content).decode()
            message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
            answer = await self._post(http, "/v1/chat/completions", json={"messages": [message]})
        else:
            told = {"stream": "true"} if kind == "stream" else {"mode": "text"} if kind == "pdf" else {}
            answer = await self._post(http, "/v1/parse", files={"file": ("a", work.content)}, data=told)
        assert answer.status_code == 200, answer.text[:200]
        if kind == "chat":
            return answer.json()["choices"][0]["message"]["content"]
        if kind == "stream":
            name, data = answer.text.strip().split("\n")[-2:]
            assert name == "event: result", answer.text[-200:]
            return json.loads(data.removeprefix("data: "))["content"]
        return answer.text

    async def _post(self, http: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
        until = time.monotonic() + self._patience_s
        while True:
            answer = await http.post(path, **body)
            if answer.status_code != 429:
                return answer
            self._tally.rejected += 1
            assert time.monotonic() < until, "the queue was always full"
            await asyncio.sleep(min(1.0, float(answer.headers["retry-after"])) * self._draw.random())

    async def _leave(self, http: httpx.AsyncClient, content: bytes) -> str:
        """Go away after a while, as a browser that is closed."""
        body = {"files": {"file": ("a.png", content)}, "data": {"stream": self._draw.choice(["true", "false"])}}
        task = asyncio.ensure_future(http.post("/v1/parse", **body))
        await asyncio.wait([task], timeout=self._draw.uniform(0.0, 1.0))
        task.cancel()
        await asyncio.wait([task])
        return "left" if task.cancelled() else "done"


def works(draw: random.Random) -> dict[str, list[Work]]:
    """Documents of every kind that is read."""
    made: dict[str, list[Work]] = {kind: [] for kind in READ}
    for kind in READ:
        for number in range(DOCUMENTS):
            lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 5))) for _ in range(1 + number % 3)]
            content = pdf(lines) if kind == "pdf" else png(lines)
            made[kind].append(Work(" ".join(lines).split(), content))
    return made


def png(lines: list[str]) -> bytes:
    image = Image.new("L", (640, 40 + 60 * len(lines)), 255)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(28)
    for number, line in enumerate(lines):
        draw.text((30, 25 + 60 * number), line, fill=0, font=font)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def pdf(pages: list[str]) -> bytes:
    with pymupdf.open() as document:
        for text in pages:
            document.new_page(width=400, height=200).insert_text((30, 60), text)
        return document.tobytes()


def memory_of(process: psutil.Process, seconds: float, requests: int) -> Memory:
    """The memory of a server and the processes below it, now."""
    children = 0
    for each in process.children(recursive=True):
        try:
            children += each.memory_info().rss
        except psutil.NoSuchProcess:  # ended meanwhile
            continue
    return Memory(seconds, requests, process.memory_info().rss / 2**20, children / 2**20)


def growth(memory: list[Memory]) -> float | None:
    """MiB of the server for 100 requests: a line of least squares through the second half of the requests."""
    half = [(each.requests, each.server) for each in memory if 2 * each.requests >= memory[-1].requests]
    if len({requests for requests, _ in half}) < 2:
        return None
    return round(100 * statistics.linear_regression(*zip(*half, strict=True)).slope, 2)


def by_requests(memory: list[Memory], step: int = 100) -> dict[int, float]:
    """MiB of the server when it had answered so many requests, for each `step` of them."""
    found: dict[int, float] = {}
    for each in memory:
        found.setdefault(each.requests // step * step, round(each.server, 1))
    return found


async def drive(url: str, process: psutil.Process, arguments: argparse.Namespace, tally: Tally) -> float:
    """Send all requests; returns the seconds that took."""
    draw = random.Random(arguments.seed)
    kinds = draw.choices(list(KINDS), list(KINDS.values()), k=arguments.requests)
    documents = works(draw)
    tally.right = await Client(url, tally, draw, arguments.patience, documents).gate()
    assert tally.right >= LEAST_RIGHT, f"only {tally.right:.0%} of the words are right"
    begun = time.monotonic()

    def remember() -> None:
        tally.memory.append(memory_of(process, time.monotonic() - begun, tally.ended.total()))

    remember()

    async def watch() -> None:
        while True:
            await asyncio.sleep(1.0)
            remember()

    watching = asyncio.ensure_future(watch())
    seeds = [draw.random() for _ in range(arguments.clients)]
    clients = [Client(url, tally, random.Random(seed), arguments.patience, documents) for seed in seeds]
    await asyncio.gather(*(client.run(kinds) for client in clients))
    seconds = time.monotonic() - begun
    watching.cancel()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=arguments.patience) as http:
        while True:  # those who left are still being forgotten
            health = (await http.get("/health")).json()
            if not health["waiting"] and not health["running"]:
                break
            assert time.monotonic() - begun < arguments.patience + seconds, f"the queue does not empty: {health}"
            await asyncio.sleep(0.1)
    remember()
    return seconds


def start(options: list[str]) -> tuple[subprocess.Popen[bytes], str, Any]:
    """A server on a free port; returns its process, its address and what it says."""
    said = tempfile.NamedTemporaryFile("r", suffix=".log")  # noqa: SIM115, read to the end
    arguments = ["--port", "0", "--no-config", "--max-bytes", str(MAX_BYTES), "-q", *options]
    with open(said.name, "wb") as errors:
        server = subprocess.Popen([sys.executable, "-m", "ocria", "serve", *arguments], stderr=errors)
    end = time.monotonic() + START_S
    while True:
        with open(said.name, encoding="utf-8") as log:
            text = log.read()
        if found := re.search(r"serving \S+ at (http://\S+)", text):
            return server, found[1], said
        if server.poll() is not None or time.monotonic() > end:
            server.kill()
            sys.exit(f"the server does not start:\n{text}")
        time.sleep(0.1)


def percentiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return {f"p{p}": round(cuts[p - 1], 3) for p in (50, 90, 99)}


def plot(tally: Tally, path: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    for kind in READ:
        values = sorted(tally.seconds[kind])
        left.plot(values, [(n + 1) / len(values) for n in range(len(values))], label=kind)
    left.set(xlabel="seconds", ylabel="share of requests that were answered", title="Latency")
    left.legend()
    for name in ("server", "children"):
        right.plot([m.requests for m in tally.memory], [getattr(m, name) for m in tally.memory], label=name)
    right.set(xlabel="requests", ylabel="MiB", title="Memory", ylim=(0, None))
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=6, metavar="N", help="that send at the same time (6)")
    parser.add_argument("--requests", type=int, default=60, metavar="N", help="of all of them (60)")
    parser.add_argument("--patience", type=float, default=300.0, metavar="S", help="of a client (300)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--plot", metavar="FILE", help="latency and memory as a picture")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="of ocria serve")
    arguments = parser.parse_args()
    tally = Tally()
    server, url, said = start(arguments.options)
    process = psutil.Process(server.pid)
    try:
        seconds = asyncio.run(drive(url, process, arguments, tally))
        below = process.children(recursive=True)
    finally:
        server.terminate()
        code = server.wait(START_S)
    left = [child.pid for child in below if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    read = [second for kind in READ for second in tally.seconds[kind]]
    memory = {
        name: {"start": values[0], "most": max(values), "end": values[-1]}
        for name in ("server", "children")
        for values in [[round(getattr(each, name), 1) for each in tally.memory]]
    }
    report = {
        "clients": arguments.clients,
        "requests": arguments.requests,
        "seconds": round(seconds, 2),
        "requests_per_s": round(arguments.requests / seconds, 3),
        "words_right": round(tally.right, 4),
        "documents_per_min": round(60 * tally.pages / seconds, 1),
        "latency_s": percentiles(read),
        "latency_s_by_kind": {kind: percentiles(values) for kind, values in tally.seconds.items()},
        "ended": dict(sorted(tally.ended.items())),
        "rejected_429": tally.rejected,
        "lost": len(tally.lost),
        "memory_mib": memory,
        "server_mib_by_requests": by_requests(tally.memory),
        "growth_mib_per_100_requests": growth(tally.memory),
        "exit_code": code,
        "processes_left": len(left),
    }
    for name, value in report.items():
        print(f"{name:<28} {value}")
    for one in tally.lost[:10]:
        print(f"lost: {one}")
    if tally.lost or code:
        with open(said.name, encoding="utf-8") as log:
            print("".join(log.readlines()[-30:]))
    if arguments.plot:
        plot(tally, arguments.plot)
    print(json.dumps(report))
    return int(bool(tally.lost or code or left))


if __name__ == "__main__":
    sys.exit(main())
