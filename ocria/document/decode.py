"""Decode the pixels of image files: which kinds, how large, and what is left of damaged ones."""

from __future__ import annotations

import contextlib
import io
import math
import struct
import threading

import numpy as np
from PIL import Image, ImageFile, ImageOps

from ocria.errors import InputError

KINDS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "JPEG2000", "AVIF", "PPM")

# What Pillow's readers raise over damaged files.
DAMAGE = (
    OSError, ValueError, TypeError, LookupError, ArithmeticError, SyntaxError, EOFError, RuntimeError, struct.error,
    Image.DecompressionBombError,
)  # fmt: skip

# An A0 sheet at 600 dots per inch has 560 million pixels: that much is decoded of black and white or grey, and a
# quarter of a thousand million of colour.
_MOST_DECODED = 1 << 30  # bytes
# What is handed on, as of PDF pages.
_MOST_PIXELS = 40_000_000
_ONE_BYTE = ("1", "L")

# Pillow asks a variable of its module whether to accept missing data.
_SALVAGE = threading.Lock()


def open_image(content: bytes, path: str) -> Image.Image:
    """An image whose pixels are not decoded yet. Pillow's own limit on the size is left out: see `decode`.

    Raises:
        InputError: of no supported kind, or without a readable header.
    """
    if is_heif(content):
        return _open_heif(content, path)
    Image.init()
    for kind in KINDS:
        factory, accept = Image.OPEN.get(kind, (None, None))
        if factory is not None and accept(content[:16]) is True:
            try:
                return factory(io.BytesIO(content), "")
            except DAMAGE as error:
                raise InputError(f"not a readable image of the kind {kind} ({error})", path=path) from error
    raise InputError(
        "not a document or image of a supported kind",
        path=path,
        cure=f"Supported: PDF, {', '.join(KINDS)}, HEIC, and books and office files; print others to a PDF",
    )


