"""The password of a document: where it comes from, and that it is shown nowhere."""

import os
import pty
import secrets
import select
import subprocess
import sys
import termios
import time

import pymupdf
import pytest
from in_process import called

import ocria
from ocria.document.options import ParseOptions
from ocria.errors import EncryptedError, UsageError
from ocria.password import given_password

LINE = "A line of text on the only page, long enough."
SECRET = "hard-to-gu€ss words"


def made(path, **options):
    with pymupdf.open() as pdf:
        pdf.new_page().insert_text((72, 90), LINE)
        usual = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": SECRET, "owner_pw": "owner's"}
        pdf.save(path, **{**usual, **options})
    return path


@pytest.fixture
def locked(tmp_path):
    return made(tmp_path / "locked.pdf")


def run(*arguments, **environment):
    return called("parse", *arguments, **environment)


@pytest.mark.parametrize("method", ["RC4_40", "RC4_128", "AES_128", "AES_256"])
@pytest.mark.parametrize("password", [SECRET, "owner's"])
def test_the_user_s_and_the_owner_s_password_open_every_kind(method, password, tmp_path):
    # The older kinds know Latin-1 alone.
    user = SECRET if method == "AES_256" else "pässwörd"
    path = made(tmp_path / "a.pdf", encryption=getattr(pymupdf, f"PDF_ENCRYPT_{method}"), user_pw=user)
    given = user if password == SECRET else password
    assert LINE in ocria.parse(path, password=given, jobs=0).text
    for wrong in (None, "", "wrong", given + " "):
        with pytest.raises(EncryptedError):
            ocria.parse(path, password=wrong, jobs=0)


def test_a_document_that_only_forbids_changes_needs_none(tmp_path):
    path = made(tmp_path / "a.pdf", user_pw="")
    assert LINE in ocria.parse(path, jobs=0).text
    assert LINE in ocria.parse(path, password="whatever", jobs=0).text


def test_option_file_and_variable(locked, tmp_path):
    file = tmp_path / "password"
    for content in (SECRET, f"{SECRET}\n", f"{SECRET}\r\nmore\n", f"\ufeff{SECRET}\n"):
        file.write_bytes(content.encode())
        assert given_password(None, str(file)) == SECRET
    assert run(locked, "--password-file", file, OCRIA_PASSWORD="wrong").returncode == 0
    assert run(locked, OCRIA_PASSWORD=SECRET).returncode == 0


