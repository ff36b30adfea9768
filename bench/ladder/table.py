"""The ladder for people: method, a table for each batch size, and docs/ladder.md."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch

from ocria.errors import OutputError

from .run import Climb, Measured, Spread
from .rungs import BY_KEY, GIVEN_ROWS, LADDER, MIX, Rung
from .work import SPOILT_EVERY

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- begin: written by python -m bench.ladder --write -->", "<!-- end -->"
HEAD = (
    "rung", "tokens/s", "× transformers", "a request", "pages/min", "first token ms", "accepted", "MB a step",
    "% of limit", "host ms", "CER %", "same tokens",
)  # fmt: skip


def method(climb: Climb, threads: int, device: str, dtype: str, made: list[str]) -> list[str]:
    """What was done, in lines of text."""
    work, machine = climb.work, climb.machine
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    if work is None or machine is None:
        return [f"{climb.subject} on {name}: interrupted before anything was read."]
    versions = f"torch {torch.__version__}"
    if any(BY_KEY[row.rung].peer for row in climb.rows):
        import transformers

        versions += f", transformers {transformers.__version__}"
    left = f"; {climb.left_out} left out that our guards ended" if climb.left_out else ""
    return [
        f"{climb.subject}, {work.what}{left}: {len(work.requests)} requests, {climb.tokens} output tokens. Greedy, "
        f"{dtype}, {device}, {threads} threads of {os.cpu_count()} cores, {name}, {versions}, Python "
        f"{platform.python_version()}.",
        *made,
        "Timed: from images to token ids, vision encoder and prompts included, loading, compiling and line finding "
        f"not. {climb.repeats} repeats in one process, all rungs in turns in alternating order after a warm-up; "
        "medians, and in brackets least to greatest. Times transformers: within a repeat, at the same batch.",
        "A request: its tokens over the time from the first work on it to its end, median. First token: as many "
        "requests as the batch submitted at once to an idle engine, median of them. Accepted: rows committed in a step "
        "for each request. Host: what the host does around a step, of transformers what is between two passes of the "
        "model.",
        "MB a step: weights, state, keys and values, each once. % of limit: the least time the steps could take, in "
        "the time they took; m: most are bound by memory, a: by arithmetic.",
        *machine.lines(),
        f"Given drafts: every request comes with its answer, in which each {SPOILT_EVERY}th word has a letter wrong, "
        f"drafted by lookup in steps of {GIVEN_ROWS} rows; both sides get the same drafts. It shows what taking drafts "
        "back costs and stands beside the ladder: drafts of the rungs above are not given.",
        f"Quantised mix: {MIX}, held to plain decoding of its own weights. On the CPU weights are decoded when they "
        "are loaded, so that it brings no speed there: it stands for its accuracy.",
        "Same tokens: requests with the tokens of plain decoding; = counts those that differ where two tokens are "
        "equally likely but for rounding, as a teacher-forced pass shows. A rung with any other difference has no "
        "speed.",
    ]


def lines(climb: Climb) -> list[str]:
    """A table in Markdown for each batch size, rungs of batch 1 in each."""
    found = []
    for batch in climb.batches:
        found += [f"### Batch {batch}", "", _row(HEAD), _row(["---"] * len(HEAD))]
        for rung, row in rows_at(climb, batch):
            title, *rest = cells(rung, row)
            small = row.batch != batch and f"batch {row.batch}" not in title
            found.append(_row([f"{title}, batch {row.batch}" if small else title, *rest]))
        found.append("")
    if climb.skipped:
        found += ["Not there:", ""]
        found += [f"- *{BY_KEY[key].title}*: {why}" for key, why in climb.skipped.items()]
        found.append("")
    if climb.incomplete:
        found += ["**Incomplete**: the run was interrupted, and what is missing was not measured.", ""]
    return found


def rows_at(climb: Climb, batch: int) -> list[tuple[Rung, Measured]]:
    """The rungs of the ladder of one batch size, those of batch 1 among them."""
    rows = [(rung, climb.row(rung.key, rung.batch or batch)) for rung in LADDER]
    return [(rung, row) for rung, row in rows if row is not None]


def cells(rung: Rung, row: Measured) -> list[str]:
    """One row of the table. Of a red gate nothing but the gate."""
    same = f"{row.same}/{row.requests}" + (f" + {row.ties} =" if row.ties else "")
    if row.as_unquantised is not None:
        same += f"; {row.as_unquantised} as unquantised"
    if row.red:
        return [rung.title, *["—"] * (len(HEAD) - 2), f"**{row.different} WRONG**, {same}"]
    return [
        rung.title,
        _spread(row.tokens_per_s, 0),
        _spread(row.times, 1),
        _number(row.request_tokens_per_s, 0),
        _number(row.pages_per_min, 0),
        _number(row.first_s and row.first_s.median, 0, 1e3),
        _number(row.accept_length, 1),
        _number(row.bytes_per_step, 1, 1e-6),
        _number(row.percent, 0) + ("" if row.bound is None else f" {row.bound[0]}"),
        _number(row.host_s, 2, 1e3),
        _number(row.cer, 2, 100),
        same,
    ]


def document(climb: Climb, how: list[str]) -> dict:
    """All of it as plain data."""
    rows = [{"title": BY_KEY[row.rung].title, "red": row.red, **asdict(row)} for row in climb.rows]
    machine = None if climb.machine is None else asdict(climb.machine)
    return {
        "bench": "ladder", "method": how, "subject": climb.subject, "batches": climb.batches, "machine": machine,
        "requests": len(climb.work.requests) if climb.work else 0, "tokens": climb.tokens, "repeats": climb.repeats,
        "incomplete": climb.incomplete, "skipped": climb.skipped, "rows": rows,
    }  # fmt: skip


def write(climb: Climb, how: list[str], folder: Path = DOCS) -> Path:
    """Put the tables between the markers of `ladder.md`; what stands around them stays. Raises OutputError for a page
    without markers: nothing is guessed about where tables belong."""
    page = folder / "ladder.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise OutputError("no place for the tables", path=page, cure=f"The page needs the lines {BEGIN} and {END}.")
    picture = "![Tokens a second of every rung, by batch](ladder.png)"
    inside = ["", picture, "", *lines(climb), *(f"{line}\n" for line in how)]
    page.write_text(before + begin + "\n".join(inside) + end + after, encoding="utf-8")
    return page


def _row(texts) -> str:
    return "| " + " | ".join(texts) + " |"


def _number(value: float | None, places: int, scale: float = 1.0) -> str:
    return "" if value is None else f"{value * scale:,.{places}f}"


def _spread(spread: Spread | None, places: int) -> str:
    if spread is None:
        return ""
    middle, least, greatest = (f"{v:,.{places}f}" for v in (spread.median, spread.least, spread.greatest))
    return f"{middle} ({least}–{greatest})"