def stated_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of an image as its header has it, of a TIFF those of its largest page; None where it is no
    readable image."""
    try:
        with open_image(content, "") as image:
            largest = image.size
            if image.format == "TIFF":
                with contextlib.suppress(*DAMAGE):  # also EOFError, behind the last page
                    while True:
                        image.seek(image.tell() + 1)
                        largest = max(largest, image.size, key=math.prod)
            return largest
    except (InputError, *DAMAGE):
        return None


def decode(image: Image.Image, path: str) -> tuple[Image.Image, float]:
    """Decode the current frame.

    Returns:
        RGB on white, upright by its EXIF entry and of 40 million pixels at most, and by how much a side was shrunk
        (1 or less).

    Raises:
        InputError: too large to be decoded.
        Exception: one of `DAMAGE`, for data that is corrupt.
    """
    width, height = image.size
    scale = min(1.0, math.sqrt(_MOST_PIXELS / max(1, width * height)))
    _refuse_absurd(image, path)
    if scale < 1 and image.format in ("JPEG", "MPO"):
        image.draft(None, (math.ceil(width * scale), math.ceil(height * scale)))
    image.load()
    frame = _polarity(image)
    if scale < 1 and frame.mode in (*_ONE_BYTE, "RGB", "CMYK"):
        frame = _shrunk(frame.convert("L") if frame.mode == "1" else frame, width, height, scale)
    frame = on_white(_upright(frame))
    if frame.width * frame.height > _MOST_PIXELS:
        frame = _shrunk(frame, frame.width, frame.height, scale)
    return frame, max(frame.size) / max(width, height)


def salvage(content: bytes, path: str) -> tuple[Image.Image, float] | None:
    """What can be read of a damaged image, as `decode` gives it, the rest white; None where nothing can."""
    with _SALVAGE:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            image = open_image(content, path)
            frame, scale = decode(image, path)
        except DAMAGE:
            return None
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False
    pixels = np.array(frame)
    whole = _missing_rows_white(pixels) and _missing_rows_white(pixels[::-1])
    return (Image.fromarray(pixels), scale) if whole else None


def on_white(image: Image.Image) -> Image.Image:
    """As RGB, greys of more than 8 bits scaled to 8. What is transparent is white, or black under print that would
    not show on white."""
    if image.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
        values = np.nan_to_num(np.asarray(image).astype(np.float32))
        # Scanners store 10, 12 or 14 bits in words of 16.
        most = float(values.max(initial=0))
        top = 1.0 if image.mode == "F" and most <= 1 else float(max(255, 2 ** int(most).bit_length() - 1))
        return Image.fromarray((values.clip(0, top) * (255 / top)).astype(np.uint8)).convert("RGB")
    if image.mode == "LAB":
        return image.getchannel("L").convert("RGB")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, "black" if _is_light_print(layered) else "white")
        return Image.alpha_composite(paper, layered).convert("RGB")
    return image.convert("RGB")


def _is_light_print(layered: Image.Image) -> bool:
    """Whether all that shows of an RGBA image is light and most of it shows nothing."""
    shows = np.asarray(layered.getchannel("A")) > 127
    light = np.asarray(layered.convert("RGB").convert("L"))[shows]
    return 0 < light.size < shows.size / 2 and int(light.min()) > 160


def is_heif(content: bytes) -> bool:
    """Whether it is a HEIC or HEIF image: a box file that names one of its kinds and not AVIF first."""
    brands = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
    return content[4:8] == b"ftyp" and content[8:12] in brands and b"avif" not in content[16:64]


def _open_heif(content: bytes, path: str) -> Image.Image:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise InputError(
            "a HEIC image, which needs another package", path=path, cure="Install it with `pip install 'ocria[heic]'`"
        ) from None
    try:
        return HeifImageFile(io.BytesIO(content))
    except DAMAGE as error:
        raise InputError(f"not a readable HEIC image ({error})", path=path) from error


def _refuse_absurd(image: Image.Image, path: str) -> None:
    """Refuse by what the header says, before memory is taken. JPEG can be decoded at an eighth of its size, but a
    progressive one is kept whole meanwhile."""
    pixels = image.width * image.height
    if image.format in ("JPEG", "MPO") and not image.info.get("progressive"):
        pixels //= 64
    if pixels * (1 if image.mode in _ONE_BYTE else 4) > _MOST_DECODED:
        raise InputError(
            f"an image of {image.width} x {image.height} pixels is too large",
            path=path,
            cure="Scale it down or cut it into pages",
        )


def _polarity(image: Image.Image) -> Image.Image:
    """What Pillow takes for granted: CMYK is stored inverted, as Adobe does and says in a marker; 16-bit greys count
    up from black."""
    if image.format in ("JPEG", "MPO") and image.mode == "CMYK" and "adobe" not in image.info:
        return image.point(lambda value: 255 - value)
    if image.format == "TIFF" and image.mode == "I;16" and image.tag_v2.get(262) == 0:  # WhiteIsZero
        return Image.fromarray(65535 - np.asarray(image))
    return image


def _upright(image: Image.Image) -> Image.Image:
    """Turned by its EXIF entry; one that cannot be read turns nothing."""
    try:
        return ImageOps.exif_transpose(image)
    except DAMAGE:
        return image


def _shrunk(image: Image.Image, width: int, height: int, scale: float) -> Image.Image:
    size = (max(1, int(width * scale)), max(1, int(height * scale)))
    return image.resize(size, Image.Resampling.BOX) if size != image.size else image


def _missing_rows_white(pixels: np.ndarray) -> bool:
    """Rows that were never decoded become white: those at the end that hold one and the same value, and, for kinds
    that store every second row first, black ones. uint8 [H, W, 3]; False where no row is left."""
    same = (pixels == pixels[-1, -1]).all(axis=(1, 2))[::-1]
    count = len(same) if same.all() else int(same.argmin())
    pixels[len(same) - count :] = 255
    pixels[~pixels.any(axis=(1, 2))] = 255
    return count < len(same)
