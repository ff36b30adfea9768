"""Tiny files of every kind with many features, and ways to damage them."""

import io
import random
import re
import zipfile
import zlib

import numpy as np
import pymupdf
from made_files import docx, epub, pptx, xlsx, zipped
from PIL import Image, ImageDraw

_SIDE = 96  # points and pixels: small pages are drawn fast


def corpus(draw):
    """(name, bytes) of every seed; `draw` is a `random.Random`."""
    picture = _picture(draw)
    return [*_pdfs(picture), *_images(picture), *_archives(picture), *_texts()]


def mutate(draw, name, content, others):
    """A damaged copy of a file: one to three faults, in a member of an archive or in the file as it is."""
    if content[:2] == b"PK" and draw.random() < 0.6:
        return _mutated_member(draw, content, others)
    for _ in range(draw.randint(1, 3)):
        content = draw.choice(_FAULTS)(draw, content, others)
    return content


def _flip(draw, content, others):
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8, 40))):
        if damaged:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def _cut_end(draw, content, others):
    return content[: draw.randint(0, len(content))]


def _cut_middle(draw, content, others):
    start = draw.randint(0, len(content))
    return content[:start] + content[start + draw.choice((1, 2, 16, 200)) :]


def _splice(draw, content, others):
    other = draw.choice(others)
    return content[: draw.randint(0, len(content))] + other[draw.randint(0, len(other)) :]


def _repeat(draw, content, others):
    start = draw.randint(0, len(content))
    chunk = content[start : start + draw.choice((1, 4, 64, 500))]
    return content[:start] + chunk * draw.choice((2, 3, 50)) + content[start + len(chunk) :]


def _blank(draw, content, others):
    start, size = draw.randint(0, len(content)), draw.choice((1, 4, 64))
    return content[:start] + draw.choice((b"\0", b"\xff", b" ")) * size + content[start + size :]


def _number(draw, content, others):
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not places:
        return _integer(draw, content, others)
    place = draw.choice(places)
    return content[: place.start()] + draw.choice(_NUMBERS) + content[place.end() :]


def _integer(draw, content, others):
    size = draw.choice((1, 2, 4, 8))
    start = draw.randint(0, max(0, len(content) - size))
    value = draw.choice((0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1))
    return content[:start] + value.to_bytes(size, draw.choice(("big", "little"))) + content[start + size :]


def _token(draw, content, others):
    start = draw.randint(0, len(content))
    return content[:start] + draw.choice(_TOKENS) + content[start + draw.choice((0, 0, 8)) :]


def _swap_token(draw, content, others):
    places = list(re.finditer(rb"/[A-Za-z]+|\b(obj|endobj|stream|endstream|Tj|cm|Tf|re|Do|xref|trailer|R)\b", content))
    if not places:
        return _token(draw, content, others)
    place = draw.choice(places)
    return content[: place.start()] + draw.choice(_TOKENS) + content[place.end() :]


_FAULTS = (
    _flip, _flip, _cut_end, _cut_middle, _splice, _repeat, _blank, _number, _number, _integer, _token, _swap_token,
    _swap_token,
)  # fmt: skip
_NUMBERS = (
    b"0", b"-1", b"1", b"7", b"65536", b"2147483647", b"-2147483648", b"4294967296", b"99999999999999999999", b"1e9",
    b"0.0000001", b"-0.5", b"1000000", b"nan", b"255", b"1" + b"0" * 60,
)  # fmt: skip
_TOKENS = (
    b"<<", b">>", b"[", b"]", b"(", b")", b"<", b">", b"/", b"null", b"true", b"1 0 R", b"2 0 R", b"3 0 R", b"5 0 R",
    b"0 0 R", b"999999 0 R", b"/Kids", b"/Count", b"/Length", b"/Type", b"/Page", b"/Pages", b"/Parent", b"/Contents",
    b"/Resources", b"/MediaBox", b"/CropBox", b"/Rotate 45", b"/UserUnit 1e6", b"/Filter/FlateDecode", b"/Filter",
    b"/Predictor 15", b"/Columns 99999999", b"/DCTDecode", b"/JPXDecode", b"/CCITTFaxDecode", b"/JBIG2Decode",
    b"/LZWDecode", b"/ASCII85Decode", b"/Encrypt 4 0 R", b"/ObjStm", b"/XRef", b"/W [1 9 9]", b"/Index [0 99999999]",
    b"/Size 999999999", b"/Prev 0", b"/Root 1 0 R", b"/Font", b"/Subtype/Type3", b"/ToUnicode", b"/SMask", b"endobj",
    b"endstream", b"stream\n", b"xref\n0 9\n", b"trailer<<>>", b"startxref\n0\n%%EOF", b"q q q q q q q q", b"Q Q Q",
    b"BT", b"ET", b"BI ID EI", b"Do", b"sh", b"/Pattern cs /P scn", b"1e30 0 0 1e30 0 0 cm", b"0 0 0 0 0 0 cm",
    b"-1e9 -1e9 2e9 2e9 re f", b"/F1 99999 Tf", b"3 Tr", b"W n", b"\0\0\0\0", b"\xff\xd8", b"\xff\xff", b"&#x0;",
    b"<!ENTITY a '&a;&a;'>", b"&a;", b"</p>", b"<p", b"<table><tr><td colspan=99999999>", b"PK\x03\x04", b"%PDF-1.7",
)  # fmt: skip


