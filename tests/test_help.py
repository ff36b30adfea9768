"""Help of every command, and what is said about words that are misspelt."""

import os
import shutil
import subprocess
import sys

import pytest

from ocria.cli import build_parser, main
from ocria.cli.parser import Parser


def everything(parser=None, words=()):
    """Every command with its words, the top first."""
    parser = parser or build_parser()
    yield words, parser
    for name, below in parser.commands().items():
        yield from everything(below, (*words, name))


COMMANDS = dict(everything())


def help_of(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("columns", ["200", "80", "60"])
def test_help_fits_the_terminal_and_80_columns(words, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    text = help_of(words, capsys)
    assert text.startswith(f"usage: {' '.join(['ocria', *words])} ")
    assert max(map(len, text.splitlines())) <= 80
    assert "[-" not in text.splitlines()[0], "usage is one line, not all options"
    assert text.splitlines()[1] == ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_and_command_is_explained(words, capsys):
    parser, text = COMMANDS[words], help_of(words, capsys)
    assert parser.description
    for action in parser.all_options():
        assert action.help, action.option_strings
    assert all(parser.command_help()[name] for name in parser.commands())
    for name in parser.commands():
        assert f"\n    {name}" in text
    assert "%(" not in text
    assert "==SUPPRESS==" not in text


@pytest.mark.parametrize("words", [(), ("parse",), ("doctor",)], ids=" ".join)
def test_help_has_the_parts_of_a_manual(words, capsys):
    text = help_of(words, capsys)
    for part in ("\nexamples:\n", "\nenvironment:\n", "\nfiles:\n", "\nexit codes:\n"):
        assert text.count(part) == 1, part


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_command_says_the_same(words, capsys):
    text = help_of(words, capsys)
    assert main(["help", *words]) == 0
    assert capsys.readouterr().out == text


def test_help_of_nothing_known(capsys):
    assert main(["help", "pasre"]) == 2
    assert "did you mean parse?" in capsys.readouterr().err
    assert main(["help", "config", "shw"]) == 2
    assert "did you mean show?" in capsys.readouterr().err
    assert main(["help", "models", "all"]) == 2


def test_no_command_gives_help_on_standard_error(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == build_parser().format_help()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["pasre", "a.pdf"], "parse"),
        (["parse", "a.pdf", "--overwritte"], "--overwrite"),
        (["parse", "a.pdf", "--page-timeot=5"], "--page-timeout"),
        (["parse", "a.pdf", "--mode", "modl"], "model"),
        (["doctor", "--modle", "x"], "--model"),
        (["doctor", "--dtype", "float23"], "float32"),
        (["config", "shwo"], "show"),
        (["completion", "bahs"], "bash"),
    ],
)
def test_a_misspelt_word_is_told_what_was_meant(arguments, meant, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"did you mean {meant}?" in captured.err
    assert captured.err.startswith("usage: ocria")


def test_what_is_near_nothing_gets_no_hint(capsys):
    with pytest.raises(SystemExit):
        main(["doctor", "--qqqqqq"])
    said = capsys.readouterr().err
    assert "--qqqqqq" in said
    assert "did you mean" not in said


def test_options_are_not_shortened(capsys):
    """Or a script would break with the next option that begins alike."""
    with pytest.raises(SystemExit):
        main(["doctor", "--thre", "3"])
    assert "did you mean --threads?" in capsys.readouterr().err


def test_usage_names_what_is_repeated():
    parser = Parser(prog="p")
    parser.add_argument("one")
    parser.add_argument("more", nargs="*", metavar="MORE")
    assert parser.format_usage() == "usage: p [OPTIONS] one [MORE ...]\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("arguments", ["parse --help", "help parse", "--version", "completion bash", "config show"])
def test_a_closed_pipe_is_quiet(arguments):
    command = f"'{sys.executable}' -m ocria {arguments} | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert (result.stdout, result.stderr) == ("0\n", "")


@pytest.mark.parametrize("command", [["-m", "ocria"], ["-c", "import sys, ocria.cli; sys.exit(ocria.cli.main())"]])
def test_both_ways_to_call_it(command):
    result = subprocess.run([sys.executable, *command, "--version"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0
    assert result.stdout.startswith("ocria ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"], ["tui", "--help"], ["doctor", "--help"], ["help", "parse"], ["config", "show"], ["config", "path"],
        ["completion", "zsh"], ["cache", "show"], ["parse", "a.pdf", "--nonsense"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_heavy_is_loaded_for_it(arguments, tmp_path):
    code = (
        "import contextlib, io, sys, ocria.cli\n"
        "quiet = contextlib.redirect_stderr(io.StringIO())\n"
        "with contextlib.suppress(SystemExit), quiet:\n"
        "    ocria.cli.main(sys.argv[1:])\n"
        "print(); print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=60
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "ocria" in loaded
    assert not loaded & {"torch", "transformers", "pymupdf", "numpy", "PIL", "rich", "textual", "huggingface_hub"}