def test_the_first_line_of_standard_input(locked, tmp_path):
    """And no more of it: what follows may be the document."""
    data = locked.read_bytes()
    for arguments, stdin in (([locked], b""), (["-"], data)):
        result = subprocess.run(
            [sys.executable, "-m", "ocria", "parse", "-j", "0", *map(str, arguments), "--password-file", "-"],
            input=SECRET.encode() + b"\r\n" + stdin, capture_output=True, timeout=300,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (0, b"")
        assert LINE in result.stdout.decode()


def test_a_password_typed_for_standard_input_is_not_echoed(locked):
    terminal = Terminal(locked, "--password-file", "-")
    terminal.wait_for(b"Password: ")
    terminal.type(SECRET.encode() + b"\n")
    code, output, said = terminal.end()
    assert code == 0
    assert LINE in output.decode()
    assert b"words" not in said


def test_no_process_has_it_in_its_arguments(tmp_path):
    """Neither ours nor those that draw the pages, while they have the document open."""
    secret = secrets.token_hex(12)  # other tests that run meanwhile may have theirs among their arguments
    locked = made(tmp_path / "locked.pdf", user_pw=secret)
    (tmp_path / "file").write_text(secret)
    probe = (
        "import glob, ocria.cli, sys\n"
        "from ocria.batch.parsing import Parsing\n"
        "begin = Parsing.events\n"
        "def events(*arguments, **options):\n"
        "    for event in begin(*arguments, **options):\n"
        "        yield event\n"
        "        for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "            try:\n"
        "                sys.stderr.buffer.write(open(path, 'rb').read() + b'\\n')\n"
        "            except OSError:\n"
        "                pass\n"
        "Parsing.events = events\n"
        "sys.exit(ocria.cli.main(sys.argv[1:]))\n"
    )
    for arguments, environment in ((["--password-file", tmp_path / "file"], {}), ([], {"OCRIA_PASSWORD": secret})):
        result = subprocess.run(
            [sys.executable, "-c", probe, "parse", str(locked), *map(str, arguments)],
            capture_output=True, env={**os.environ, **environment}, timeout=300,
        )  # fmt: skip
        assert result.returncode == 0
        assert b"ocria.cli.main" in result.stderr.replace(b"\0", b" "), "the probe saw this very process"
        assert secret.encode() not in result.stderr


def test_what_is_said_on_the_command_line_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("OCRIA_PASSWORD", "from outside")
    assert given_password(None, None) == "from outside"
    assert given_password("", None) == ""
    assert given_password("given", None) == "given"
    monkeypatch.setenv("OCRIA_PASSWORD", "")
    assert given_password(None, None) is None


def test_faults_of_the_password_file(tmp_path):
    with pytest.raises(UsageError, match="either"):
        given_password("a", "b")
    with pytest.raises(UsageError, match="cannot be read"):
        given_password(None, str(tmp_path / "none"))
    (tmp_path / "latin").write_bytes("gehe\xefm".encode("latin-1"))
    with pytest.raises(UsageError, match="UTF-8") as caught:
        given_password(None, str(tmp_path / "latin"))
    assert "gehe" not in str(caught.value)
    (tmp_path / "empty").write_bytes(b"")
    assert given_password(None, str(tmp_path / "empty")) == ""


def test_it_is_shown_nowhere(locked):
    assert SECRET not in repr(ParseOptions(password=SECRET))
    for result in (
        run(locked, "--password", SECRET, "-v", "-f", "json", "--progress", "json"),
        run(locked, OCRIA_PASSWORD=SECRET + "x"),
        run(locked, "--password", SECRET, "-p", "7"),
    ):
        assert SECRET.encode() not in result.stdout + result.stderr
        assert SECRET.encode("unicode_escape") not in result.stdout + result.stderr


def test_nobody_is_asked_without_a_terminal(locked):
    result = run(locked)
    assert result.returncode == 5
    assert result.stderr.count(b"\n") == 1
    assert b"--password" in result.stderr


class Terminal:
    """The command with a terminal for its input and its notes; the output is a pipe."""

    def __init__(self, *arguments):
        self.side, other = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "OCRIA_PASSWORD"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ocria", "parse", "-j", "0", *map(str, arguments)], stdin=other, stderr=other,
            stdout=subprocess.PIPE, start_new_session=True, env=environment,
        )  # fmt: skip
        os.close(other)
        self.said = b""

    def wait_for(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < end, self.said
            if select.select([self.side], [], [], 1)[0]:
                try:
                    self.said += os.read(self.side, 4096)
                except OSError:  # the other side is closed
                    break
        assert text in self.said
        before, _, self.said = self.said.partition(text)
        return before

    def wait_for_silence(self, seconds=120):
        """Until what is typed is not shown."""
        end = time.monotonic() + seconds
        while termios.tcgetattr(self.side)[3] & termios.ECHO:
            assert time.monotonic() < end, self.said
            time.sleep(0.01)

    def type(self, text):
        self.wait_for_silence()
        os.write(self.side, text)

    def end(self):
        output = self.process.communicate(timeout=120)[0]
        while select.select([self.side], [], [], 0)[0]:
            try:
                self.said += os.read(self.side, 4096)
            except OSError:
                break
        os.close(self.side)
        return self.process.returncode, output, self.said


def test_whoever_is_at_the_terminal_is_asked(locked):
    terminal = Terminal(locked, "--progress", "plain")
    terminal.wait_for(b"Password of ")
    terminal.type(b"wrong one\n")
    terminal.wait_for(b"That is not it. Password of ")
    terminal.type(SECRET.encode() + b"\n")
    code, output, said = terminal.end()
    assert code == 0
    assert LINE in output.decode()
    assert b"page 1: ok" in said
    assert b"words" not in said


def test_three_wrong_answers_are_enough(locked):
    terminal = Terminal(locked)
    for _ in range(3):
        terminal.wait_for(b"Password of ")
        terminal.type(b"wrong one\n")
    code, output, said = terminal.end()
    assert (code, output) == (5, b"")
    assert b"the password is wrong" in said
    assert b"wrong one" not in said


@pytest.mark.parametrize(("key", "expected"), [(b"\x03", 130), (b"\x04", 5)])
def test_the_question_can_be_declined(key, expected, locked):
    terminal = Terminal(locked)
    terminal.wait_for(b"Password of ")
    if key == b"\x03":  # without a controlling terminal no key becomes a signal
        terminal.wait_for_silence()
        terminal.process.send_signal(2)
    else:
        terminal.type(key)
    code, output, said = terminal.end()
    assert (code, output) == (expected, b"")
    assert b"Traceback" not in said


def test_a_password_that_was_given_and_is_wrong_is_not_asked_for(locked):
    code, output, said = Terminal(locked, "--password", "wrong").end()
    assert (code, output) == (5, b"")
    assert b"Password of" not in said