def _mutated_member(draw, content, others):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist()}
    name = draw.choice(list(files))
    if draw.random() < 0.1:
        del files[name]
    else:
        files[name] = draw.choice(_FAULTS)(draw, files[name], others)
    return zipped(files)


def _picture(draw):
    image = Image.new("RGB", (_SIDE, _SIDE), "white")
    drawing = ImageDraw.Draw(image)
    for row in range(4):
        drawing.text((6, 6 + 20 * row), "".join(draw.choice("abcdefgh ") for _ in range(12)), fill="black")
    drawing.rectangle((60, 60, 90, 90), fill=(200, 30, 60))
    return image


def _saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _images(picture):
    gray, bits = picture.convert("L"), picture.convert("1")
    alpha, wide = picture.convert("RGBA"), Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)
    frames = {"save_all": True, "append_images": [bits, gray]}
    for number, image in enumerate((picture, gray, bits, alpha, picture.convert("P"), wide, gray.convert("LA"))):
        yield f"{number}.png", _saved(image, "PNG")
    for number, image in enumerate((picture, gray, picture.convert("CMYK"))):
        yield f"{number}.jpg", _saved(image, "JPEG", quality=60)
    yield "progressive.jpg", _saved(picture, "JPEG", progressive=True, dpi=(300, 300))
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield f"{compression}.tif", _saved(picture, "TIFF", compression=compression)
    for compression in ("group3", "group4"):
        yield f"{compression}.tif", _saved(bits, "TIFF", compression=compression)
    for number, image in enumerate((wide, alpha, *map(picture.convert, ("CMYK", "LAB", "P")))):
        yield f"{number}.tif", _saved(image, "TIFF")
    yield "many.tif", _saved(gray, "TIFF", compression="tiff_lzw", **frames)
    yield "many.gif", _saved(picture.convert("P"), "GIF", **frames)
    yield "one.gif", _saved(gray, "GIF")
    yield "lossy.webp", _saved(picture, "WEBP")
    yield "lossless.webp", _saved(alpha, "WEBP", lossless=True)
    yield "many.webp", _saved(picture, "WEBP", **frames)
    for number, image in enumerate((picture, bits, picture.convert("P"))):
        yield f"{number}.bmp", _saved(image, "BMP")
    yield "a.jp2", _saved(picture, "JPEG2000")
    yield "a.avif", _saved(picture, "AVIF")
    yield "a.ppm", _saved(picture, "PPM")


def _archives(picture):
    images = {f"p{n}.{kind.lower()}": _saved(picture, kind) for n, kind in enumerate(("PNG", "JPEG", "GIF"))}
    yield "a.cbz", zipped(images)
    yield "a.epub", epub("<h1>One</h1><p>Some <b>bold</b> text</p>", "<table><tr><td>1</td><td>2</td></tr></table>")
    yield "a.docx", docx("A first paragraph", "and a second one")
    yield "a.xlsx", xlsx("one", "two", "three")
    yield "a.pptx", pptx("A slide", "Another slide")


