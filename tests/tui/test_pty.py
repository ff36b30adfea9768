"""The installed command on a terminal, as a user has it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image
from scan_made import scan
from terminal import PATIENCE_S, Terminal

HERE = Path(__file__).parent
SAMPLE = HERE.parents[2] / "shared" / "samples" / "real" / "ICDAR-2019-SROIE" / "130.jpg"
OCRIA = [shutil.which("ocria", path=str(Path(sys.executable).parent)) or "ocria"]
RECORDING = str(HERE / "run.jsonl")


def born_digital(path):
    with pymupdf.open() as pdf:
        for number in (1, 2):
            page = pdf.new_page(width=400, height=300)
            page.insert_text((40, 60), f"Page {number} of a report with words on it,", fontsize=12)
            page.insert_text((40, 76), "enough of them to be taken from its text layer.", fontsize=12)
        pdf.save(path)


def target(terminal, text):
    """Name where an export goes, in the line behind the list of formats."""
    terminal.press("\t")
    terminal.until("> To")  # what stands there is selected now
    terminal.press(text)
    terminal.until(lambda _: re.search(rf"> To +{re.escape(text)} +│", terminal.text))


def test_documents_are_read_exported_and_left(tmp_path):
    """What the app exports is what `ocria parse` writes."""
    scan(tmp_path / "scan.png")
    born_digital(tmp_path / "report.pdf")
    names = ["scan.png", "report.pdf"]
    if SAMPLE.is_file():
        shutil.copy(SAMPLE, tmp_path / "receipt.jpg")
        names.append("receipt.jpg")
    with Terminal([*OCRIA, "tui", *names, "--output-dir", "out"], cwd=tmp_path) as terminal:
        terminal.until(lambda _: sum((tmp_path / "out" / f"{name}.md").exists() for name in names) == len(names))
        terminal.until(f"Documents {len(names)}/{len(names)}")
        terminal.press("kkk")
        terminal.until("tide gauge")
        terminal.press("e")
        terminal.until("a file for one format")
        terminal.press("\x1b[B\x1b[B ")  # the list of formats has the focus: JSON beside Markdown
        terminal.until("[x] json")
        target(terminal, "exports")
        terminal.press("\x13")
        terminal.until(lambda _: (tmp_path / "exports" / "scan.png.json").exists())
        terminal.press("j")
        terminal.until("of a report with words")
        terminal.press("e")
        terminal.until("a file for one format")
        target(terminal, "report.md")
        terminal.press("\r")
        terminal.until(lambda _: (tmp_path / "report.md").exists())
        assert 1049 in terminal.modes, "it draws on a screen of its own"
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored()
        assert "Traceback" not in terminal.said
    parsed = subprocess.run(
        [*OCRIA, "parse", *names, "-f", "md", "--output-dir", "parsed"], cwd=tmp_path, timeout=PATIENCE_S
    )
    assert parsed.returncode == 0
    for name in names:
        assert (tmp_path / "out" / f"{name}.md").read_bytes() == (tmp_path / "parsed" / f"{name}.md").read_bytes()
    assert (tmp_path / "exports" / "scan.png.md").read_bytes() == (tmp_path / "parsed" / "scan.png.md").read_bytes()
    assert (tmp_path / "report.md").read_bytes() == (tmp_path / "parsed" / "report.pdf.md").read_bytes()
    assert '"blocks"' in (tmp_path / "exports" / "scan.png.json").read_text()


def test_ctrl_c_while_something_is_read(tmp_path):
    """Once to be asked, once more to leave; what is not done makes the exit code that of an interrupt."""
    Image.fromarray(np.full((600, 400), 255, np.uint8)).save(tmp_path / "a.png")
    scan(tmp_path / "b.png")
    with Terminal([*OCRIA, "tui", "a.png", "b.png", "--output-dir", "out"], cwd=tmp_path) as terminal:
        terminal.until("b.png")
        terminal.press("p\x03")
        terminal.until("finished pages are kept")
        # Whoever is slow to press it again is asked again; a machine that is quick has read all by now.
        assert terminal.end(pressing="\x03") in (0, 130)
        assert terminal.is_restored()
        assert "Traceback" not in terminal.said


def test_a_recording_without_colours_and_on_a_terminal_that_changes_its_size():
    command = [*OCRIA, "tui", "--replay", RECORDING, "--speed", "50"]
    with Terminal(command, cwd=HERE.parents[1], environment={"NO_COLOR": "1"}) as terminal:
        terminal.until("Documents 2/2")
        terminal.resize(80, 24)
        terminal.until(lambda _: "Quit" in terminal.lines[-1] and "ocria" in terminal.lines[0])
        terminal.press("?")
        terminal.until("Choose files and folders")
        terminal.press("\x1b")
        terminal.until(lambda _: "Choose files" not in terminal.text)
        terminal.resize(200, 60)
        terminal.until(lambda _: "Quit" in terminal.lines[-1] and "Engine" in terminal.text)
        colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m", terminal.said)
        assert not colours
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored()


def test_strange_bytes_change_nothing_and_a_signal_to_end_gives_the_terminal_back():
    command = [*OCRIA, "tui", "--replay", RECORDING]
    with Terminal(command, cwd=HERE.parents[1]) as terminal:
        terminal.until("Documents 0/")
        terminal.send(b"\x1b[200~A\xff\xfe\x1b[201~")  # pasted in another encoding
        # Again and again: a key that comes in one piece with such bytes is lost.
        terminal.until(lambda _: terminal.press("5") or "▸ 5 Log" in terminal.text)
        terminal.process.terminate()
        assert terminal.end() == 130
        assert terminal.is_restored()


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"CI": "true"}], ids=str)
def test_lines_where_an_app_would_not_do(environment):
    command = [*OCRIA, "tui", "--replay", RECORDING, "--speed", "1000"]
    with Terminal(command, cwd=HERE.parents[1], environment=environment) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.said
        assert "examples/report.pdf, page 2: ok" in terminal.said
