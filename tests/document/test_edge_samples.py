"""The sample faults: what each document must give is written beside it."""

import json

import pytest
from made import samples
from rapidfuzz.fuzz import partial_ratio

import ocria
from ocria.cli.parse import exit_code
from ocria.document.reader import Reader
from ocria.errors import OcriaError

# The page itself says "ffee" where "flee" is expected.
WRONG = {"ligatures.pdf"}
# A thousand pages take two minutes.
LONG = {"1000p.pdf"}


def cases():
    folder = samples()
    if folder is None:
        return [pytest.param(None, None, marks=pytest.mark.skip("no sample documents here: set OCRIA_SAMPLES"))]
    expected = json.loads((folder / "edge" / "expect.json").read_text(encoding="utf-8"))
    return [
        pytest.param(folder / "edge" / name.removesuffix("#password"), wanted, id=name[:40])
        for name, wanted in expected.items()
        if name not in WRONG | LONG
    ]


@pytest.fixture(scope="module")
def reader():
    return Reader()


@pytest.mark.parametrize(("path", "wanted"), cases())
def test_edge_sample(path, wanted, reader):
    names, values = wanted["args"][::2], wanted["args"][1::2]
    options = {name.removeprefix("--"): value for name, value in zip(names, values, strict=True)}
    options |= {"reader": reader, "jobs": 0}
    if wanted["exit"] not in (None, 0, 1, 3):
        with pytest.raises(OcriaError) as caught:
            ocria.parse(path, **options)
        assert caught.value.exit_code == wanted["exit"]
        return
    document = ocria.parse(path, **options)
    if wanted["exit"] is not None:
        assert exit_code(document) == wanted["exit"]
    markdown = " ".join(document.markdown.split())
    for text in wanted["contains"]:
        assert " ".join(text.split()) in markdown
    for text in wanted["absent"]:
        assert text not in document.markdown
    places = [markdown.find(text) for text in wanted["order"]]
    for line in wanted["ocr"]:
        assert partial_ratio(line, markdown) >= 85, line
    assert -1 not in places
    assert places == sorted(places)
    if wanted["pages"] is not None:
        assert len(document.pages) == wanted["pages"]
    if wanted["status"]:
        assert [page.status for page in document.pages] == wanted["status"]