def _texts():
    yield "a.html", (
        b"<html><head><style>p{color:red}</style></head><body><h1>Title</h1><p>Text<ul><li>a</ul></body></html>"
    )
    yield "a.svg", (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><rect x="5" y="5" width="40" height="30"/>'
        b'<text x="9" y="60">words</text><path d="M 1 1 L 50 50 C 1 2 3 4 5 6 Z" fill="url(#g)"/></svg>'
    )
    yield "a.fb2", (
        b'<?xml version="1.0"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"><body><section>'
        b"<p>A book</p></section></body></FictionBook>"
    )


def _pdfs(picture):
    """PDFs by MuPDF, most of them not compressed so that faults reach what is inside, and some by hand."""
    for name, pdf in (
        ("text", _text_pdf()), ("image", _image_pdf(picture)), ("forms", _form_pdf()), ("drawn", _drawn_pdf()),
    ):  # fmt: skip
        yield f"{name}.pdf", pdf.tobytes(garbage=3)
        yield f"{name}-packed.pdf", pdf.tobytes(garbage=3, deflate=True, use_objstms=1)
        for kind in (pymupdf.PDF_ENCRYPT_RC4_40, pymupdf.PDF_ENCRYPT_RC4_128, pymupdf.PDF_ENCRYPT_AES_128):
            yield f"{name}-{kind}.pdf", pdf.tobytes(garbage=3, encryption=kind, owner_pw="o", user_pw="")
        yield f"{name}-aes.pdf", pdf.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="o", user_pw="u")
    for name, objects in _HAND_MADE.items():
        yield f"{name}.pdf", hand_made(*objects)


def _text_pdf():
    pdf = pymupdf.open()
    for turn in (0, 90):
        page = pdf.new_page(width=_SIDE, height=_SIDE + 20)
        page.insert_text((6, 20), "Some words of text", fontsize=8)
        page.insert_text((6, 40), "in other letters", fontsize=7, fontname="tiit", render_mode=turn // 30)
        writer = pymupdf.TextWriter(page.rect)
        writer.append((6, 60), "embedded äöü", font=pymupdf.Font("cour"), fontsize=7)
        writer.write_text(page, opacity=0.9)
        page.set_rotation(turn)
    pdf.set_toc([[1, "One", 1], [1, "Two", 2]])
    pdf.subset_fonts()
    return pdf


def _image_pdf(picture):
    pdf = pymupdf.open()
    for stream in (
        _saved(picture, "JPEG"), _saved(picture.convert("RGBA"), "PNG"), _saved(picture, "JPEG2000"),
        _saved(picture.convert("1"), "TIFF", compression="group4"),
    ):  # fmt: skip
        page = pdf.new_page(width=_SIDE, height=_SIDE)
        page.insert_image(page.rect, stream=stream)
        page.set_cropbox(pymupdf.Rect(5, 5, _SIDE - 10, _SIDE))
    return pdf


def _form_pdf():
    pdf = pymupdf.open()
    page = pdf.new_page(width=_SIDE, height=_SIDE)
    for number, kind in enumerate((pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.PDF_WIDGET_TYPE_CHECKBOX)):
        widget = pymupdf.Widget()
        widget.field_type, widget.field_name, widget.field_value = kind, f"f{number}", "Yes"
        widget.rect = pymupdf.Rect(5, 5 + 30 * number, 60, 25 + 30 * number)
        page.add_widget(widget)
    page.add_highlight_annot(pymupdf.Rect(10, 70, 60, 80))
    page.add_freetext_annot(pymupdf.Rect(10, 70, 90, 90), "a note", fontsize=7)
    page.insert_link({"kind": pymupdf.LINK_URI, "from": pymupdf.Rect(1, 1, 9, 9), "uri": "http://a.example"})
    return pdf


def _drawn_pdf():
    pdf = pymupdf.open()
    page = pdf.new_page(width=_SIDE, height=_SIDE)
    shape = page.new_shape()
    shape.draw_bezier((5, 5), (40, 90), (60, 0), (90, 90))
    shape.finish(color=(1, 0, 0), dashes="[3 2] 0", width=2)
    shape.draw_circle((50, 50), 30)
    shape.finish(fill=(0, 0.5, 0), fill_opacity=0.4)
    shape.commit(overlay=True)
    for row in range(3):
        page.draw_line((5, 10 + 20 * row), (90, 10 + 20 * row))
        page.insert_text((8, 22 + 20 * row), f"cell {row}", fontsize=6)
    return pdf


def hand_made(*objects):
    """A PDF of these objects, numbered from 1, the first one being the catalog; bytes or (dictionary, stream)."""
    body = bytearray(b"%PDF-1.7\n")
    places = []
    for number, item in enumerate(objects, 1):
        places.append(len(body))
        if isinstance(item, tuple):
            entries, stream = item
            item = b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(stream), stream)
        body += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(body + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))


