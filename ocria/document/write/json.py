"""A document as JSON, after `schema.json` beside this file."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

from ocria import __version__
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, LineText, Page
from ocria.document.write.pictures import Target, readable_name
from ocria.errors import OcriaError

SCHEMA_VERSION = "1.3"
_DEFAULTS = ParseOptions()


def to_json(document: Document, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None) -> str:
    """The document as indented JSON text."""
    return json.dumps(to_dict(document, options, picture_target), ensure_ascii=False, indent=2) + "\n"


def to_dict(
    document: Document, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None
) -> dict[str, Any]:
    """The document as plain data. Running headers and footers are always part of it; figures bear their pixels where
    the options embed them, the names of their files where they extract them."""
    model = document.model
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ocria", "version": __version__},
        "model": None if model is None else {"name": model.name, "version": model.version},
        "document": {
            "path": readable_name(document.path),
            "pages": document.page_count,
            "sha256": document.sha256,
            "converted_from": document.converted_from,
        },
        "status": document.status,
        "error": None if document.error is None else error_data(document.error),
        "seconds": round(document.seconds, 3),
        "pages": [page_data(page, options.images, picture_target) for page in document.pages],
    }


def error_data(error: OcriaError) -> dict[str, Any]:
    """Why a document could not be read, as plain data."""
    return {"type": type(error).__name__, "message": error.message, "cure": error.cure}


def page_data(page: Page, images: str = "none", picture_target: Target | None = None) -> dict[str, Any]:
    """A page as plain data; `images` as in the options."""
    return {
        "index": page.index,
        "status": page.status,
        "error": page.error,
        "width": page.width,
        "height": page.height,
        "rotation": page.rotation,
        "route": page.route,
        "reason": page.reason,
        "tokens_in": page.tokens_in,
        "tokens_out": page.tokens_out,
        "seconds": round(page.seconds, 3),
        "confidence": page.confidence,
        "acceptance": page.acceptance,
        "blocks": [_block(page, block, images, picture_target) for block in page.blocks],
        "lines": [_line(line) for line in page.lines],
    }


def _block(page: Page, block: Block, images: str, picture_target: Target | None) -> dict[str, Any]:
    return {
        "type": block.type,
        "box": list(block.box),
        "text": block.text,
        "markdown": block.markdown,
        "confidence": block.confidence,
        "order": block.order,
        "level": block.level,
        "font_size": block.font_size,
        "cells": None if block.cells is None else [asdict(cell) for cell in block.cells],
        "row_pages": block.row_pages,
        "continues": block.continues,
        "picture": _picture(page, block, images, picture_target),
    }


def _picture(page: Page, block: Block, images: str, picture_target: Target | None) -> dict[str, Any] | None:
    picture = block.picture
    if picture is None:
        return None
    told: dict[str, Any] = {"media_type": picture.media_type, "width": picture.width, "height": picture.height}
    if images == "embed":
        told["data"] = base64.b64encode(picture.data).decode("ascii")
    elif images == "extract" and picture_target is not None:
        told["file"] = picture_target(page, block)
    return told


def _line(line: LineText) -> dict[str, Any]:
    return {"box": list(line.box), "text": line.text, "confidence": line.confidence, "status": line.status}
