"""What the app reads from its terminal."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class Terminal(LinuxDriver):
    """Textual's driver, which ends the app at bytes that are no UTF-8, as a terminal of another encoding sends them.
    Here they are lost, with what came in one piece with them."""

    def run_input_thread(self) -> None:
        while True:
            try:
                return super().run_input_thread()
            except UnicodeDecodeError:
                continue  # from anew, with a parser and a decoder that know nothing of it
