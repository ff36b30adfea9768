"""A document as JSON, after `schema.json` beside this file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ocria import __version__
from ocria.document.result import Block, Document, LineText, Page

SCHEMA_VERSION = "1.1"


def to_json(document: Document) -> str:
    """The document as indented JSON text."""
    return json.dumps(to_dict(document), ensure_ascii=False, indent=2) + "\n"


def to_dict(document: Document) -> dict[str, Any]:
    """The document as plain data."""
    model = document.model
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ocria", "version": __version__},
        "model": None if model is None else {"name": model.name, "version": model.version},
        "document": {"path": document.path, "pages": document.page_count, "sha256": document.sha256},
        "status": document.status,
        "seconds": round(document.seconds, 3),
        "pages": [_page(page) for page in document.pages],
    }


def _page(page: Page) -> dict[str, Any]:
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
        "blocks": [_block(block) for block in page.blocks],
        "lines": [_line(line) for line in page.lines],
    }


def _block(block: Block) -> dict[str, Any]:
    return {
        "type": block.type,
        "box": list(block.box),
        "text": block.text,
        "markdown": block.markdown,
        "confidence": block.confidence,
        "order": block.order,
        "level": block.level,
        "cells": None if block.cells is None else [asdict(cell) for cell in block.cells],
    }


def _line(line: LineText) -> dict[str, Any]:
    return {"box": list(line.box), "text": line.text, "confidence": line.confidence, "status": line.status}
