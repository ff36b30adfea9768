"""Documents as JSON and JSON Lines, and pages in the store of a batch."""

import copy
import json
from dataclasses import fields

import jsonschema
import pytest
from made import REPOSITORY
from random_documents import PIXEL, fresh, random_document, random_page

from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, Page
from ocria.document.write import figure_targets, page_from_dict, page_to_dict, render
from ocria.document.write.jsonl import jsonl_line
from ocria.errors import EncryptedError

SCHEMA = json.loads((REPOSITORY / "ocria/document/write/schema.json").read_text(encoding="utf-8"))
PAGE_SCHEMA = {**SCHEMA["$defs"]["page"], "$defs": SCHEMA["$defs"]}


@pytest.mark.parametrize("images", ["none", "placeholder", "embed", "extract"])
def test_random_documents_follow_the_schema(images):
    rng = fresh()
    check = jsonschema.Draft202012Validator(SCHEMA)
    for _ in range(20):
        document = random_document(rng)
        told = json.loads(render(document, "json", options=ParseOptions(images=images)))
        check.validate(told)
        assert [len(page["blocks"]) for page in told["pages"]] == [len(page.blocks) for page in document.pages]


def test_everything_of_a_block_and_a_page_is_told():
    rng = fresh()
    page = random_page(rng, 1)
    page.blocks = page.blocks or [Block("text", (0, 0, 1, 1), "a", "a", 0)]
    (told,) = json.loads(render(Document("a", 1, "0" * 64, [page]), "json"))["pages"]
    assert told.keys() == {field.name for field in fields(Page)}
    assert told["blocks"][0].keys() == {field.name for field in fields(Block)}


def test_pictures_bear_pixels_or_names_as_the_options_say():
    rng = fresh()
    document = random_document(rng, kinds=("picture",))
    while not any(block.picture for block in document.blocks):
        document = random_document(rng, kinds=("picture",))

    def pictures(images):
        told = json.loads(render(document, "json", options=ParseOptions(images=images)))
        return [block["picture"] for page in told["pages"] for block in page["blocks"] if block["picture"]]

    assert all(picture.keys() == {"media_type", "width", "height"} for picture in pictures("placeholder"))
    assert all(picture["data"].startswith("iVBOR") for picture in pictures("embed"))
    target = figure_targets(document, "naïve (file) 文")
    names = [target(page, block) for page in document.pages for block in page.blocks if block.picture]
    assert [picture["file"] for picture in pictures("extract")] == names
    assert len(set(names)) == len(names)


def test_why_a_document_was_not_read():
    error = EncryptedError("the PDF is encrypted", path="a.pdf", cure="Give its password")
    document = Document("a.pdf", 0, "", error=error)
    told = json.loads(render(document, "json"))
    jsonschema.validate(told, SCHEMA)
    assert told["status"] == "failed"
    assert told["error"] == {
        "type": "EncryptedError", "message": "the PDF is encrypted", "cure": "Give its password"
    }  # fmt: skip
    (line,) = map(json.loads, render(document, "jsonl").splitlines())
    assert line == {"schema_version": told["schema_version"], "document": "a.pdf", "error": told["error"], "page": None}


def test_lines_are_pages_and_each_is_whole():
    rng = fresh()
    check = jsonschema.Draft202012Validator(PAGE_SCHEMA)
    for _ in range(20):
        document = random_document(rng)
        text = render(document, "jsonl")
        lines = text.split("\n")
        assert lines.pop() == ""
        assert len(lines) == len(document.pages)
        whole = json.loads(render(document, "json"))
        for line, page, written in zip(lines, document.pages, whole["pages"], strict=True):
            told = json.loads(line)
            assert list(told) == ["schema_version", "document", "error", "page"]
            assert told["document"] == document.path
            assert told["page"] == written
            assert list(told["page"]) == list(written)
            check.validate(told["page"])
            assert jsonl_line(document.path, page) == line + "\n"


def test_a_stored_page_comes_back_as_it_was():
    rng = fresh()
    for _ in range(50):
        page = random_page(rng, rng.randint(1, 99))
        page.acceptance = rng.choice((None, {"steps": 1, "sources": {"lookup": {"steps": 1}}}))
        stored = json.dumps(page_to_dict(page))
        again = page_from_dict(json.loads(stored))
        assert again == page
        assert json.dumps(page_to_dict(again)) == stored
        for block, other in zip(again.blocks, page.blocks, strict=True):
            assert type(block.box) is type(other.box) is tuple
            assert block.picture is None or block.picture.data == PIXEL


def test_a_store_of_another_version_is_refused():
    rng = fresh()
    page = random_page(rng, 1)
    page.blocks = [Block("text", (0.0, 0.0, 1.0, 1.0), "a", "a", 0)]
    good = page_to_dict(page)
    assert page_from_dict(good) == page
    for change in (
        lambda d: d.update(colour=1),
        lambda d: d.pop("status"),
        lambda d: d["blocks"][0].update(colour=1),
        lambda d: d["blocks"][0].pop("order"),
        lambda d: d["blocks"][0].update(box=[1, 2, 3]),
        lambda d: d["blocks"][0].update(picture={"data": "!", "media_type": "image/png", "width": 1, "height": 1}),
        lambda d: d.update(index="1"),
        lambda d: d.update(index=True),
        lambda d: d.update(blocks=None),
        lambda d: d.update(width="wide"),
    ):
        bad = copy.deepcopy(good)
        change(bad)
        with pytest.raises(ValueError):
            page_from_dict(bad)
    with pytest.raises(ValueError):
        page_from_dict([])
