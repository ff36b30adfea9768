"""A document as JSON Lines: one line a page, each complete in itself."""

from __future__ import annotations

import json
from typing import Any

from ocria.document.options import ParseOptions
from ocria.document.result import Document, Page
from ocria.document.write.json import SCHEMA_VERSION, error_data, page_data
from ocria.document.write.pictures import Target, readable_name

_DEFAULTS = ParseOptions()


def to_jsonl(
    document: Document, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None
) -> str:
    """A line for each page; one without a page for a document that could not be read at all."""
    if document.error is not None:
        return _line(document.path, error_data(document.error), None)
    return "".join(jsonl_line(document.path, page, options, picture_target) for page in document.pages)


def jsonl_line(
    document_path: str, page: Page, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None
) -> str:
    """The line of one page, with its end, for those who write pages as they come."""
    return _line(document_path, None, page_data(page, options.images, picture_target))


def _line(path: str, error: dict[str, Any] | None, page: dict[str, Any] | None) -> str:
    line = {"schema_version": SCHEMA_VERSION, "document": readable_name(path), "error": error, "page": page}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
