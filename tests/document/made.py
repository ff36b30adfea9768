"""Documents made on the spot and a reader without a model."""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image, ImageDraw, ImageFont

from ocria.document.reader import Delta, ReadText, Told
from ocria.document.result import ModelInfo
from ocria.events import EngineTick, PrefillDone, RequestSubmitted, TokensAccepted

REPOSITORY = Path(__file__).parents[2]
PARAGRAPH = [
    "The harbour master kept a ledger of every ship that",
    "called at the port, with the date, the cargo and the cap-",
    "tain's name, and he never let a well-known vessel pass.",
]


def samples():
    """The folder of sample documents, or None."""
    folder = Path(os.environ.get("OCRIA_SAMPLES", REPOSITORY.parent / "shared" / "samples"))
    return folder if folder.is_dir() else None


def draw_lines(lines, size=(1240, 1754), font_size=30, top=120, gap=60):
    """A page image uint8 [H, W] with printed lines."""
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(font_size)
    for row, line in enumerate(lines):
        draw.text((120, top + gap * row), line, font=font, fill=0)
    return np.asarray(image)


def scan_pdf(*pages, dpi=150):
    """Bytes of a PDF whose pages are nothing but these images."""
    pdf = pymupdf.open()
    for pixels in pages:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        height, width = pixels.shape[:2]
        page = pdf.new_page(width=width * 72 / dpi, height=height * 72 / dpi)
        page.insert_image(page.rect, stream=stream.getvalue())
    return pdf.tobytes()


@dataclass
class FakeReader:
    """Answers with the given texts in order, in two pieces each, telling what an engine would; keeps what it was
    given."""

    texts: list
    unit: str = "line"
    dialect: str = "markdown"
    box_scale: float | None = None
    model: ModelInfo = field(default_factory=lambda: ModelInfo("fake", "0"))
    seen: list = field(default_factory=list)
    guesses: list = field(default_factory=list)
    closed: bool = False

    def stream(self, images, guesses=None):
        self.seen.append(list(images))
        self.guesses.append(guesses)
        results = []
        try:
            for index in range(len(images)):
                answer = self.texts[index % len(self.texts)]
                if isinstance(answer, ReadText):
                    results.append(answer)
                    continue
                half = len(answer) // 2
                yield Told(index, RequestSubmitted(index, 8))
                yield Told(index, PrefillDone(index, 8, 0.1))
                yield Delta(index, answer[:half])
                yield Told(index, TokensAccepted(index, len(answer), 3, 2))
                yield Delta(index, answer[half:])
                yield EngineTick(100.0, 1000.0, 1, len(images) - index - 1)
                results.append(ReadText(answer, 0.9, "ok", 8, len(answer)))
        except GeneratorExit:
            self.closed = True
            raise
        return results
