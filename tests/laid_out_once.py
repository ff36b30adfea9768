"""PyMuPDF's layout analysis of pages that were analysed before in this process.

Its network takes most of the time of a page with text, and most tests read pages that others read too. It is a
function of the page alone, so the same bytes are analysed once; what is made of the answer is computed every time.
"""

import copy
import hashlib
from types import SimpleNamespace

from ocria.document import layout

_analyse = layout.parse_document
_known = {}


def _parse_document(pdf, *, pages, **options):
    key = hashlib.sha256(pdf.tobytes(no_new_id=True)).digest(), tuple(pages), *sorted(options.items())
    if key not in _known:
        _known[key] = [copy.deepcopy(page.boxes) for page in _analyse(pdf, pages=pages, **options).pages]
    return SimpleNamespace(pages=[SimpleNamespace(boxes=copy.deepcopy(boxes)) for boxes in _known[key]])


layout.parse_document = _parse_document