_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
_HAND_MADE = {
    "type3": (
        _CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 96 96]>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        (b"", b"BT /F1 12 Tf 10 50 Td (aaba) Tj ET"),
        b"<</Type/Font/Subtype/Type3/FontBBox[0 0 750 750]/FontMatrix[.001 0 0 .001 0 0]/CharProcs<</a 6 0 R>>"
        b"/Encoding<</Type/Encoding/Differences[97/a/a]>>/FirstChar 97/LastChar 98/Widths[1000 1000]>>",
        (b"", b"1000 0 0 0 750 750 d1 0 0 750 750 re f"),
    ),
    "nested": (
        _CATALOG, b"<</Type/Pages/Kids[7 0 R 3 0 R]/Count 3/Rotate 90>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 96 50]/Contents[4 0 R 4 0 R]/Resources<</XObject<</X 5 0 R>>"
        b"/ExtGState<</G<</ca .5/SMask<</S/Alpha/G 5 0 R>>>>>>/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica"
        b">>>>>>>>",
        (b"", b"q 1 0 0 1 5 5 cm /G gs /X Do Q BT /F1 9 Tf 5 30 Td [(He) -20 (llo)] TJ ET"),
        (b"/Type/XObject/Subtype/Form/BBox[0 0 50 50]/Resources<</Shading<</S 6 0 R>>/XObject<</Y 5 0 R>>>>",
         b"/S sh 0 0 20 20 re f /Y Do"),
        b"<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 50 50]/Function<</FunctionType 2/Domain[0 1]/C0[1 0 0]"
        b"/C1[0 0 1]/N 1>>/Extend[true true]>>",
        b"<</Type/Pages/Parent 2 0 R/Kids[8 0 R 8 0 R]/Count 2/MediaBox[0 0 60 60]>>",
        b"<</Type/Page/Parent 7 0 R/UserUnit 2>>",
    ),
    "inline": (
        _CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 96 96]/Contents 4 0 R/Resources<</ColorSpace<</I[/Indexed/DeviceRGB 1 "
        b"<ff000000ff00>]>>/Pattern<</P 5 0 R>>/Font<</F1 6 0 R>>>>>>",
        (b"", b"q 40 0 0 40 5 5 cm BI /W 8 /H 8 /BPC 1 /CS /I /F /AHx ID AA55AA55AA55AA55> EI Q /Pattern cs /P scn 50 "
         b"50 40 40 re f BT /F1 8 Tf 5 80 Td <00410042> Tj ET"),
        (b"/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 8 8]/XStep 8/YStep 8/Resources<<>>",
         b"1 0 0 rg 0 0 4 4 re f"),
        b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 7 0 R/DescendantFonts[<</Type/Font"
        b"/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>/DW 500>>]>>",
        (b"", b"/CIDInit/ProcSet findresource begin begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange 1 "
         b"beginbfrange <0041> <0042> <0061> endbfrange endcmap end"),
    ),
    "packed": (
        _CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 96 96]/Contents 4 0 R/Resources<</XObject<</A 5 0 R/B 6 0 R>>>>>>",
        (b"/Filter/FlateDecode", zlib.compress(b"40 0 0 40 5 5 cm /A Do 1 0 0 1 1 0 cm /B Do")),
        (b"/Type/XObject/Subtype/Image/Width 8/Height 8/BitsPerComponent 8/ColorSpace/DeviceGray/Filter[/FlateDecode]"
         b"/DecodeParms<</Predictor 15/Columns 8>>", zlib.compress(bytes(range(72)))),
        (b"/Type/XObject/Subtype/Image/Width 8/Height 8/BitsPerComponent 1/ImageMask true/Filter/CCITTFaxDecode"
         b"/DecodeParms<</K -1/Columns 8/Rows 8>>", b"\x26\xa0\x80\x80\x10\x01\x00\x10\x01"),
    ),
}  # fmt: skip


if __name__ == "__main__":
    for name, content in corpus(random.Random(0)):
        print(name, len(content))
