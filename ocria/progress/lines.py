"""What is told in words, and how it reaches standard error."""

from __future__ import annotations

import re
import sys

from ocria.events import BatchDone, DocumentFailed, EngineTick, PageDone

# Control characters, those that start a line or turn the direction of writing, and bytes of a name that are no text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def page_line(event: PageDone) -> str:
    """`page 3: ok in 1.20 s, 512 tokens, accept 3.4`; tokens and accept length where there are any."""
    tokens = f", {event.tokens_out} tokens" if event.tokens_out else ""
    accept = "" if event.accept_length is None else f", accept {event.accept_length:.1f}"
    return f"page {event.page}: {event.status} in {event.seconds:.2f} s{tokens}{accept}"


def tick_line(event: EngineTick, brief: bool = False) -> str:
    """`812 tokens/s, batch 28, 3 waiting, 1.2 pages/s`, the first two if `brief`; figures that are not known are left
    out."""
    parts = [f"{event.decode_tokens_per_last_s:.0f} tokens/s", f"batch {event.running}"]
    if brief:
        return ", ".join(parts)
    if event.waiting:
        parts.append(f"{event.waiting} waiting")
    if event.accept_length is not None:
        parts.append(f"accept {event.accept_length:.1f}")
    if event.pages_per_s is not None:
        parts.append(f"{event.pages_per_s:.1f} pages/s")
    if event.bandwidth_percent is not None:
        parts.append(f"bandwidth {event.bandwidth_percent:.0f} %")
    return ", ".join(parts)


def failure_line(event: DocumentFailed) -> str:
    """`a.pdf: the file is damaged. Fetch it again.`"""
    return f"{event.path}: {event.message}" + ("" if event.cure is None else f". {event.cure}")


def batch_line(event: BatchDone) -> str:
    """`45 ok, 1 partial, 2 skipped; 120 pages, 1 of them failed, 31000 tokens in 90.5 s`, without what is 0."""
    names = ("ok", "partial", "failed", "skipped", "interrupted")
    documents = ", ".join(f"{getattr(event, name)} {name}" for name in names if getattr(event, name)) or "no documents"
    failed = f", {event.failed_pages} of them failed" if event.failed_pages else ""
    tokens = f", {event.tokens_out} tokens" if event.tokens_out else ""
    return f"{documents}; {plural(event.pages, 'page')}{failed}{tokens} in {event.seconds:.1f} s"


def plural(count: int, word: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def duration(seconds: float) -> str:
    """`0:42`, `12:05`, `3:10:00`, `4 days`."""
    whole = round(seconds)
    if whole >= 72 * 3600:
        return f"{round(whole / 86400)} days"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def write_line(line: str) -> None:
    """Print to standard error, if there is one: `print` would take standard output for a closed one."""
    if sys.stderr is not None:
        print(line, file=sys.stderr)


def printable(line: str) -> str:
    """The line with control characters spelt out: names of files and complaints about a damaged file may hold any,
    and a terminal would obey them."""
    return _CONTROLS.sub(lambda match: _spelt(ord(match[0])), line)


def _spelt(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # so Python has a byte of a name that it could not decode
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
