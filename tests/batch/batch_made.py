"""Documents for tests of batches, and the command as users run it. Pages without print cost next to nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymupdf
from in_process import called

from ocria.batch.inputs import find_inputs
from ocria.batch.options import BatchOptions
from ocria.batch.run import run_batch
from ocria.batch.tally import Tally
from ocria.document.options import ParseOptions
from ocria.document.reader import Delta, ReadText
from ocria.document.result import ModelInfo
from ocria.events import PageDone

LINE = "Line {} of document {}, which is long enough to be read."


def pdf(path, words="x", pages=1, printed=1, **options):
    """A PDF of `pages` pages, the last `printed` of which have a line."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with pymupdf.open() as document:
        for number in range(1, pages + 1):
            page = document.new_page(width=300, height=200)
            if number > pages - printed:
                page.insert_text((20, 60), LINE.format(number, words), fontsize=9)
        document.save(path, **options)
    return Path(path)


def broken_page(path, pages=3, broken=2):
    """A PDF with one page whose content is damaged."""
    pdf(path, pages=pages, printed=1)
    with pymupdf.open(path) as document:
        page = document[broken - 1]
        page.insert_text((20, 60), "gone")
        document.update_stream(page.get_contents()[0], b"BT ( never closed << ]] garbage \xff\xfe q Q q")
        content = document.tobytes()
    Path(path).write_bytes(content)
    return Path(path)


class SlowReader:
    """A page model that tells when it is asked and may be cancelled while it answers."""

    unit, dialect, box_scale, model = "page", "text", None, ModelInfo("slow", "1")

    def __init__(self, cancel=None):
        self.cancel, self.asked = cancel, 0

    def stream(self, images, guesses=None):
        self.asked += len(images)
        if self.cancel is not None:
            self.cancel.set()
        for index in range(len(images)):
            yield Delta(index, "read")
        return [ReadText(f"read {index}", 0.9, "ok", 1, 1) for index in range(len(images))]


def scans(path, pages):
    """A PDF of pages without a text layer, full of marks."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng()
    with pymupdf.open() as document:
        for _ in range(pages):
            page = document.new_page(width=200, height=200)
            for top in range(40, 160, 20):
                for left in range(20, 180, 4):
                    page.draw_rect((left, top, left + 2, top + int(rng.integers(3, 9))), fill=(0, 0, 0))
        document.save(path)
    return path


class Ran:
    """One run in this process: its events and what it comes to."""

    def __init__(self, inputs, output_dir=None, *, fail_on="partial", reader=None, cancel=None, find=None, **options):
        batch = {name: options.pop(name) for name in list(options) if name in BatchOptions.__dataclass_fields__}
        found = find_inputs([str(name) for name in inputs], recursive=True, output_dir=output_dir, **(find or {}))
        self.tally = Tally(len(found.inputs))
        self.events = list(
            run_batch(
                found.inputs,
                ParseOptions(**{"mode": "text", "jobs": 0, **options}),
                BatchOptions(output_dir=output_dir, **batch),
                reader=reader,
                cancel=cancel,
                tally=self.tally,
            )
        )
        self.code = self.tally.exit_code(fail_on)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def read(self):
        """The pages that were really read, as (name, number)."""
        return [(os.path.basename(event.path), event.page) for event in self.of(PageDone)]


def command(*arguments, input=b"", cwd=None):
    """Run `ocria parse` in this process, in text mode and without worker processes."""
    return called("parse", "--mode", "text", "-j", "0", *arguments, stdin=input, cwd=cwd)


def apart(*arguments, **options):
    """The same as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ocria", "parse", "--mode", "text", "-j", "0", *map(str, arguments)],
        timeout=900,
        **options,
    )


def started(*arguments, **options):
    """The same, without waiting for its end; standard error is text."""
    return subprocess.Popen(
        [sys.executable, "-m", "ocria", "parse", "--mode", "text", "-j", "0", *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


def files(folder):
    """All files in a folder, but for ocria's own, as {relative path: bytes}."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and ".ocria" not in path.parts
    }


def debris(folder):
    """Temporary files that were left behind."""
    return [path for path in Path(folder).rglob("*") if ".tmp" in path.name]


def kept_pages(folder):
    """How many pages wait in a folder of outputs."""
    return sum(path.read_bytes().count(b'{"page":') for path in (Path(folder) / ".ocria" / "pages").glob("*.jsonl"))


def events_of(text):
    """Events from lines of JSON."""
    return [json.loads(line) for line in text.splitlines()]
