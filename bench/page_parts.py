"""Where the time of a scanned page goes, from the file to the Markdown.

    python bench/page_parts.py                        pages of old books from the samples
    python bench/page_parts.py scan.png other.tiff    these files, each as one document

Every document goes through `ocria.parse(mode="model")` with one reader, as a program would do it; the parts are timed
where the calling thread enters and leaves them, without the parts inside of them. `look` and `draw` are what the thread
waited for the process that opens files; the time of that process itself is the last row. The first document is read
once before, so that nothing is loaded while the clock runs. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

PARTS = {
    "open": "open: read, hash, decode",
    "look": "wait for the look at the page",
    "draw": "wait for its pixels",
    "gray": "grey levels",
    "upright": "which way up",
    "lines": "find the lines",
    "crops": "cut them out",
    "images": "line images",
    "queue": "engine: queue and host",
    "encoder": "engine: encoder",
    "prefill": "engine: prefill",
    "steps": "engine: steps",
    "layout": "lay the lines out",
    "write": "write Markdown",
    "other": "all else",
}
_TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """Wall and CPU seconds of this process by part, each without the parts that ran inside of it."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self._inside: list[str] = []
        self._since = (0.0, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._book()
        self._inside.append(name)
        try:
            yield
        finally:
            self._book()
            self._inside.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*args: Any, **options: Any) -> Any:
            with self.part(name):
                return function(*args, **options)

        return inner

    def timed_steps(self, name: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Likewise for a generator: the time between its items is not its own."""

        def inner(*args: Any, **options: Any) -> Iterator[Any]:
            items = function(*args, **options)
            while True:
                with self.part(name):
                    item = next(items, None)
                if item is None:
                    return
                yield item

        return inner

    def _book(self) -> None:
        now = (time.perf_counter(), time.process_time())
        if self._inside:
            self.wall[self._inside[-1]] += now[0] - self._since[0]
            self.cpu[self._inside[-1]] += now[1] - self._since[1]
        self._since = now


def read_page(path: Path, reader: Any) -> dict[str, dict[str, float]]:
    """Parse a document of one page; `wall` and `cpu` seconds by part, and those of the child in `child`."""
    import ocria
    from ocria.document import ahead, read_pages, source, upright
    from ocria.document.lines import sheet
    from ocria.document.write import render
    from ocria.model import line
    from ocria.runtime.engine import Engine

    clock = Clock()
    metrics = reader._engine.metrics
    before = _engine_seconds(metrics)
    pids = _children(reader)
    spent = _cpu_of(pids)
    with ExitStack() as patches:
        for owner, name, part in (
            (source, "open_source", "open"),
            (ahead.AheadPage, "look", "look"),
            (ahead.AheadPage, "render", "draw"),
            (ahead.AheadPage, "lay_out_lines", "layout"),
            (read_pages, "to_gray", "gray"),
            (read_pages, "upright_lines", "upright"),
            (upright, "find_lines", "lines"),
            (sheet, "cut_line", "crops"),
            (line, "line_image", "images"),
        ):
            patches.enter_context(patch.object(owner, name, clock.timed(part, getattr(owner, name))))
        patches.enter_context(patch.object(Engine, "stream", clock.timed_steps("queue", Engine.stream)))
        with clock.part("other"):
            document = ocria.parse(path, mode="model", reader=reader)
            with clock.part("write"):
                render(document, "md")
    for part, now, then in zip(("encoder", "prefill", "steps"), _engine_seconds(metrics), before, strict=True):
        clock.wall[part] = now - then
        clock.wall["queue"] -= clock.wall[part]
    child = _cpu_of(_children(reader)) - (spent if pids == _children(reader) else 0.0)
    wall = {part: clock.wall.get(part, 0.0) for part in PARTS}
    cpu = {part: clock.cpu.get(part, 0.0) for part in PARTS if part not in ("encoder", "prefill", "steps")}
    return {"wall": wall, "cpu": cpu, "child": {"cpu": child}, "page": {"lines": len(document.pages[0].lines)}}


def _engine_seconds(metrics: Any) -> tuple[float, float, float]:
    """Of encoder, rest of the prefill and steps so far."""
    return metrics.encoder_seconds, metrics.prefill_seconds - metrics.encoder_seconds, metrics.decode_seconds


def _children(reader: Any) -> list[int]:
    from ocria.document.api import DEFAULT_JOBS
    from ocria.document.workers import warm_workers

    return warm_workers(reader, DEFAULT_JOBS).pids


def _cpu_of(pids: list[int]) -> float:
    """CPU seconds of processes so far."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids)
    return sum(int(field[11]) + int(field[12]) for field in fields) / _TICKS


def table(pages: list[dict[str, dict[str, float]]]) -> str:
    """Medians over pages, in ms, as a Markdown table."""
    whole = statistics.median(sum(page["wall"].values()) for page in pages)
    rows = ["| part | wall ms | share | CPU ms |", "|---|---|---|---|"]
    for part, title in PARTS.items():
        wall = statistics.median(page["wall"][part] for page in pages)
        cpu = statistics.median(page["cpu"][part] for page in pages) if part in pages[0]["cpu"] else None
        shown = "with the queue" if cpu is None else f"{1000 * cpu:.0f}"
        rows.append(f"| {title} | {1000 * wall:.0f} | {100 * wall / whole:.0f} % | {shown} |")
    child = statistics.median(page["child"]["cpu"] for page in pages)
    rows += [f"| whole page | {1000 * whole:.0f} | | |", f"| the process that opens files | | | {1000 * child:.0f} |"]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="default: pages of old books from the samples")
    parser.add_argument("--samples", help="folder of the samples; default: $OCRIA_SAMPLES")
    parser.add_argument("--limit", type=int, default=8, help="most pages of the samples (default: 8)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each file is read (default: once)")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--compile", action="store_true")
    chosen = parser.parse_args(arguments)
    files = chosen.files
    if not files:
        from samples import find_samples, image_file, load_items
        from tesseract import cache_folder

        items = load_items(find_samples(chosen.samples), ["books"], limit=chosen.limit)
        files = [image_file(item, cache_folder()) for item in items]
    import ocria
    from ocria.document.options import ParseOptions
    from ocria.document.reader import Reader

    reader = Reader(ParseOptions(batch=chosen.batch, threads=chosen.threads, compile=chosen.compile))
    ocria.parse(files[0], mode="model", reader=reader)
    pages = [read_page(file, reader) for _ in range(chosen.rounds) for file in files]
    print(f"Medians of {len(pages)} pages, {chosen.threads} threads\n\n{table(pages)}\n")
    names = [str(file) for _ in range(chosen.rounds) for file in files]
    shown = [{"file": name, **page} for name, page in zip(names, pages, strict=True)]
    print(json.dumps({"bench": "page_parts", "threads": chosen.threads, "pages": shown}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
