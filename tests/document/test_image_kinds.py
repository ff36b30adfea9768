"""Image files as people have them: odd kinds, polarities, sizes and damages."""

import io
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest
from made import draw_lines
from PIL import Image

import ocria.document.decode as decode
from ocria.document.source import open_source
from ocria.errors import InputError

LINES = ["one line of print", "and a second one", "and the third line"]


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def pixels_of(content, number=1):
    return open_source(content).page(number).render(None)


def away(pixels, printed):
    """Mean distance of the pixels from the page as it was printed."""
    assert pixels.shape == (*printed.size[::-1], 3)
    return np.abs(pixels.astype(int).mean(axis=2) - np.asarray(printed)).mean()


@pytest.fixture
def printed():
    return Image.fromarray(draw_lines(LINES, size=(620, 877), font_size=24))


@pytest.mark.parametrize("kind", ["GIF", "BMP", "JPEG2000", "AVIF", "PPM"])
def test_more_kinds(kind, printed):
    image = printed.convert("RGB") if kind == "AVIF" else printed
    source = open_source(saved(image, kind))
    assert source.page_count == 1
    assert not source.repaired
    # AVIF is lossy.
    assert away(source.page(1).render(None), printed) < 2


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_its_first_picture(kind, printed):
    others = [Image.new("L", printed.size, value) for value in (0, 90)]
    source = open_source(saved(printed, kind, save_all=True, append_images=others))
    assert source.page_count == 1
    assert away(source.page(1).render(None), printed) < 2


def test_of_a_camera_s_file_with_several_pictures_the_main_one_counts(printed):
    content = saved(printed, "MPO", save_all=True, append_images=[Image.new("L", (50, 50))])
    source = open_source(content)
    assert source.page_count == 1
    assert away(source.page(1).render(None), printed) < 3


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_exif_turn(turn, kind, printed):
    # What undoes the turn that the entry asks for.
    undo = (None, None, 0, 3, 1, 5, 2, 6, 4)[turn]
    stored = printed if undo is None else printed.transpose(Image.Transpose(undo))
    exif = Image.Exif()
    exif[0x0112] = turn
    source = open_source(saved(stored, kind, exif=exif, quality=95))
    assert away(source.page(1).render(None), printed) < 3
    assert source.page(1).look().height > source.page(1).look().width


def test_turns_of_single_frames_of_a_tiff(printed):
    turned = printed.transpose(Image.Transpose.ROTATE_90)
    turned.encoderinfo = {"tiffinfo": {274: 6}}
    source = open_source(saved(printed, "TIFF", save_all=True, append_images=[turned, printed]))
    assert source.page_count == 3
    for number in (2, 1, 3, 2):
        assert away(source.page(number).render(None), printed) == 0


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_an_exif_entry_that_is_rubbish_turns_nothing(printed):
    content = saved(printed, "JPEG", quality=95, exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xf0rubbish")
    assert away(pixels_of(content), printed) < 3


def test_progressive_and_grey_jpegs(printed):
    for image in (printed, printed.convert("RGB")):
        assert away(pixels_of(saved(image, "JPEG", progressive=True, quality=95)), printed) < 3


def test_cmyk_with_and_without_the_marker_of_adobe(printed):
    cmyk = printed.convert("RGB").convert("CMYK")
    adobe = saved(cmyk, "JPEG", quality=95)
    assert b"Adobe" in adobe
    assert away(pixels_of(adobe), printed) < 3
    # Without the marker ink is stored as ink: Pillow writes it inverted, so that it is inverted before.
    stored = saved(cmyk.point(lambda value: 255 - value), "JPEG", quality=95)
    at = stored.index(b"\xff\xee")
    size = int.from_bytes(stored[at + 2 : at + 4], "big")
    assert away(pixels_of(stored[:at] + stored[at + 2 + size :]), printed) < 3


@pytest.mark.parametrize("compression", [None, "group3", "group4", "packbits", "tiff_lzw", "tiff_adobe_deflate"])
@pytest.mark.parametrize("white_is_zero", [False, True])
def test_bilevel_tiffs_of_either_polarity(compression, white_is_zero, printed):
    bilevel = printed.point(lambda value: 255 * (value > 128)).convert("1")
    # Pillow inverts what it writes as white-is-zero; the fax kinds it writes so anyway.
    content = saved(bilevel, "TIFF", compression=compression, tiffinfo={262: 0 if white_is_zero else 1})
    assert np.median(pixels_of(content)) == 255
    assert away(pixels_of(content), bilevel.convert("L")) < 0.1


def tiff(pixels, photometric, order="<"):
    """An uncompressed TIFF of one strip written by hand: uint8 or uint16 [H, W]."""
    height, width = pixels.shape
    bits = 8 * pixels.itemsize
    data = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    entries = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 8 + 2 + 8 * 12 + 4),
               (278, height), (279, len(data))]  # fmt: skip
    content = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIH", 42, 8, len(entries))
    for tag, value in entries:
        content += struct.pack(order + "HHII", tag, 4, 1, value)
    return content + struct.pack(order + "I", 0) + data


