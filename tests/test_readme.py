"""The README's commands are the ones that CI runs, and they name files that exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(title: str, language: str) -> str:
    """The first fenced block of a language under a heading of the README."""
    section = README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return re.search(rf"^```{language}\n(.*?)^```$", section, re.M | re.S).group(1)


INSTALL_AND_PARSE = block("Install and parse a sample", "sh")
INSTALL_AND_TEST = block("Install and test", "sh")


def test_ci_runs_the_commands_of_the_readme():
    shown = subprocess.check_output(["bash", ROOT / ".ci" / "run", "--show"], text=True)
    assert shown == INSTALL_AND_PARSE + INSTALL_AND_TEST


def test_commands_do_what_their_headings_say():
    parse, test = INSTALL_AND_PARSE.splitlines(), INSTALL_AND_TEST.splitlines()
    assert "pip install ." in parse
    assert parse[-1].startswith("ocria parse ")
    assert any(line.startswith("pip install -e ") for line in test)
    assert test[-2:] == ["ruff check", "pytest -n 2"]


@pytest.mark.parametrize("commands", [INSTALL_AND_PARSE, INSTALL_AND_TEST])
def test_commands_are_shell(commands):
    subprocess.run(["bash", "-n", "-c", commands], check=True)


def test_named_files_exist():
    named = re.findall(r"\b(?:examples|docs|bench)/[\w./-]*\w", README)
    assert named
    for path in named:
        assert (ROOT / path).is_file(), path


def test_python_example_runs():
    run = subprocess.run(
        [sys.executable, "-c", block("Python", "python")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Ledger" in run.stdout  # the heading of the scanned sample
    assert "'type': 'document_done'" in run.stdout
