"""Outputs are UTF-8 whatever the locale says."""

import os
import subprocess
import sys

import pymupdf
import pytest

WORDS = "It’s “quoted” — and naïve 文 too"
NAME = "naïve ‘文’ #1?.pdf"

ODD = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}


@pytest.fixture
def document(tmp_path):
    path = tmp_path / NAME
    with pymupdf.open() as pdf:
        page = pdf.new_page()
        writer = pymupdf.TextWriter(page.rect)
        writer.append((72, 100), WORDS, font=pymupdf.Font("cjk"))
        writer.write_text(page)
        pdf.save(path)
    return path


def parsed(*arguments):
    command = [sys.executable, "-m", "ocria", "parse", "--mode", "text", "-j", "0", *map(str, arguments)]
    return subprocess.run(command, env=ODD, capture_output=True, check=True).stdout


@pytest.mark.parametrize("kind", ["md", "jsonl"])
def test_any_character_reaches_standard_output(document, kind):
    said = parsed(document, "-f", kind).decode("utf-8")
    assert WORDS in said
    assert kind == "md" or NAME in said


def test_any_character_reaches_any_file(document, tmp_path):
    parsed(document, "-f", "md,html,json,jsonl,text", "--output-dir", tmp_path / "out")
    outputs = sorted(path for path in (tmp_path / "out").iterdir() if path.is_file())
    assert [path.name for path in outputs] == [
        f"{NAME}.{suffix}" for suffix in ("html", "json", "jsonl", "md", "txt")
    ]
    for path in outputs:
        said = path.read_bytes().decode("utf-8")
        assert WORDS in said
        assert "json" not in path.suffix or NAME in said
