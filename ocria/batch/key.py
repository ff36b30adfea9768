"""What the text of a document depends on, as short keys."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from pathlib import PurePath

from ocria.document.options import ParseOptions

# To be raised whenever pages come out differently or are kept differently, so that older ones are read again.
_FORMAT = 1
# These decide how fast a document is read, whether at all and how long it may take, but not what is read. Where a
# model runs may change the last bits of its numbers: that is no reason to read a folder again on another machine.
_WITHOUT_EFFECT = frozenset({
    "password", "device", "batch", "threads", "memory", "timeout", "page_timeout", "jobs", "compile", "graph",
    "overlap", "ring", "draft", "draft_rows",
})  # fmt: skip


def settings_key(options: ParseOptions, page_markers: bool, model: str | None) -> str:
    """Of the options that decide what the outputs say, and of the model; `model` is None where none is asked."""
    chosen = {
        option.name: getattr(options, option.name) for option in fields(options) if option.name not in _WITHOUT_EFFECT
    }
    if chosen["pages"] is not None and not isinstance(chosen["pages"], str):
        chosen["pages"] = sorted(set(chosen["pages"]))
    return _digest([_FORMAT, {**chosen, "model": model, "page_markers": page_markers}])


def pages_key(settings: str, sha256: str, path: str) -> str:
    """Of the pages of a document. The suffix of its name counts, for plain text is told by it."""
    return _digest([settings, sha256, PurePath(path).suffix.lower()])


def _digest(what: object) -> str:
    text = json.dumps(what, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]
