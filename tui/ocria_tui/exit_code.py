"""What the exit code says of a session: what `ocria parse` would say of its documents."""

from __future__ import annotations

from ocria.batch.tally import worst_code
from ocria.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    EngineError,
    InputError,
    TimeoutExceeded,
)
from ocria_tui.documents import CANCELLED, FAILED, DocumentState
from ocria_tui.state import AppState

_CODES = {"partial": EXIT_PARTIAL, "interrupted": EXIT_INTERRUPTED}


def exit_code(state: AppState, fail_on: str = "partial") -> int:
    """The exit code where a session ends as it stands. Documents that were not read to the end make it 130, but for
    those that the user gave up.

    Args:
        fail_on: one of `ocria.batch.options.FAIL_ON`.
    """
    if state.ended not in (None, "finished"):
        return EngineError.exit_code
    documents = [document for document in state.documents.values() if document.status != CANCELLED]
    if any(not document.ended or document.status == "interrupted" for document in documents):
        return EXIT_INTERRUPTED
    if not state.documents and any(line.level in ("warning", "error") for line in state.log):
        return InputError.exit_code  # nothing could be opened
    return worst_code([_code(document) for document in documents], fail_on)


def _code(document: DocumentState) -> int:
    if document.exit_code is not None:
        return document.exit_code
    if document.pages and document.counts["timeout"] == len(document.pages):
        return TimeoutExceeded.exit_code
    return EXIT_FAILED if document.status == FAILED else _CODES.get(document.status, EXIT_OK)
