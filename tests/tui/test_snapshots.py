"""The whole screen as text, compared with what was looked at and kept. `KEEP_SNAPSHOTS=1` writes them anew.

Each story is told once, and the terminal is resized from size to size: what is seen must not depend on the way.
"""

import os
from pathlib import Path

import pytest
from driven import app_of, asynchronous
from fake_session import FakeSession, halfway
from ocria_tui.settings import AppSettings
from screens_seen import settle

from ocria.events import DocumentFailed, Note

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}
PANES = {"documents": "1", "engine": "4", "log": "5"}
STORIES = ("halfway", "done", "empty", "ascii")


def compare(name, text):
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("KEEP_SNAPSHOTS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} looks different. KEEP_SNAPSHOTS=1 keeps the new look"


def told(story):
    session = FakeSession()
    if story != "empty":
        halfway(session)
        session.say(DocumentFailed("broken.pdf", "the file is damaged", "Fetch it again", 4))
        session.say(Note("warning", "text of a font is not what it says", "report.pdf", 3))
    return session


@pytest.mark.parametrize(("story", "sizes"), [
    ("halfway", ["80x24", "200x60", "120x40", "80x24"]),
    ("done", ["200x60", "80x24", "120x40"]),
    ("empty", ["120x40", "200x60", "80x24"]),
    ("ascii", ["120x40", "80x24", "200x60"]),
])  # fmt: skip
@asynchronous
async def test_looks_as_it_did(story, sizes):
    settings = AppSettings(ascii=story == "ascii", animation=False)
    async with app_of(told(story), settings, SIZES[sizes[0]]) as (app, pilot):
        if story == "done":
            app.show("report.pdf", 1)
        for size in sizes:
            await pilot.resize_terminal(*SIZES[size])
            text = await settle(app, pilot)
            compare(f"{story}-{size}", text)
            assert text.isascii() or story != "ascii"


@asynchronous
async def test_panes_of_a_small_screen():
    async with app_of(told("halfway"), size=SIZES["80x24"]) as (app, pilot):
        for name, key in PANES.items():
            await pilot.press(key)
            compare(f"{name}-80x24", await settle(app, pilot))
        await pilot.press("3")
        compare("halfway-80x24", await settle(app, pilot))


def test_every_snapshot_belongs_to_a_story_and_fills_its_screen():
    names = {f"{story}-{size}" for story in STORIES for size in SIZES} | {f"{pane}-80x24" for pane in PANES}
    assert {file.stem for file in SNAPSHOTS.iterdir()} == names
    for file in SNAPSHOTS.iterdir():
        columns, rows = map(int, file.stem.rsplit("-", 1)[1].split("x"))
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) == rows
        assert max(map(len, lines)) <= columns
