"""Completion scripts, tried in the shells that are installed."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

from ocria.cli import build_parser, main
from ocria.cli.completion import bash, describe, fish, zsh
from ocria.cli.parser import Parser
from ocria.document.options import IMAGES, MODES

BASH = shutil.which("bash")
COMMANDS = list(describe(build_parser()))

needs_bash = pytest.mark.skipif(BASH is None, reason="bash is not installed")


def completed(line, folder="."):
    """What bash offers at the end of a line, split into words as bash does it."""
    words = line.replace("=", " = ").split(" ")
    script = (
        f"{bash(COMMANDS)}\nCOMP_WORDS=({' '.join(map(quoted, words))})\nCOMP_CWORD={len(words) - 1}\n"
        'COMP_LINE=; _ocria; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run([BASH, "--norc", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return {word for word in result.stdout.split("\n") if word}


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


@needs_bash
def test_commands():
    assert completed("ocria ") == set(build_parser().commands())
    assert completed("ocria d") == {"doctor"}
    assert completed("ocria config ") == {"show", "path"}
    assert completed("ocria cache c") == {"clear"}
    assert completed("ocria help ") == set(build_parser().commands())
    assert completed("ocria completion ") == {"bash", "zsh", "fish"}


@needs_bash
@pytest.mark.parametrize("words", [command.words for command in COMMANDS], ids=" ".join)
def test_every_option_of_every_command_is_offered(words):
    (command,) = [command for command in COMMANDS if command.words == words]
    expected = {string for option in command.options for string in option.strings if string.startswith("--")}
    assert completed(f"{' '.join(words)} --") == expected
    assert "--help" in expected


@needs_bash
def test_values_that_are_known():
    assert completed("ocria parse --mode ") == set(MODES)
    assert completed("ocria parse a.pdf --mode t") == {"text"}
    assert completed("ocria parse --images=") == set(IMAGES)
    assert completed("ocria parse --images=e") == {word for word in IMAGES if word.startswith("e")}
    assert {"md", "json"} <= completed("ocria parse -f ")
    assert completed("ocria parse --batch ") == set()
    assert completed("ocria config show --verify ") == {"exact", "token", "block"}


@needs_bash
def test_files_with_odd_names(tmp_path):
    for name in ("a b.pdf", "a$c.pdf", "ünï.pdf", "other"):
        (tmp_path / name).touch()
    (tmp_path / "folder one").mkdir()
    assert completed("ocria parse a", tmp_path) == {"a b.pdf", "a$c.pdf"}
    assert completed("ocria parse x.pdf --log-file o", tmp_path) == {"other"}
    assert completed("ocria parse --output-dir ", tmp_path) == {"folder one"}
    assert completed("ocria parse --model f", tmp_path) == {"folder one"}


@needs_bash
def test_at_a_real_prompt(tmp_path):
    """Keys typed into bash, with the script as its users load it."""
    side, other = pty.openpty()
    environment = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "> ", "LC_ALL": "C.UTF-8"}
    shell = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-i"], stdin=other, stdout=other, stderr=other, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(other)
    said = b""

    def wait_for(text, seconds=60):
        nonlocal said
        end = time.monotonic() + seconds
        while text not in said:
            assert time.monotonic() < end, said
            if select.select([side], [], [], 1)[0]:
                said += os.read(side, 65536)
        said = said.partition(text)[2]

    try:
        wait_for(b"> ")
        (tmp_path / "script").write_text(bash(COMMANDS))
        os.write(side, f"bind 'set bell-style none'; source {tmp_path / 'script'}; echo loa''ded\n".encode())
        wait_for(b"loaded")
        os.write(side, b"ocria parse --table-format ht\t")
        wait_for(b"--table-format html ")
        os.write(side, b"--keep\t")
        wait_for(b"--keep-headers-footers ")
    finally:
        shell.kill()
        shell.wait()
        os.close(side)


@needs_bash
def test_help_texts_are_no_shell():
    """Nothing of a text is run or breaks a quotation, in any of the scripts."""
    parser = Parser(prog="ocria")
    below = parser.add_subparsers()
    odd = below.add_parser("odd", help="it's \"$(touch odd)\" `touch odd` [a]: b")
    odd.add_argument("--what", choices=("a'b", "$c"), help="one's [way] \"so\" $(touch odd) 50 %% a:b")
    commands = list(describe(parser))
    result = subprocess.run([BASH, "-c", bash(commands) + "\ncomplete -p ocria"], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "_ocria" in result.stdout
    for shell, script in (("zsh", zsh(commands)), ("fish", fish(commands))):
        assert "50 % a" in script
        if shutil.which(shell):
            checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
            assert (checked.returncode, checked.stderr) == (0, "")
    # Quotes are those of any shell in all three.
    assert subprocess.run([BASH, "-n"], input=fish(commands), capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for word in ("--page-timeout", "keep-headers-footers", "doctor", "placeholder"):
        assert word.removeprefix("--") in captured.out
    if program := shutil.which(shell):
        checked = subprocess.run([program, "-n"], input=captured.out, capture_output=True, text=True, timeout=300)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "offered"), [("ocria do", "doctor"), ("ocria parse --mode ", "auto")])
def test_fish_offers_them(line, offered):
    command = f"complete --do-complete {quoted(line)}"
    script = fish(COMMANDS) + command
    result = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0
    assert offered in result.stdout