@pytest.mark.parametrize(
    ("bits", "order", "white_is_zero"),
    [
        *((bits, order, False) for bits in (8, 10, 12, 16) for order in "<>"),
        *((8, order, True) for order in "<>"),
        (16, "<", True),
    ],
)
def test_greys_of_any_depth_and_polarity(bits, order, white_is_zero, printed):
    values = (np.asarray(printed).astype(np.uint32) * (2**bits - 1) // 255).astype(np.uint16)
    if white_is_zero:
        values = 2**bits - 1 - values
    content = tiff(values.astype(np.uint8) if bits == 8 else values, 0 if white_is_zero else 1, order)
    assert away(pixels_of(content), printed) < 1


def test_palettes_with_and_without_transparency(printed):
    palette = printed.convert("P")
    assert away(pixels_of(saved(palette, "TIFF")), printed) < 1
    white = palette.getpixel((0, 0))
    for kind in ("PNG", "GIF"):
        assert away(pixels_of(saved(palette, kind, transparency=white)), printed) < 1


@pytest.mark.parametrize("ink", [0, 90, 220, 255])
def test_print_on_nothing_shows(ink, printed):
    layered = Image.new("LA", printed.size, (ink, 0))
    layered.putalpha(printed.point(lambda value: 255 - value))
    page = open_source(saved(layered, "PNG")).page(1)
    pixels = page.render(None)
    assert int(pixels.max()) - int(pixels.min()) >= 160
    # Light print stands on black, which the reader turns.
    assert (np.median(pixels) == 0) == (ink > 160)
    assert not page.look().blank


def test_a_light_sheet_that_was_cut_out_stays_on_white():
    layered = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    layered.paste((250, 250, 250, 255), (20, 20, 180, 280))
    layered.paste((0, 0, 0, 255), (60, 60, 90, 70))
    pixels = pixels_of(saved(layered, "PNG"))
    assert pixels[0, 0, 0] == 255
    assert pixels[65, 75, 0] == 0


def test_lab_and_float(printed):
    lab = Image.merge("LAB", [printed, Image.new("L", printed.size, 128), Image.new("L", printed.size, 128)])
    assert away(pixels_of(saved(lab, "TIFF")), printed) < 1
    unit = Image.fromarray(np.asarray(printed).astype(np.float32) / 255)
    assert away(pixels_of(saved(unit, "TIFF")), printed) < 1


def test_frames_of_different_sizes_and_modes():
    frames = [Image.new("1", (70, 90), 1), Image.new("RGB", (40, 50), "red"), Image.new("L", (33, 20), 7)]
    source = open_source(saved(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    shapes = [source.page(number).render(None).shape for number in (1, 2, 3)]
    assert shapes == [(90, 70, 3), (50, 40, 3), (20, 33, 3)]
    assert source.page(2).render(None)[0, 0].tolist() == [255, 0, 0]


def test_a_broken_frame_among_whole_ones():
    frames = [Image.fromarray(np.random.default_rng(n).integers(0, 255, (80, 60), np.uint8)) for n in range(3)]
    options = {"save_all": True, "append_images": frames[1:], "compression": "tiff_adobe_deflate"}
    content = bytearray(saved(frames[0], "TIFF", **options))
    with Image.open(io.BytesIO(content)) as image:
        image.seek(1)
        (start,), (size,) = image.tag_v2[273], image.tag_v2[279]
    content[start : start + size] = b"\xaa" * size
    source = open_source(bytes(content))
    assert source.page_count == 3
    with pytest.raises(InputError, match="image 2 is corrupt"):
        source.page(2).render(None)
    for number in (1, 3):
        assert away(source.page(number).render(None), frames[number - 1]) == 0


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "progressive", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.4, 0.7])
def test_of_a_cut_off_image_the_rest_is_read_on_white(kind, share):
    page = Image.fromarray(draw_lines([f"line {n} of a full page of print" for n in range(13)], (620, 877), 24, 40, 62))
    options = {"progressive": True} if kind == "progressive" else {}
    content = saved(page, "JPEG" if kind == "progressive" else kind, **options)
    with warnings.catch_warnings(action="ignore"):
        source = open_source(content[: int(len(content) * share)])
    assert source.repaired
    pixels = source.page(1).render(None).astype(int).mean(axis=2)
    assert pixels.shape == (877, 620)
    # What is missing is paper; a progressive image is whole and coarse.
    assert np.median(pixels) > 240
    read = (np.abs(pixels - np.asarray(page)).mean(axis=1) < 20).mean()
    assert read > 0.6


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "JPEG2000", "GIF", "BMP", "TIFF", "AVIF", "PPM"])
def test_cut_off_anywhere_is_a_typed_error_or_a_repaired_page(kind, printed):
    content = saved(printed.resize((155, 219)).convert("RGB"), kind)
    ends = np.random.default_rng(3).integers(1, len(content) - 1, 25)
    for end in [*ends.tolist(), 5, 12, 30]:
        try:
            with warnings.catch_warnings(action="ignore"):
                source = open_source(content[:end])
                source.page(1).look()
        except InputError:
            continue
        # The last bytes of some kinds hold nothing of the picture.
        assert source.repaired or away(source.page(1).render(None), printed.resize((155, 219))) < 3, end


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "JPEG2000"])
def test_damage_anywhere_is_no_other_error(kind, printed):
    content = saved(printed.resize((155, 219)), kind)
    rng = np.random.default_rng(5)
    for _ in range(25):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[rng.integers(0, len(content), 8)] = rng.integers(0, 256, 8)
        with warnings.catch_warnings(action="ignore"):
            try:
                source = open_source(damaged.tobytes())
                for number in range(1, min(3, source.page_count) + 1):
                    source.page(number).look()
            except InputError:
                continue


