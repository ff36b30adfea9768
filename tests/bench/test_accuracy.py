"""The accuracy bench on made samples: groups, truths, the peer and its cache, the JSON document."""

import json
import shutil

import pymupdf
import pytest
from PIL import Image, ImageDraw, ImageFont

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

import accuracy
import samples
import tesseract

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Samples of three groups: a line image, a receipt, and a PDF of three pages, one with few words."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "samples" / "real"
    root.mkdir(parents=True)
    font = ImageFont.load_default(size=40)
    rows = []
    for name, group, truth in (("line", "lines_truth", "Seven brown foxes"), ("slip", "receipt_truth", "TOTAL 9.50")):
        image = Image.new("L", (520, 80), 255)
        ImageDraw.Draw(image).text((20, 12), truth, fill=0, font=font)
        image.save(root / f"{name}.png", dpi=(300, 300))
        (root / f"{name}.txt").write_text(truth, encoding="utf-8")
        rows.append({"path": f"{name}.png", "group": group, "truth": f"{name}.txt"})
    words = [f"word{number}" for number in range(150)]
    with pymupdf.open() as document:
        for count in (150, 3, 150):
            page = document.new_page()
            page.insert_textbox((40, 40, 555, 802), " ".join(words[:count]), fontsize=11)
        document.save(root / "made.pdf")
    rows += [{"path": "made.pdf", "group": "born"}, {"path": "x.pdf", "group": "nasty"}]
    (root / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return root


def test_samples_are_found_by_option_and_variable(folder, tmp_path, monkeypatch):
    assert samples.find_samples(str(folder)) == folder
    assert samples.find_samples(str(folder.parent)) == folder
    monkeypatch.setenv("OCRIA_SAMPLES", str(folder.parent))
    assert samples.find_samples() == folder
    with pytest.raises(samples.SamplesNotFound, match="OCRIA_SAMPLES"):
        samples.find_samples(str(tmp_path / "cache"))


def test_items_of_the_groups(folder):
    items = samples.load_items(folder, list(samples.GROUPS))
    assert [(item.group, item.name, item.page) for item in items] == [
        ("lines", "line.png", None),
        ("receipts", "slip.png", None),
        ("born", "made.pdf#1", 1),  # the second page has too few words, the third is past the limit
    ]
    assert [item.name for item in samples.load_items(folder, ["born"], pdf_pages=3)] == ["made.pdf#1", "made.pdf#3"]
    assert samples.load_items(folder, ["lines", "born"], limit=0) == []


def test_pdf_pages_are_rendered_once(folder, tmp_path):
    (item,) = samples.load_items(folder, ["born"])
    image = samples.image_file(item, tmp_path / "pages")
    with Image.open(image) as page:
        assert page.mode == "L"
        assert page.size == (round(595 / 72 * 200), round(842 / 72 * 200))
    before = image.stat().st_mtime_ns
    assert samples.image_file(item, tmp_path / "pages") == image
    assert image.stat().st_mtime_ns == before


def test_missing_peer_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(tesseract.shutil, "which", lambda name: None)
    with pytest.raises(tesseract.PeerError, match="--peer none"):
        tesseract.Tesseract(None)


@needs_tesseract
def test_peer_is_read_once_and_then_reused(folder, tmp_path, monkeypatch):
    peer = tesseract.Tesseract(tmp_path)
    first = peer.read(folder / "line.png", tesseract.RAW_LINE)
    assert "brown" in first.text
    monkeypatch.setattr(tesseract.Tesseract, "_run", lambda *_: pytest.fail("ran again"))
    assert peer.read(folder / "line.png", tesseract.RAW_LINE) == first


@needs_tesseract
def test_report_of_the_peer_alone(folder, tmp_path, capsys):
    target = tmp_path / "all.json"
    assert accuracy.main(["--samples", str(folder), "--reader", "tesseract", "--json", str(target)]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out.splitlines()[-1])
    assert document["bench"] == "accuracy"
    # The peer may add a stray mark at the edge of a raw line.
    assert document["groups"]["lines"]["tesseract"]["cer"] <= 2 / len("Seven brown foxes")
    assert document["groups"]["born"]["tesseract"]["f1"] > 0.9
    assert document["groups"]["receipts"]["tesseract"]["items"] == 1
    assert "lines: 1 items by tesseract" in err
    full = json.loads(target.read_text(encoding="utf-8"))
    assert {item["name"] for item in full["items"]} == {"line.png", "slip.png", "made.pdf#1"}


@needs_tesseract
def test_peer_reads_the_lines_that_we_find(folder, capsys):
    arguments = ["--samples", str(folder), "--reader", "tesseract-lines", "--peer", "none", "--group", "receipts"]
    assert accuracy.main(arguments) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["groups"]["receipts"]["tesseract-lines"]["f1"] == 1


def test_missing_samples_end_with_a_message(tmp_path, capsys):
    assert accuracy.main(["--samples", str(tmp_path), "--peer", "none"]) == 2
    assert "manifest.jsonl" in capsys.readouterr().err


def test_lines_only_is_a_group(capsys):
    assert accuracy.parse_arguments(["--lines-only"]).group == ["lines"]
    with pytest.raises(SystemExit):
        accuracy.parse_arguments(["--lines-only", "--group", "books"])
