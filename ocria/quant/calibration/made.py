"""Pages for the embedded model to calibrate on where the user gives none: drawn text, as scans of several qualities.

Sentences are made of common words in three languages, numbers and marks; what calibration needs of them is that the
vision encoder and the decoder see letters of all kinds and sizes. Pages of the user's own are better.
"""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image, ImageFilter

from ocria.model.hub import EMBEDDED

PAGES = 6
_WIDTH, _HEIGHT, _MARGIN = 595, 842, 60
_FONTS = ("helv", "tiro", "cour", "hebo", "tiit", "tibo")
"""Those that every PDF library brings along: sans, serif, typewriter, bold, italic, bold serif."""
_TEXT = """
the of and to in was that for with on as his at by from had not are but which one were all their when there
would been more who will some time water year keeper letter county journal station morning village harbour
Quarterly Jacob Xavier Zoë Lynx VAT ISBN Ltd. No. Fig. and/or e-mail cost price total amount invoice due date
der die und das nicht wird über für größer Straße Übung ähnlich Jahr Wasser zwölf Brief Höhe Maß
le la et que des été où façon élève près à château garçon leçon
"""
_ENDS = (".", ".", ".", ",", ",", ";", ":", "?", "!", " –")


def suit(model: str) -> bool:
    """Whether made pages will do for a model: for the embedded one, which reads lines of print."""
    return model in EMBEDDED


@contextmanager
def made_pages(seed: int = 0) -> Iterator[list[Path]]:
    """Paths of `PAGES` page images, the same for the same seed, until the block ends."""
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="ocria-pages-") as folder:
        paths = []
        for number in range(PAGES):
            paths.append(Path(folder) / f"page-{number + 1}.png")
            _scan(_page(generator, _FONTS[number % len(_FONTS)]), generator).save(paths[-1], compress_level=1)
        yield paths


def _page(generator: random.Random, font: str) -> Image.Image:
    """A page of lines of text, as an image at a random resolution."""
    size = generator.choice((9, 10, 11, 12, 14))
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=_WIDTH, height=_HEIGHT)
        y = float(_MARGIN)
        while y < _HEIGHT - _MARGIN:
            page.insert_text((_MARGIN, y), _line(generator, font, size), fontname=font, fontsize=size)
            y += 1.5 * size
        pixmap = page.get_pixmap(dpi=generator.choice((100, 150, 200)), colorspace=pymupdf.csGRAY)
        return Image.open(BytesIO(pixmap.tobytes("png"))).convert("L")


def _line(generator: random.Random, font: str, size: int) -> str:
    """Words, up to the right margin."""
    words, line = _TEXT.split(), ""
    left = _WIDTH - 2 * _MARGIN
    while True:
        word = generator.choice(words)
        if generator.random() < 0.15:
            number = generator.randrange(10000)
            word = generator.choice((f"{number}", f"{number / 100:.2f} €", f"({number})", f"{number % 100} %"))
        if generator.random() < 0.2:
            word = word.capitalize() + generator.choice(_ENDS)
        left -= pymupdf.get_text_length(f"{word} ", fontname=font, fontsize=size)
        if left < 0:
            return line
        line += f"{word} "


def _scan(image: Image.Image, generator: random.Random) -> Image.Image:
    """The page as a scanner may see it: a little blurred, grey, and noisy."""
    image = image.filter(ImageFilter.GaussianBlur(generator.uniform(0, 0.9)))
    noise = np.random.default_rng(generator.randrange(1 << 32)).normal(0, generator.uniform(0, 12), image.size[::-1])
    low, high = generator.uniform(0, 70), generator.uniform(210, 255)
    grey = low + np.asarray(image, dtype=np.float32) * (high - low) / 255 + noise
    return Image.fromarray(grey.clip(0, 255).astype(np.uint8))
