"""What a child process runs: it opens documents and answers questions about their pages until its input ends."""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from ocria.document.source import Readable, Source, open_readable, readable
from ocria.document.workers.wire import LAYOUT, Answer, Fault, Opened, Opening, Request, receive, send, widen
from ocria.errors import InputError, OcriaError

# Nothing here writes files, except complaints to standard error.
_MOST_WRITTEN = 64 << 20  # bytes
_SCORE = 500  # of 1000
_PAGE_CALLS = ("look", "render", "words", "lay_out", "lay_out_lines")
CALLS = {"stated_size": "ocria.document.decode", "to_pdf": "ocria.document.write.pdf"}
"""Functions that need no open document, by the module that has them."""
# Loaded while nobody asks, in this order. The last one takes as long as the others together; a page is looked at and
# drawn without it.
_LOADED_IDLE = ("ocria.document.image", "ocria.document.pdf", LAYOUT)
_NETWORK = "pymupdf.layout"
_IDLE_S = 0.1


def main() -> None:
    """Serve requests from standard input with answers to standard output; the first argument is the most memory in
    bytes, the second a pipe that the parent holds open."""
    requests, answers = _take_pipes()
    _die_with_parent(int(sys.argv[2]))
    _be_first_to_go()
    _bound(resource.RLIMIT_AS, int(sys.argv[1]))
    _bound(resource.RLIMIT_FSIZE, _MOST_WRITTEN)
    _put_layout_off()
    child = Child()
    send(answers, Answer(os.getpid(), memory_in_use()))
    later = list(_LOADED_IDLE)
    while True:
        while later and not _is_asked(requests):
            _load(later.pop(0))
        try:
            request = receive(requests)
        except EOFError:
            return
        if request.call == "forget":
            child.forget(request.forget)
            continue
        answer = Answer(child.answer(request), memory_in_use())
        try:
            send(answers, answer)
        except BrokenPipeError:
            return
        if isinstance(answer.value, Fault) and answer.value.fatal:
            return


class Child:
    """The open documents of this process."""

    def __init__(self) -> None:
        self._documents: dict[int, Source] = {}

    def answer(self, request: Request) -> object:
        """What was asked for, or a `Fault`."""
        self.forget(request.forget)
        try:
            return self._call(request)
        except OcriaError as error:
            return Fault(type(error).__name__, error.message, error.path, error.cure)
        except MemoryError:
            return Fault("InputError", "it needs more memory than a page may take", fatal=True)
        except Exception as error:  # whatever a library raises over a damaged file is a fault of the file
            return Fault("InputError", f"{type(error).__name__}: {error}")

    def forget(self, numbers: tuple[int, ...]) -> None:
        """Close documents."""
        for number in numbers:
            if number in self._documents:
                self._documents.pop(number).close()

    def _call(self, request: Request) -> object:
        if request.call == "load":
            _load(*request.arguments)
            return None
        if request.call == "open":
            source, opened = _open(*request.arguments)
            self._documents[request.document] = source
            return opened
        if request.call in CALLS:
            return getattr(importlib.import_module(CALLS[request.call]), request.call)(*request.arguments)
        if request.call not in _PAGE_CALLS:
            raise AssertionError(f"no call {request.call}")
        number, *arguments = request.arguments
        function: Callable[..., object] = getattr(self._documents[request.document].page(number), request.call)
        return function(*arguments)


def memory_in_use() -> int:
    """Bytes of this process that are in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _open(opening: Opening) -> tuple[Source, Opened]:
    content = opening.content
    if content is None:
        content = Path(opening.file).read_bytes()
        if hashlib.sha256(content).hexdigest() != opening.sha256:
            raise InputError("the file was changed while it was read", path=opening.path)
    if opening.kind is None:
        found = readable(opening.path, content)
    else:
        found = Readable(content, opening.kind, opening.converted_from)
    source = open_readable(opening.path, found, opening.sha256, opening.password)
    made = found.content if opening.kind is None and found.converted_from is not None else None
    return source, Opened(source.page_count, source.repaired, found.kind, found.converted_from, made)


def _take_pipes() -> tuple[int, int]:
    """Both ends of the conversation, out of reach of libraries that print or read: their output goes to standard
    error, which the parent collects."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    widen(answers)
    return requests, answers


def _be_first_to_go() -> None:
    """Where the memory of the machine ends, the system is to end this process and not the parent."""
    score = Path("/proc/self/oom_score_adj")
    try:
        if int(score.read_text()) < _SCORE:
            score.write_text(str(_SCORE))
    except OSError:
        return  # another system, or one that does not allow it: it chooses by itself


def _bound(limit: int, most: int) -> None:
    """Set a limit of this process, unless a lower one holds already."""
    hard = resource.getrlimit(limit)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (most, most))


def _put_layout_off() -> None:
    """Let `import pymupdf` do without the network of its layout analysis, which takes longer than all the rest."""
    if "pymupdf" not in sys.modules:
        sys.modules[_NETWORK] = None


def _load(module: str) -> None:
    if module == LAYOUT and sys.modules.get(_NETWORK, module) is None:
        del sys.modules[_NETWORK]
        importlib.import_module("pymupdf4llm").use_layout(True)
    importlib.import_module(module)


def _is_asked(requests: int) -> bool:
    """Whether a request comes before the process may be called idle."""
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    return bool(poll.poll(_IDLE_S * 1000))


def _die_with_parent(life: int) -> None:
    """Let the end of a pipe that carries no data end this process, even inside of a library that never returns.

    (`PR_SET_PDEATHSIG` would tell of the end of the thread that started this process, which is not the parent's.)"""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if poll.poll(0):
        sys.exit()
