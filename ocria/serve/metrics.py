"""What the server counts, in the text format of Prometheus.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ocria.serve.job import CANCELLED, Job

if TYPE_CHECKING:
    from ocria.document.result import Page
    from ocria.events import EngineTick

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Histogram:
    """Seconds by how long they are."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.sum += seconds


class Metrics:
    """Counters of a server, in the thread of its event loop."""

    def __init__(self) -> None:
        self.rejected = 0
        """Requests that found the queue full."""
        self.cancelled = 0
        self.upload_bytes = 0
        self.requests: Counter[tuple[str, int]] = Counter()
        """By route and status."""
        self.request_seconds: dict[str, Histogram] = {}
        self.documents: Counter[str] = Counter()
        self.pages: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.page_seconds, self.first_page = Histogram(), Histogram()

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests[route, status] += 1
        self.request_seconds.setdefault(route, Histogram()).add(seconds)

    def page(self, page: Page) -> None:
        """Count a page that was read."""
        self.pages[page.status] += 1
        self.tokens["in"] += page.tokens_in
        self.tokens["out"] += page.tokens_out
        self.page_seconds.add(page.seconds)

    def document(self, job: Job) -> None:
        """Count a job that ended."""
        self.cancelled += job.state == CANCELLED
        self.documents[job.status or job.state] += 1

    def exposition(self, counts: Mapping[str, int], queue: int, ready: bool, tick: EngineTick | None) -> str:
        """All of it. `counts`: those of the desk; `queue`: its limit; `tick`: the engine now."""
        out = _Lines()
        told = {(("route", route), ("status", str(status))): n for (route, status), n in self.requests.items()}
        out.many("ocria_requests_total", "counter", "Answers.", told)
        out.histograms("ocria_request_seconds", "Until the whole answer was sent.", self.request_seconds)
        out.one("ocria_rejected_total", "counter", "Requests that found the queue full.", self.rejected)
        out.one("ocria_cancelled_total", "counter", "Documents that were cancelled.", self.cancelled)
        out.one("ocria_upload_bytes_total", "counter", "Bytes of bodies.", self.upload_bytes)
        out.one("ocria_uploads", "gauge", "Bodies that are on their way.", counts["uploading"])
        out.one("ocria_queue_waiting", "gauge", "Requests that wait.", counts["waiting"])
        out.one("ocria_queue_limit", "gauge", "Most requests that may wait.", queue)
        out.one("ocria_documents_running", "gauge", "Documents that are read.", counts["running"])
        out.one("ocria_jobs_kept", "gauge", "Jobs that are done and kept.", counts["kept"])
        out.many("ocria_documents_total", "counter", "Documents by status.", _by("status", self.documents))
        out.many("ocria_pages_total", "counter", "Pages by status.", _by("status", self.pages))
        out.histograms("ocria_page_seconds", "A page from its start to its end.", {None: self.page_seconds})
        out.histograms("ocria_first_page_seconds", "From a request to its first page.", {None: self.first_page})
        out.many("ocria_tokens_total", "counter", "Tokens of pages.", _by("kind", self.tokens))
        out.one("ocria_model_ready", "gauge", "Whether the model is loaded.", int(ready))
        if tick is not None:
            out.one("ocria_engine_running", "gauge", "Requests in the batch of the engine.", tick.running)
            out.one("ocria_engine_waiting", "gauge", "Requests that wait for the engine.", tick.waiting)
            speed = tick.decode_tokens_per_last_s
            out.one("ocria_decode_tokens_per_second", "gauge", "Over the last second.", speed)
            if tick.accept_length is not None:
                what = "Tokens of a request and verification."
                out.one("ocria_accept_length", "gauge", what, tick.accept_length)
        return out.text()


class _Lines:
    """An exposition as it grows."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def one(self, name: str, kind: str, what: str, value: float) -> None:
        self.many(name, kind, what, {(): value})

    def many(
        self, name: str, kind: str, what: str, values: Mapping[tuple[tuple[str, str], ...], float]
    ) -> None:
        self._head(name, kind, what)
        for labels, value in values.items():
            self._sample(name, labels, value)

    def histograms(self, name: str, what: str, by_route: Mapping[str | None, Histogram]) -> None:
        self._head(name, "histogram", what)
        for route, histogram in by_route.items():
            labels = () if route is None else (("route", route),)
            total = 0
            for bound, count in zip((*_SECONDS, None), histogram.counts, strict=True):
                total += count
                edge = "+Inf" if bound is None else f"{bound:g}"
                self._sample(f"{name}_bucket", (*labels, ("le", edge)), total)
            self._sample(f"{name}_sum", labels, histogram.sum)
            self._sample(f"{name}_count", labels, total)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _head(self, name: str, kind: str, what: str) -> None:
        self._lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]

    def _sample(self, name: str, labels: Iterable[tuple[str, str]], value: float) -> None:
        told = ",".join(f'{key}="{value}"' for key, value in labels)
        self._lines.append(f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}")


def _by(label: str, counts: Mapping[str, int]) -> dict[tuple[tuple[str, str], ...], float]:
    return {((label, name),): count for name, count in counts.items()}