def png(width, height, rows=b""):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(0, 0), (0, 10), (10, 0)])
def test_no_pixels_at_all(size):
    with pytest.raises(InputError):
        open_source(png(*size))


def test_an_absurd_size_is_refused_by_what_the_header_says():
    with pytest.raises(InputError, match="100000 x 100000 pixels is too large"):
        open_source(png(100_000, 100_000, bytes(1000)))


def test_a_huge_image_is_shrunk(monkeypatch, printed):
    """The limits, at a scale that needs no memory; the resolution is that of the sheet all the same."""
    monkeypatch.setattr(decode, "_MOST_PIXELS", 620 * 877 // 9)
    modes = {"PNG": ("L", "P", "RGBA"), "JPEG": ("L", "RGB", "CMYK"), "TIFF": ("1", "LA")}
    for kind, mode in [(kind, mode) for kind, those in modes.items() for mode in those]:
        image = (printed.convert("RGB") if mode == "CMYK" else printed).convert(mode)
        page = open_source(saved(image, kind, dpi=(80, 80))).page(1)
        pixels = page.render(None)
        assert pixels.shape[0] * pixels.shape[1] <= 620 * 877 // 9, (kind, mode)
        assert pixels.shape[0] / pixels.shape[1] == pytest.approx(877 / 620, rel=0.02)
        assert pixels.mean() == pytest.approx(np.asarray(printed).mean(), abs=4)
        assert page.look().height == pytest.approx(877 * 72 / 80, rel=0.01)


def test_photos_beyond_the_limit_of_pillow_are_read():
    """200 million pixels, as telephones take: decoded at half the size."""
    content = saved(Image.new("L", (16320, 12240), 200), "JPEG")
    assert Image.MAX_IMAGE_PIXELS < 16320 * 12240 / 2
    with warnings.catch_warnings(action="error"):
        pixels = pixels_of(content)
    assert 38_000_000 < pixels.shape[0] * pixels.shape[1] <= 40_000_000


def test_a_long_screenshot_is_no_blank_strip():
    pixels = draw_lines([f"message {n} of a long list" for n in range(300)], size=(700, 18200))
    facts = open_source(saved(Image.fromarray(pixels), "PNG")).page(1).look()
    assert not facts.blank
    assert facts.width >= 200


def test_heic_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for brand in (b"heic", b"mif1", b"heix"):
        with pytest.raises(InputError, match=r"ocria\[heic\]"):
            open_source(b"\0\0\0\x18ftyp" + brand + b"\0\0\0\0mif1heic" + bytes(40))


def test_heic(printed):
    heif = pytest.importorskip("pillow_heif")
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    heif.from_pillow(printed.convert("RGB").rotate(90, expand=True)).save(stream, quality=90, exif=exif.tobytes())
    content = stream.getvalue()
    assert away(pixels_of(content), printed) < 3
    for end in range(20, len(content) - 1, len(content) // 5):
        try:
            source = open_source(content[:end])
        except InputError:
            continue
        assert source.repaired


def test_a_frame_that_claims_an_absurd_size_is_a_fault_of_its_page():
    stream = io.BytesIO()
    frames = [Image.new("L", (300, 200), 255) for _ in range(2)]
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    content = bytearray(stream.getvalue())
    (first,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, first)
    (second,) = struct.unpack_from("<I", content, first + 2 + 12 * count)
    for entry in range(second + 2, second + 2 + 12 * struct.unpack_from("<H", content, second)[0], 12):
        if struct.unpack_from("<H", content, entry)[0] in (256, 257):  # width and length
            struct.pack_into("<HII", content, entry + 2, 4, 1, 20_000)
    source = open_source(bytes(content))
    assert source.page_count == 2
    source.page(1).look()
    with pytest.raises(InputError):
        source.page(2).look()
