"""What became of the documents of a run: counts, failures and the exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ocria.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    InputError,
    OutputError,
    TimeoutExceeded,
)
from ocria.events import BatchDone, DocumentDone, DocumentFailed, DocumentSkipped, Event, PageDone

if TYPE_CHECKING:
    from ocria.document.result import Document

_GOOD = ("ok", "blank")
_EXIT_OF_STATUS = {
    "ok": EXIT_OK, "partial": EXIT_PARTIAL, "failed": EXIT_FAILED, "interrupted": EXIT_INTERRUPTED
}  # fmt: skip

_CURES = {
    "failed": "Look at the page; --retry-failed reads it again",
    "timeout": "Raise --page-timeout or --timeout and add --retry-failed",
    "truncated": "Raise --max-output-tokens where it is the limit",
    "degenerate": "Try another --model or --dpi",
    "cancelled": "The next run reads it",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that did not come out whole, for a table."""

    path: str
    pages: tuple[int, ...]
    """Those that failed; none where it is the document itself."""
    status: str
    why: str
    cure: str | None = None


@dataclass(slots=True)
class Tally:
    """Counts the events of a run."""

    documents: int
    ok: int = 0
    partial: int = 0
    failed: int = 0
    skipped: int = 0
    pages: int = 0
    failed_pages: int = 0
    tokens_out: int = 0
    failures: list[Failure] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    """The exit code that each document would have alone."""

    def take(self, event: Event) -> None:
        """Count an event."""
        match event:
            case PageDone():
                self._page(event)
            case DocumentDone() if event.status != "interrupted":
                self._document(event)
            case DocumentFailed():
                self.failed += 1
                self.codes.append(event.exit_code)
                self.failures.append(Failure(event.path, (), "failed", event.message, event.cure))

    def skip(self, event: DocumentSkipped, why: str, cure: str | None, code: int) -> None:
        """Count a document that an earlier run has done, with what went wrong then and its exit code."""
        self.skipped += 1
        self.codes.append(code)
        if event.status != "ok":
            cure = cure or "--retry-failed tries it again"
            self.failures.append(Failure(event.path, (), event.status, f"{why} (in an earlier run)", cure))

    def fail_folder(self, path: str) -> None:
        """Count a folder that cannot be read: what is in it is missing."""
        self.codes.append(InputError.exit_code)
        self.failures.append(Failure(path, (), "failed", "the folder cannot be read"))

    @property
    def interrupted(self) -> int:
        """Documents that were not finished, or not begun."""
        return self.documents - self.ok - self.partial - self.failed - self.skipped

    def done(self, seconds: float) -> BatchDone:
        """The event that ends the run."""
        return BatchDone(
            self.ok, self.partial, self.failed, self.skipped, self.interrupted, self.pages, self.failed_pages,
            self.tokens_out, seconds,
        )  # fmt: skip

    def exit_code(self, fail_on: str = "partial") -> int:
        """That of the run: of its one document, or the worst of many. `fail_on` is one of `FAIL_ON`."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return worst_code(self.codes, fail_on)

    def _page(self, event: PageDone) -> None:
        self.pages += 1
        self.tokens_out += event.tokens_out
        if event.status not in _GOOD:
            self.failed_pages += 1

    def _document(self, event: DocumentDone) -> None:
        document = event.document
        self.codes.append(document_code(document))
        if event.status == "ok":
            self.ok += 1
        elif event.status == "partial":
            self.partial += 1
        else:
            self.failed += 1
        reasons: dict[tuple[str, str], list[int]] = {}
        for page in document.pages:
            if page.status not in _GOOD:
                reasons.setdefault((page.status, page.error or page.status), []).append(page.index)
        for (status, why), pages in reasons.items():
            self.failures.append(Failure(event.path, tuple(pages), status, why, _CURES.get(status)))


def worst_code(codes: list[int], fail_on: str) -> int:
    """The exit code of a run over documents with these codes."""
    if fail_on == "never":
        return OutputError.exit_code if OutputError.exit_code in codes else EXIT_OK
    if fail_on == "failure":
        codes = [EXIT_OK if code == EXIT_PARTIAL else code for code in codes]
    if len(codes) == 1:
        return codes[0]
    failed = any(code not in (EXIT_OK, EXIT_PARTIAL) for code in codes)
    return EXIT_FAILED if failed else EXIT_PARTIAL if EXIT_PARTIAL in codes else EXIT_OK


def document_code(document: Document) -> int:
    """The exit code that tells how a document went. When time ran out on every page, that is what it tells."""
    if document.pages and all(page.status == "timeout" for page in document.pages):
        return EXIT_INTERRUPTED if document.interrupted else TimeoutExceeded.exit_code
    return _EXIT_OF_STATUS[document.status]
