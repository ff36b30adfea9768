"""Search, copy, export and the editor, by keys."""

import os
import stat

from driven import app_of, asked, asynchronous, fill, notices, problem
from fake_session import MARKDOWN, FakeSession, halfway, whole_page
from ocria_tui.actions import output
from ocria_tui.messages import DocumentQueued, Exported, Refused
from ocria_tui.screens.confirm import Confirm
from ocria_tui.screens.export import Export
from ocria_tui.screens.find import Find
from textual.widgets import SelectionList


@asynchronous
async def test_search_over_all_pages():
    session = FakeSession()
    halfway(session)
    whole_page(session, "report.pdf", 9)
    async with app_of(session) as (app, pilot):
        await pilot.press("slash")
        assert isinstance(app.screen, Find)
        await pilot.press(*"LEVEL")
        # Pages 1 and 9 have it in a sentence and in a table, page 4, which is being read, in a sentence so far.
        assert str(app.screen.query_one("#count").render()) == "5 on 3 pages"
        await pilot.press("enter")
        assert (app.page, app.following) == (4, False), "from the page on that was shown"
        assert "'LEVEL': 3 of 5, page 4" in notices(app)
        await pilot.press("n", "n")
        assert app.page == 9
        await pilot.press("n")
        assert app.page == 1, "around the end"
        await pilot.press("N")
        assert app.page == 9
        await pilot.press("slash", "enter")
        assert app.search.words == "LEVEL", "the words are there again"
        await pilot.press("slash")
        await pilot.press(*"xyzzy", "enter")
        assert "'xyzzy' stands nowhere" in notices(app)
        assert (app.search.hits, app.page) == ((), 9)
        await pilot.press("slash", "backspace", "enter")
        assert app.search is None
        await pilot.press("n")
        assert "Nothing is looked for" in notices(app)


@asynchronous
async def test_copy():
    async with app_of() as (app, pilot):
        await pilot.press("c")
        assert app.clipboard.startswith("Annual report\nof the river authority"), "what has come so far"
        assert "Copied page 4" in notices(app)
        await pilot.press("left", "c")
        assert "There is no text on this page" in notices(app)
        await pilot.press("left", "left", "c")
        assert app.clipboard == MARKDOWN
        await pilot.press("C")
        assert app.clipboard.startswith(MARKDOWN + "\nAnnual report")
        assert f"Copied 2 pages: {len(app.clipboard)} characters" in notices(app)


@asynchronous
async def test_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = FakeSession({"formats": ("md", "json"), "output_dir": "out"})
    halfway(session)
    async with app_of(session) as (app, pilot):
        await pilot.press("e")
        assert isinstance(app.screen, Export)
        await pilot.press("ctrl+s")
        assert asked(app, "export") == [("report.pdf", ("md", "json"), "out", False)]
        session.say(Exported("report.pdf", ("out/report.pdf.md",)), Refused("the disk is full", "Make room", "b.pdf"))
        app.poll()
        assert "Wrote out/report.pdf.md" in notices(app)
        assert "b.pdf: the disk is full. Make room" in notices(app)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "report.pdf.json").touch()
        await pilot.press("e", "enter")  # in the list of formats, too
        assert isinstance(app.screen, Confirm)
        assert "out/report.pdf.json" in app.screen.question
        await pilot.press("n")
        assert len(asked(app, "export")) == 1
        formats = app.screen.query_one("#formats", SelectionList)
        formats.deselect_all()
        await pilot.press("ctrl+s")
        assert "at least one format" in problem(app)
        formats.select_all()
        fill(app, "target", "one.md")
        await pilot.press("ctrl+s")
        assert "one file cannot hold 6 formats" in problem(app)
        formats.deselect_all()
        formats.select("html")
        await pilot.press("ctrl+s")
        assert "the name is that of md, not of html" in problem(app)
        fill(app, "target", "")
        await pilot.press("ctrl+s")
        assert "name a folder or a file" in problem(app)
        fill(app, "target", "one.html")
        await pilot.press("ctrl+s")
        assert asked(app, "export")[1:] == [("report.pdf", ("html",), "one.html", False)]


@asynchronous
async def test_an_export_replaces_what_the_user_said_it_may(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.pdf.md").touch()
    session = FakeSession({"output_dir": "."})
    halfway(session)
    async with app_of(session) as (app, pilot):
        await pilot.press("e", "ctrl+s", "y")
        assert asked(app, "export") == [("report.pdf", ("md",), ".", True)]
        assert len(app.screen_stack) == 1


@asynchronous
async def test_nothing_to_export_copy_or_edit():
    session = FakeSession()
    session.say(DocumentQueued("a.pdf", (1, 2)))
    async with app_of(session) as (app, pilot):
        await pilot.press("e", "c", "C", "E")
        assert "No page of this document is done yet" in notices(app)
        assert "There is no text on this page" in notices(app)
        assert notices(app).count("Nothing of this document has been read") == 2


@asynchronous
async def test_edit_gives_the_document_to_an_editor(tmp_path, monkeypatch):
    editor = tmp_path / "my editor"
    editor.write_text(
        f'#!/bin/sh\ncat "$2" > "{tmp_path}/seen"; echo "$1 $2" > "{tmp_path}/called"\necho more >> "$2"\n'
    )
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"'{editor}' -w")
    async with app_of() as (app, pilot):
        suspended = fake_terminal(app, monkeypatch)
        await pilot.press("k", "E")
        assert suspended == ["away", "back"]
        assert (tmp_path / "seen").read_text() == f"{MARKDOWN}\n{MARKDOWN}"
        word, path = (tmp_path / "called").read_text().split()
        assert (word, os.path.basename(path)) == ("-w", "first.pdf.md")
        assert not os.path.exists(path)
        assert "The editor had a copy" in notices(app)
        monkeypatch.setenv("VISUAL", "false")
        await pilot.press("E")
        assert "false ended with 1" in notices(app)
        monkeypatch.setenv("VISUAL", str(tmp_path / "none"))
        await pilot.press("E")
        assert "No such file" in notices(app)
        monkeypatch.delenv("VISUAL")
        monkeypatch.delenv("EDITOR", raising=False)
        monkeypatch.setattr(output, "_EDITORS", ())
        await pilot.press("E")
        assert "no editor was found. Set EDITOR" in notices(app)


def fake_terminal(app, monkeypatch):
    """The app under test has no terminal to give away; notes when it would."""
    seen = []
    driver = app._driver
    monkeypatch.setattr(type(driver), "can_suspend", True)
    monkeypatch.setattr(driver, "suspend_application_mode", lambda: seen.append("away"))
    monkeypatch.setattr(driver, "resume_application_mode", lambda: seen.append("back"))
    return seen
