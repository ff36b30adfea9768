"""A session that says what a test gives it, and notes what it is asked."""

from __future__ import annotations

from pathlib import Path

from ocria_tui.messages import DocumentQueued, PageImage
from PIL import Image, ImageDraw

from ocria.events import (
    DocumentDone,
    DocumentStarted,
    EngineTick,
    LinesFound,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)
from ocria.runtime.acceptance import Acceptance


class FakeSession:
    """`say` what is to happen; the app drains it. `asked` holds its calls: names and arguments."""

    live = True

    def __init__(self, options=None, images: Path | None = None):
        self.options = dict(options or {})
        self.asked = []
        self._waiting = []
        self._images = images
        self.at = 0.0

    def say(self, *events, at=None):
        """Events at a time, which stands still where none is given."""
        self.at = self.at if at is None else at
        self._waiting.extend((self.at, event) for event in events)

    def start(self):
        self.asked.append(("start",))

    def drain(self):
        taken, self._waiting = self._waiting, []
        return taken

    def draw(self, path, page, width):
        self.asked.append(("draw", path, page, width))
        if self._images is not None:
            file = self._images / f"{page}-{width}.png"
            draw_page(file, width, page)
            self.say(PageImage(path, page, str(file), 595.0, 842.0))

    def close(self, timeout=10.0):
        self.asked.append(("close",))

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.asked.append((name, *arguments))


def draw_page(file, width, page):
    """A page with a picture and ten lines, which are where `boxes_of` says."""
    high = round(width * 842 / 595)
    image = Image.new("RGB", (width, high), "white")
    pen = ImageDraw.Draw(image)
    scale = width / 595
    pen.rectangle([60 * scale, 560 * scale, 300 * scale, 760 * scale], fill=(40 * (page % 6), 90, 200))
    for x0, y0, x1, y1 in boxes_of(10):
        pen.rectangle([x0 * scale, (y0 + 4) * scale, x1 * scale, (y1 - 4) * scale], fill=(30, 30, 30))
    image.save(file)


def boxes_of(lines):
    """Of lines from the top of an A4 page on, in points."""
    step = min(44.0, 700.0 / max(1, lines))
    return tuple((60.0, 60.0 + step * line, 535.0 - 60 * (line % 3), 56.0 + step * (line + 1)) for line in range(lines))


def tick(now=812.0, mean=640.0, running=4, waiting=3, drafts=True, **more):
    """An `EngineTick` with all its figures."""
    acceptance = Acceptance()
    for held in (0, 1, 1, 2, 4, 4, 4, 3) if drafts else ():
        acceptance.add("block", 4, held)
    known = {
        "accept_length": acceptance.accept_length, "acceptance": acceptance if drafts else None,
        "state_bytes": 48_000_000, "device_bytes": 1_230_000_000, "bytes_per_s": 9.1e9, "bandwidth_percent": 41.5,
        "pages_per_s": 1.25,
    }  # fmt: skip
    return EngineTick(mean, 2400.0, running, waiting, decode_tokens_per_last_s=now, **{**known, **more})


TEXTS = (
    "Annual report", "of the river authority", "Levels were measured daily", "at nine stations.",
    "The highest stood at", "4.31 m in March.", "Station   Level", "North     4.31", "South     2.07",
    "All others lay below.",
)  # fmt: skip
MARKDOWN = """# Annual report

of the river authority

Levels were measured daily at *nine* stations. The highest stood at 4.31 m in March.

| Station | Level |
| --- | ---: |
| North | 4.31 |
| South | 2.07 |

- All others lay below.
"""


def halfway(session, path="report.pdf", pages=12):
    """A document of which pages 1 to 3 are done, page 4 is being read and the rest waits, with two more documents."""
    session.say(DocumentQueued("first.pdf", (1, 2)), DocumentQueued(path, tuple(range(1, pages + 1))))
    session.say(DocumentQueued("next.pdf"))
    session.say(DocumentStarted("first.pdf", 2, 1, 3), at=0.5)
    for page in (1, 2):
        whole_page(session, "first.pdf", page)
    session.say(DocumentDone("first.pdf", "ok", 3.0), DocumentStarted(path, pages, 2, 3))
    for page, status in ((1, "ok"), (2, "blank"), (3, "failed")):
        whole_page(session, path, page, status)
    session.say(*begun(path, 4, len(TEXTS)))
    session.say(*(TextDelta(path, 4, line, TEXTS[line]) for line in range(5)), at=session.at + 1)
    session.say(TextDelta(path, 4, 5, TEXTS[5][:6]), at=session.at + 1)
    session.say(TokensAccepted("r", 40, path=path, page=4, unit=5), tick(now=700.0), tick())


def begun(path, page, lines):
    """What happens to a page until its text comes."""
    return [
        PageStarted(path, page),
        PageRouted(path, page, "model", "no text layer"),
        LinesFound(path, page, boxes_of(lines)),
        *(RequestSubmitted(f"{page}-{line}", 20, path, page, line) for line in range(lines)),
        *(PrefillDone(f"{page}-{line}", 20, 0.1, path, page, line) for line in range(lines)),
    ]


def whole_page(session, path, page, status="ok"):
    """A page from its beginning to its end, of a second and a half."""
    session.say(PageStarted(path, page), PageRouted(path, page, "model", "no text layer"))
    markdown = MARKDOWN if status == "ok" else ""
    tokens = 120 if status == "ok" else 0
    session.say(
        PageDone(path, page, status, "model", 1.5, tokens, markdown, 3.4 if tokens else None), at=session.at + 1.5
    )
