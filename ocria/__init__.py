"""Turn PDFs and page images into Markdown, HTML, text or JSON.

    import ocria

    document = ocria.parse("scan.pdf")
    print(document.markdown)

    for event in ocria.stream("scan.pdf"):
        print(event.to_dict())

    for document in ocria.parse_many(["a.pdf", "b.png"]):
        print(document.path, document.status)

Names are imported on first use, so that `import ocria` is instant and loads neither torch nor PyMuPDF.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ocria.batch.many import parse_many
    from ocria.document.api import parse, stream
    from ocria.document.control import Control
    from ocria.document.result import Block, Document, Page
    from ocria.errors import OcriaError

__all__ = ["Block", "Control", "Document", "OcriaError", "Page", "__version__", "parse", "parse_many", "stream"]

_HOMES = {
    "parse": "ocria.document.api",
    "parse_many": "ocria.batch.many",
    "stream": "ocria.document.api",
    "Control": "ocria.document.control",
    "Document": "ocria.document.result",
    "Page": "ocria.document.result",
    "Block": "ocria.document.result",
    "OcriaError": "ocria.errors",
}


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'ocria' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
