"""Books, office files and pictures of text, made on the spot."""

import io
import zipfile

_SCHEMAS = "http://schemas.openxmlformats.org"
_TYPES = {
    "docx": ("word/document.xml", "wordprocessingml.document"),
    "xlsx": ("xl/workbook.xml", "spreadsheetml.sheet"),
    "pptx": ("ppt/presentation.xml", "presentationml.presentation"),
}


def zipped(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def epub(*chapters):
    """Each chapter is the body of a page of XHTML."""
    ids = range(len(chapters))
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in ids)
    spine = "".join(f'<itemref idref="c{n}"/>' for n in ids)
    return zipped({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<rootfiles><rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "c.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="2.0" unique-identifier="i"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>T</dc:title></metadata><manifest>{items}</manifest>'
        f"<spine>{spine}</spine></package>",
        **{
            f"c{n}.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{chapters[n]}</body></html>' for n in ids
        },
    })  # fmt: skip


def docx(*paragraphs):
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    main = f'<w:document xmlns:w="{_SCHEMAS}/wordprocessingml/2006/main"><w:body>{body}</w:body></w:document>'
    return _office("docx", main, "", {})


def xlsx(*texts, in_place=False):
    """One column; the texts in the table of strings, as Excel writes them, or in their cells."""
    cell = '<c r="A{0}" t="inlineStr"><is><t>{1}</t></is></c>' if in_place else '<c r="A{0}" t="s"><v>{2}</v></c>'
    rows = "".join(f'<row r="{n + 1}">{cell.format(n + 1, text, n)}</row>' for n, text in enumerate(texts))
    strings = "".join(f"<si><t>{text}</t></si>" for text in texts)
    space = f'xmlns="{_SCHEMAS}/spreadsheetml/2006/main"'
    main = (
        f'<workbook {space} xmlns:r="{_SCHEMAS}/officeDocument/2006/relationships"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>'
    )
    parts = {
        "xl/worksheets/sheet1.xml": f"<worksheet {space}><sheetData>{rows}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst {space}>{strings}</sst>",
    }
    return _office("xlsx", main, "worksheet:worksheets/sheet1.xml sharedStrings:sharedStrings.xml", parts)


def pptx(*slides):
    """One text box a slide."""
    spaces = (
        f'xmlns:a="{_SCHEMAS}/drawingml/2006/main" xmlns:p="{_SCHEMAS}/presentationml/2006/main" '
        f'xmlns:r="{_SCHEMAS}/officeDocument/2006/relationships"'
    )
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="r{n + 1}"/>' for n in range(len(slides)))
    main = f"<p:presentation {spaces}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    parts = {
        f"ppt/slides/slide{n + 1}.xml": f"<p:sld {spaces}><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>{text}</a:t>"
        "</a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
        for n, text in enumerate(slides)
    }
    return _office("pptx", main, " ".join(f"slide:slides/slide{n + 1}.xml" for n in range(len(slides))), parts)


def _office(kind, main, related, parts):
    place, content_type = _TYPES[kind]
    folder, name = place.split("/")
    start = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    official = f"{_SCHEMAS}/officeDocument/2006/relationships"
    links = "".join(
        f'<Relationship Id="r{n + 1}" Type="{official}/{link.split(":")[0]}" Target="{link.split(":")[1]}"/>'
        for n, link in enumerate(related.split())
    )
    relations = f'{start}<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">{{}}</Relationships>'
    return zipped({
        "[Content_Types].xml": f'{start}<Types xmlns="{_SCHEMAS}/package/2006/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/'
        f'{place}" ContentType="application/vnd.openxmlformats-officedocument.{content_type}.main+xml"/></Types>',
        "_rels/.rels": relations.format(f'<Relationship Id="r1" Type="{official}/officeDocument" Target="{place}"/>'),
        f"{folder}/_rels/{name}.rels": relations.format(links),
        place: start + main,
        **{part: start + content for part, content in parts.items()},
    })  # fmt: skip
