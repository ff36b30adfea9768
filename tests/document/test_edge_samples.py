"""The sample faults: what each document must give is written beside it."""

import json
import os
from pathlib import Path

import pytest
from made import samples
from rapidfuzz.fuzz import partial_ratio

import ocria
from ocria.cli.parse import exit_code
from ocria.document.reader import Reader
from ocria.errors import OcriaError

HERE = Path(__file__).parent / "edge"
# The page itself says "ffee" where "flee" is expected.
WRONG = {"ligatures.pdf"}
# A thousand pages take minutes.
LONG = {"1000p.pdf"} if not os.environ.get("OCRIA_LONG") else set()


def cases():
    expected = json.loads((HERE / "expect.json").read_text(encoding="utf-8"))
    for name, wanted in expected.items():
        file = name.removesuffix("#password")
        path = HERE / file
        if not path.exists() and samples() is not None:
            path = samples() / "edge" / file
        lacking = pytest.mark.skipif(not path.exists(), reason="kept with the real samples: set OCRIA_SAMPLES")
        long = pytest.mark.skipif(name in LONG, reason="takes minutes: set OCRIA_LONG=1")
        if name not in WRONG:
            yield pytest.param(path, wanted, id=name[:40], marks=[lacking, long])


@pytest.fixture(scope="module")
def reader():
    return Reader()


@pytest.mark.parametrize(("path", "wanted"), list(cases()))
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
