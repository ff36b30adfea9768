"""How soon the app answers a key while the model decodes at full speed, and what the app costs the model.

    python bench/tui.py --rounds 3 --pages 8

The same drawn document is read again and again by the engine's process of a session, in turn without the app, with
somebody who only takes the events away ten times a second, and with the app on a terminal of 120 x 40 that nobody sees
(all is computed and rendered, what goes to the terminal is thrown away): these give the rates. Then it is read beside
the app once more while keys are sent at random times, as the thread that reads a terminal sends them. A key's latency
runs from there to when its action is done and the next refresh of the screen after it is over. Keys come one at a time,
most of them change what is shown. Afterwards as many keys are sent while nothing is read.

A document is timed from its start to its end with a model that is loaded; tokens are those of its pages. The rates are
medians over rounds. CPU times beside them tell what a machine that does other things as well hides: those of the app's
process between a key and the screen, and over a document, and those of the engine's process for a token. The last line
is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymupdf
from ocria_tui.app import OcriaApp
from ocria_tui.live import LiveSession
from ocria_tui.settings import AppSettings
from textual import events

from ocria.events import DocumentDone, DocumentFailed, Event, PageDone

SIZE = (120, 40)
KEYS = {
    "m": "toggle_raw", "b": "toggle_boxes", "l": "toggle_log", "left": "previous_page", "right": "next_page",
    "t": "cycle_theme", "j": "next_document", "k": "previous_document",
}  # fmt: skip
TARGET_MS = 100.0
_WORDS = ("page", "river", "ledger", "number", "of", "the", "and", "storm", "in", "1874", "keeper", "light", "north")
_GIVE_UP_S = 30.0


class TimedApp(OcriaApp):
    """The app, which tells when an action is done and the screen was refreshed after it."""

    on_key_done: Callable[[str], None] = staticmethod(lambda action: None)

    async def run_action(self, action: Any, *arguments: Any, **named: Any) -> bool:
        done = await super().run_action(action, *arguments, **named)
        name = action if isinstance(action, str) else action[1]
        self.screen.call_after_refresh(self.on_key_done, str(name))
        return done


class Typist(threading.Thread):
    """Sends keys at random times and clocks each of them."""

    def __init__(self, app: TimedApp, rng: random.Random, mean_pause_s: float):
        super().__init__(daemon=True)
        self._app, self._rng, self._mean_pause_s = app, rng, mean_pause_s
        self._stopped, self._answered = threading.Event(), threading.Event()
        self._wanted = ""
        self.latencies: dict[str, list[float]] = {action: [] for action in KEYS.values()}
        """Milliseconds, by action."""
        self.cpu: list[float] = []
        """Milliseconds of the process meanwhile."""
        self.lost = 0

    def run(self) -> None:
        self._app.on_key_done = self._done
        while not self._stopped.wait(self._rng.expovariate(1 / self._mean_pause_s)):
            key, self._wanted = self._rng.choice(list(KEYS.items()))
            self._answered.clear()
            sent, cpu = time.perf_counter(), time.process_time()
            self._app._driver.send_message(events.Key(key, key if len(key) == 1 else None))
            if self._answered.wait(_GIVE_UP_S):
                self.latencies[self._wanted].append((time.perf_counter() - sent) * 1e3)
                self.cpu.append((time.process_time() - cpu) * 1e3)
            else:
                self.lost += 1

    def stop(self) -> None:
        self._stopped.set()

    def _done(self, action: str) -> None:
        if action.rpartition(".")[2].removesuffix("()") == self._wanted:
            self._answered.set()


class Reading:
    """What came of one document, which is to be opened now."""

    def __init__(self, session: LiveSession) -> None:
        self.tokens, self.end = 0, None
        self.engine_s, self.app_s = 0.0, 0.0
        """CPU time of the two processes, once it is done."""
        self._pid = session.pid
        self._begun = cpu_of(self._pid), time.process_time()

    def take(self, event: Event, path: str) -> None:
        if isinstance(event, PageDone) and event.path == path:
            self.tokens += event.tokens_out
        elif isinstance(event, (DocumentDone, DocumentFailed)) and event.path == path:
            self.end = event
            self.engine_s, self.app_s = cpu_of(self._pid) - self._begun[0], time.process_time() - self._begun[1]

    @property
    def tokens_per_s(self) -> float:
        if not isinstance(self.end, DocumentDone) or self.end.status != "ok":
            raise SystemExit(f"the document was not read well: {self.end}")
        return self.tokens / self.end.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=8, help="of the document")
    parser.add_argument("--lines", type=int, default=30, help="of a page")
    parser.add_argument("--threads", type=int, help="of the model (default: as many as there are cores)")
    parser.add_argument("--pause", type=float, default=0.15, metavar="SECONDS", help="between keys, on average")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(__doc__)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder, "document.pdf"), Path(folder, "first.pdf")
        draw(path, options.pages, options.lines, rng)
        draw(small, 1, 2, rng)
        chosen = {"mode": "model", "output_dir": Path(folder, "out"), "threads": options.threads, "resume": False}
        alone: list[Reading] = []
        beside: list[Reading] = []
        typed: list[Reading] = []
        busy: list[Typist] = []
        idle: list[Typist] = []
        for number in range(options.rounds):
            alone.append(without_app(str(path), str(small), chosen))
            watched, pressed, (while_read, after) = asyncio.run(
                with_app(str(path), str(small), chosen, rng, options.pause)
            )
            beside.append(watched)
            typed.append(pressed)
            busy.append(while_read)
            idle.append(after)
            print(f"round {number + 1}: {alone[-1].tokens_per_s:.0f} tokens/s without the app, "
                  f"{beside[-1].tokens_per_s:.0f} beside it, {pressed.tokens_per_s:.0f} with keys; "
                  f"keys while it is read {shown(flat([while_read]))}, after it {shown(flat([after]))}")  # fmt: skip
    for action in KEYS.values():
        print(f"  {action:20s} {shown([ms for typist in busy for ms in typist.latencies[action]])}")
    rate, rate_beside, rate_typed = (
        statistics.median(r.tokens_per_s for r in readings) for readings in (alone, beside, typed)
    )
    print(json.dumps({
        "bench": "tui", "size": list(SIZE), "pages": options.pages, "lines": options.lines, "rounds": options.rounds,
        "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "threads": options.threads,
        "seed": options.seed, "latency_busy_ms": figures(flat(busy)), "latency_idle_ms": figures(flat(idle)),
        "cpu_of_a_key_ms": figures([ms for typist in busy for ms in typist.cpu]),
        "keys_lost": sum(typist.lost for typist in busy + idle), "target_ms": TARGET_MS,
        "tokens_per_s_without_app": round(rate, 1), "tokens_per_s_beside_app": round(rate_beside, 1),
        "tokens_per_s_with_keys": round(rate_typed, 1),
        "speed_beside_app": round(rate_beside / rate, 4),
        "engine_cpu_ms_a_token_without_app": cpu_of_a_token(alone),
        "engine_cpu_ms_a_token_beside_app": cpu_of_a_token(beside),
        "app_cpu_of_engine_cpu": app_share(beside), "app_cpu_of_engine_cpu_with_keys": app_share(typed),
    }))  # fmt: skip


def without_app(path: str, small: str, options: dict[str, Any]) -> Reading:
    """Read the document with nobody who looks."""
    session = LiveSession([], options)
    session.start()
    try:
        for each in (small, path):
            reading = Reading(session)
            session.open([each])
            while reading.end is None:
                time.sleep(0.1)
                for _, event in session.drain():
                    reading.take(event, each)
        return reading
    finally:
        session.close()


async def with_app(
    path: str, small: str, options: dict[str, Any], rng: random.Random, pause: float
) -> tuple[Reading, Reading, list[Typist]]:
    """Read it beside the app, then with keys; and as many keys when it is read."""
    session = LiveSession([], options)
    taken: list[Event] = []
    drain = session.drain

    def drain_and_note() -> list[Any]:
        happened = drain()
        taken.extend(event for _, event in happened)
        return happened

    session.drain = drain_and_note
    app = TimedApp(session, AppSettings(animation=False))
    try:
        async with app.run_test(size=SIZE):
            await read(session, small, taken)
            watched = await read(session, path, taken)
            typists = [Typist(app, rng, pause) for _ in range(2)]
            typists[0].start()
            pressed = await read(session, path, taken)
            typists[0].stop()
            await asyncio.to_thread(typists[0].join)
            sent = sum(map(len, typists[0].latencies.values()))
            typists[1].start()
            while sum(map(len, typists[1].latencies.values())) + typists[1].lost < sent:
                await asyncio.sleep(0.1)
            typists[1].stop()
            await asyncio.to_thread(typists[1].join)
        return watched, pressed, typists
    finally:
        session.close()


async def read(session: LiveSession, path: str, taken: list[Event]) -> Reading:
    reading, seen = Reading(session), len(taken)
    session.open([path])
    while reading.end is None:
        await asyncio.sleep(0.1)
        for event in taken[seen:]:
            reading.take(event, path)
        seen = len(taken)
    return reading


def draw(path: Path, pages: int, lines: int, rng: random.Random) -> None:
    """A PDF of lines of words."""
    with pymupdf.open() as document:
        for _ in range(pages):
            page = document.new_page()
            for line in range(lines):
                text = " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(4, 13)))
                page.insert_text((60, 70 + line * 700 / lines), text, fontsize=11)
        document.save(path)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has had, all its threads together."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def cpu_of_a_token(readings: list[Reading]) -> float:
    return round(1e3 * sum(r.engine_s for r in readings) / sum(r.tokens for r in readings), 3)


def app_share(readings: list[Reading]) -> float:
    return round(sum(r.app_s for r in readings) / sum(r.engine_s for r in readings), 4)


def flat(typists: list[Typist]) -> list[float]:
    return [ms for typist in typists for latencies in typist.latencies.values() for ms in latencies]


def figures(latencies: list[float]) -> dict[str, float | int]:
    ordered = sorted(latencies)
    if not ordered:
        return {"keys": 0}
    return {
        "keys": len(ordered),
        "median": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
        "max": round(ordered[-1], 1),
    }


def shown(latencies: list[float]) -> str:
    found = figures(latencies)
    if not found["keys"]:
        return "no key"
    return "{median} ms median, {p95} p95, {max} max of {keys} keys".format(**found)


if __name__ == "__main__":
    main()
