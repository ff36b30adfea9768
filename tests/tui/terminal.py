"""A pseudo-terminal with a program in it, and what would be seen on it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

PATIENCE_S = 240
"""For a machine that is busy with other things; a program that hangs fails its test then."""
_CONTROL = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[P_^][^\x1b]*\x1b\\|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x1a\x1c-\x1f]"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[P_^\]][^\x07\x1b]*\x1b?|[ -/]*)?$")
"""A control sequence whose end has not come yet."""


class Terminal:
    """Runs a command on a terminal of its own. `lines` is the text that stands on it, `modes` the private modes that
    are set, `said` all that was written."""

    def __init__(self, command, *, size=(120, 40), cwd=None, environment=None):
        self.said, self.modes = "", {25}
        self._side, other = pty.openpty()
        self._rest = b""
        self._unfinished = ""
        self.resize(*size, tell=False)
        self.settings = termios.tcgetattr(self._side)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OCRIA_") and name not in
                 ("CI", "NO_COLOR", "TEXTUAL", "COLUMNS", "LINES")}  # fmt: skip
        clean |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, cwd=cwd, env={**clean, **(environment or {})},
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self._other = other

    def resize(self, columns, rows, tell=True):
        """Another size, which the program is told of as by any terminal."""
        self.size = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            os.killpg(self.process.pid, signal.SIGWINCH)

    @property
    def lines(self):
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self):
        return "\n".join(self.lines)

    def press(self, keys):
        """Characters as a keyboard sends them."""
        self.send(keys.encode())

    def send(self, keys):
        """Bytes, whatever they are."""
        os.write(self._side, keys)

    def until(self, true):
        """Read on until something is so; `true`: text on the screen, or a function of this."""
        is_so = (lambda _: true in self.text) if isinstance(true, str) else true
        end = time.monotonic() + PATIENCE_S
        while not is_so(self):
            assert time.monotonic() < end, f"{true!r} does not come:\n{self.text}"
            gone = self.process.poll() is not None
            if not self._read(0.1) and gone:
                assert is_so(self), f"{true!r} did not come before the end ({self.process.returncode}):\n{self.text}"

    def end(self, pressing=""):
        """Wait for the end of the program, keys pressed now and then; gives its exit code."""
        end, again = time.monotonic() + PATIENCE_S, 0.0
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
            if pressing and time.monotonic() > again and 1049 in self.modes:
                self.press(pressing)
                again = time.monotonic() + 2
            self._read(0.1)
        while self._read(0.2):
            pass
        return self.process.returncode

    def is_restored(self):
        """Whether it is as it was before the program: no alternate screen, no mouse, keys echoed, a cursor."""
        return self.modes - {7} == {25} and termios.tcgetattr(self._side) == self.settings

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._side)
        os.close(self._other)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, seconds):
        if not select.select([self._side], [], [], seconds)[0]:
            return False
        self._rest += os.read(self._side, 65536)
        text = self._rest.decode("utf-8", "ignore")
        self._rest = self._rest[len(text.encode()) :]
        self.said += text
        text = self._unfinished + text
        begun = _BEGUN.search(text)
        text, self._unfinished = (text[: begun.start()], begun[0]) if begun else (text, "")
        place = 0
        for control in _CONTROL.finditer(text):
            self._put(text[place : control.start()])
            self._obey(control)
            place = control.end()
        self._put(text[place:])
        return True

    def _put(self, text):
        columns, rows = self.size
        for character in text:
            if self._x < columns and self._y < rows:
                self._cells[self._y][self._x] = character
            self._x += 1

    def _obey(self, control):
        final, parameters = control["final"], control["parameters"] or ""
        if final is None:
            if control[0] == "\r":
                self._x = 0
            elif control[0] == "\n":
                self._y = min(self._y + 1, self.size[1] - 1)
        elif final in "hl" and parameters.startswith("?"):
            for mode in map(int, parameters[1:].split(";")):
                (self.modes.add if final == "h" else self.modes.discard)(mode)
        elif final in "Hf":
            row, column = (int(number or 1) for number in [*parameters.split(";"), "", ""][:2])
            self._y, self._x = row - 1, column - 1
        elif final == "J":
            self._cells = [[" "] * self.size[0] for _ in range(self.size[1])]
        elif final == "K" and self._y < self.size[1]:
            self._cells[self._y][self._x :] = [" "] * max(0, self.size[0] - self._x)
        elif final in "ABCD" and parameters.isdigit():
            step = int(parameters)
            self._y += {"A": -step, "B": step}.get(final, 0)
            self._x += {"C": step, "D": -step}.get(final, 0)
