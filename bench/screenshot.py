"""A picture of the app while it reads a document, as SVG.

    python bench/screenshot.py page.tiff --out docs/tui.svg

The app runs without a terminal and reads with the real engine; the picture is taken once some documents are done and
text has come for a share of the lines of the page that is shown. Names of files are shown as given, so it is run beside
them; outputs go to ./ocria-out.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path

from ocria_tui.app import OcriaApp
from ocria_tui.sessions import make_session
from ocria_tui.settings import AppSettings

_POLL_S = 0.05
_PATIENCE_S = 600.0
_TITLES = re.compile(r"terminal-\d+-")
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.S)
"""Fetched from the network by whoever looks at the picture."""


async def screenshot(
    files: list[str], size: tuple[int, int], share: float, done: int, options: dict[str, object]
) -> str:
    """The SVG. Raises TimeoutError: the moment never comes."""
    session = make_session(files, {"mode": "model", "resume": False, **options})
    app = OcriaApp(session, AppSettings(animation=False))
    try:
        async with asyncio.timeout(_PATIENCE_S), app.run_test(size=size) as pilot:
            while not _is_time(app, share, done):
                if app.state.ended is not None:
                    raise RuntimeError(app.state.ended)
                await pilot.pause(_POLL_S)
            return _TITLES.sub("t-", _FONTS.sub("", app.export_screenshot(title="ocria tui")))
    finally:
        session.close()


def _is_time(app: OcriaApp, share: float, done: int) -> bool:
    page = app.shown_page
    if page is None or not page.boxes or page.image is None or page.done or app.state.documents_ended < done:
        return False
    return len(page.units) >= share * len(page.boxes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", default="150x44", help="columns and rows (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.6, help="of the lines that have text (default: %(default)s)")
    parser.add_argument("--done", type=int, default=0, help="documents that are done before (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="requests at the same time (default: %(default)s)")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    svg = asyncio.run(screenshot(options.files, (columns, rows), options.share, options.done, {"batch": options.batch}))
    options.out.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
