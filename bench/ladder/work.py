"""What all rungs read: requests, and the truth of what they show where there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from page_lines import file_lines, image_lines, pdf_lines
from samples import GROUPS, find_samples, load_items
from scoring import score, total_cer

from ocria.errors import UsageError
from ocria.runtime.request import Request

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGES = (EXAMPLES / "scan.png", EXAMPLES / "report.pdf")
SAMPLED = ("books", "borders", "test", "born")
SPOILT_EVERY = 4
"""Of the drafts that are given, every so many-th word has a letter wrong."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some requests, by their ids, whose texts in order are `truth`."""

    requests: tuple[int, ...]
    truth: str
    lower: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """ids of requests count from 0. pages: how many pages they amount to. what: in a few words."""

    requests: list[Request]
    units: list[Unit]
    pages: float
    what: str

    def kept(self, ids: set[int]) -> Work:
        """The requests of these ids, and the units that are whole still. They keep their ids."""
        requests = [request for request in self.requests if request.id in ids]
        units = [unit for unit in self.units if ids.issuperset(unit.requests)]
        return replace(self, requests=requests, units=units, pages=self.pages * len(requests) / len(self.requests))

    def cer(self, texts: dict[int, str]) -> float | None:
        """Character error rate of these texts by id; None without a truth."""
        scores = [
            score(unit.truth, "\n".join(texts[one] for one in unit.requests), lower=unit.lower) for unit in self.units
        ]
        return total_cer(scores) if scores else None


def shipped(loaded: Any, limit: int | None) -> Work:
    """The lines of the documents in `examples/`, at most `limit` of them, from everywhere. The truth of the scan's lies
    beside it, that of the report's is its text layer."""
    lines = [line for path in PAGES for line in file_lines(path)]
    truths = (EXAMPLES / "scan.txt").read_text(encoding="utf-8").splitlines()
    truths += [line.guess for line in lines if line.guess is not None]
    if len(truths) != len(lines):
        raise UsageError(f"{len(lines)} lines were found in examples/, whose truth has {len(truths)}")
    step = max(1.0, len(lines) / (limit or len(lines)))
    chosen = [int(number * step) for number in range(min(limit or len(lines), len(lines)))]
    requests = _requests(loaded, [lines[number] for number in chosen])
    units = [Unit((place,), truths[number]) for place, number in enumerate(chosen)]
    pages = 3 * len(chosen) / len(lines)  # a scan, and a report of two pages
    return Work(requests, units, pages, f"{len(chosen)} of the {len(lines)} lines of examples/ (3 pages)")


def sampled(loaded: Any, folder: str, limit: int | None) -> Work:
    """The lines of the real samples' pages, page by page until there are `limit` lines. A page that was cut has no
    truth."""
    lines, units, pages, whole = [], [], 0.0, 0
    for item in load_items(find_samples(folder), list(SAMPLED)):
        found = image_lines(item.path) if item.page is None else pdf_lines(item.path, range(item.page, item.page + 1))
        room = len(found) if limit is None else min(limit - len(lines), len(found))
        if room == 0 and found:
            break
        # Where order is no part of the truth a rate of errors along it means nothing.
        if room == len(found) and GROUPS[item.group].measure == "cer":
            place = tuple(range(len(lines), len(lines) + room))
            units.append(Unit(place, item.truth, GROUPS[item.group].lower))
        lines += found[:room]
        pages += room / max(1, len(found))
        whole += 1
    what = f"{len(lines)} lines of {whole} pages of the samples, {len(units)} of them scored"
    return Work(_requests(loaded, lines), units, pages, what)


def with_given_drafts(requests: list[Request], texts: dict[int, str], seed: int = 0) -> list[Request]:
    """The same requests, each with its answer as a guess, in which every fourth word has a letter replaced."""
    rng = np.random.default_rng(seed)
    return [replace(request, guess=_spoilt(texts[request.id], rng)) for request in requests]


def _spoilt(text: str, rng: np.random.Generator) -> str:
    words = text.split(" ")
    for number in range(int(rng.integers(SPOILT_EVERY)), len(words), SPOILT_EVERY):
        word = words[number]
        if word:
            at = int(rng.integers(len(word)))
            words[number] = word[:at] + ("x" if word[at] != "x" else "y") + word[at + 1 :]
    return " ".join(words)


def _requests(loaded: Any, lines: list) -> list[Request]:
    profile = loaded.profile
    if profile.unit != "line":
        raise UsageError(f"{profile.name} reads {profile.unit}s, and this bench cuts pages into lines")
    prompt = loaded.tokenizer.encode(loaded.tokenizer.render(profile.messages(), **profile.template_kwargs))
    return [Request(number, prompt, [line.image], guess=line.guess) for number, line in enumerate(lines)]
