"""Pause, cancel, retry, by keys: what the session is asked, and what is asked of the user first."""

from driven import app_of, asked, asynchronous, fill, notices, problem, until
from fake_session import FakeSession, halfway
from ocria_tui.messages import DocumentQueued, PausedChanged, SessionEnded
from ocria_tui.screens.confirm import Confirm
from ocria_tui.screens.retry import Retry
from textual.widgets import Select

from ocria.events import DocumentFailed


@asynchronous
async def test_pause_and_go_on():
    async with app_of() as (app, pilot):
        await pilot.press("p")
        assert asked(app, "pause") == [()]
        assert not app.state.paused, "the session says when it is"
        app.session.say(PausedChanged(True))
        app.poll()
        await pilot.press("p")
        assert (asked(app, "pause"), asked(app, "resume")) == ([()], [()])


@asynchronous
async def test_cancel_a_page_or_a_document():
    async with app_of() as (app, pilot):
        await pilot.press("x")
        assert asked(app, "cancel") == [("report.pdf", 4)]
        await pilot.press("left", "x")
        assert asked(app, "cancel") == [("report.pdf", 4)]
        assert "Page 3 is done already" in notices(app)
        await pilot.press("X")
        assert asked(app, "cancel")[1:] == [("report.pdf",)]
        await pilot.press("k", "X")
        assert len(asked(app, "cancel")) == 2
        assert "This document is done already" in notices(app)


@asynchronous
async def test_cancel_all_is_confirmed():
    async with app_of() as (app, pilot):
        for no in ("n", "escape", "enter"):  # the safe answer has the focus
            await pilot.press("ctrl+x")
            assert isinstance(app.screen, Confirm)
            assert "2 documents" in app.screen.question
            await pilot.press(no)
            assert len(app.screen_stack) == 1
        assert asked(app, "cancel") == []
        await pilot.press("ctrl+x", "y")
        assert asked(app, "cancel") == [()]


@asynchronous
async def test_retry():
    async with app_of() as (app, pilot):
        await pilot.press("r")
        assert "Page 4 is being read" in notices(app)
        await pilot.press("left", "r")
        assert asked(app, "retry") == [("report.pdf", [3])]
        assert "Page 3" in notices(app)


@asynchronous
async def test_retry_with_other_settings():
    session = FakeSession({"mode": "auto", "dpi": 200, "pages": "1-12", "draft": "none"})
    halfway(session)
    async with app_of(session) as (app, pilot):
        await pilot.press("R")
        assert isinstance(app.screen, Retry)
        for which, dpi, told in (
            ("13", "200", "page 13 is out of range"), ("3-1", "200", "reversed"), ("1", "20", "dpi must be"),
            ("1", "fine", "dpi must be a whole number, not 'fine'"),
        ):  # fmt: skip
            fill(app, "which", which)
            fill(app, "dpi", dpi)
            await pilot.press("ctrl+s")
            assert told in problem(app)
        fill(app, "which", "2-3, 5")
        fill(app, "dpi", "150")
        app.screen.query_one("#mode", Select).value = "model"
        await pilot.press("ctrl+s")
        assert asked(app, "retry") == [("report.pdf", [2, 3, 5], {"mode": "model", "dpi": 150})]
        await pilot.press("R")
        fill(app, "which", "")
        await pilot.press("ctrl+s")
        assert asked(app, "retry")[1:] == [("report.pdf", None, {})]
        await pilot.press("R", "escape")
        assert len(asked(app, "retry")) == 2
        await pilot.press("R")
        fill(app, "password", "secret")
        await pilot.pause()
        assert "secret" not in app.export_screenshot()
        await pilot.press("ctrl+s")
        assert asked(app, "retry")[2:] == [("report.pdf", [4], {"password": "secret"})]


@asynchronous
async def test_a_document_that_cannot_be_opened_says_why_and_takes_a_password():
    session = FakeSession()
    session.say(DocumentQueued("locked [x].pdf"))
    async with app_of(session, size=(80, 24)) as (app, pilot):
        assert "This document is queued" in lines_of(app, "text")
        assert "pages are not known yet" in lines_of(app, "strip")
        session.say(DocumentFailed("locked [x].pdf", "the PDF is [encrypted]", "Give its password", 4))
        app.poll()
        await pilot.pause()
        told = lines_of(app, "text")
        assert "failed: the PDF is [encrypted]" in told
        assert "cure: Give its password" in told
        assert "no page is known" in lines_of(app, "strip")
        await pilot.press("R", *"secret", "enter")
        assert asked(app, "retry") == [("locked [x].pdf", None, {"password": "secret"})]


def lines_of(app, pane):
    """What a pane shows, as plain text."""
    pane = app.query_one(f"#{pane}")
    return "\n".join(pane.render_line(row).text for row in range(pane.size.height))


@asynchronous
async def test_a_recording_has_no_engine():
    session = FakeSession()
    session.live = False
    halfway(session)
    async with app_of(session) as (app, pilot):
        for key in ("x", "X", "ctrl+x", "r", "R", "o", "s"):
            await pilot.press(key)
            assert len(app.screen_stack) == 1
        assert notices(app).count("This is a recording") == 7
        await pilot.press("p", "ctrl+r")
        assert {name for name, *_ in session.asked} - {"draw"} == {"start", "pause", "restart"}
        assert (app.state.documents, app.document, app.page) == ({}, None, None)
        session.say(DocumentQueued("report.pdf"))
        app.poll()
        assert (app.document, app.page) == ("report.pdf", None), "no page of it has come again"
        halfway(session)
        await until(pilot, lambda: (app.document, app.page) == ("report.pdf", 4))
        assert len(app.state.documents) == 3
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running, "nothing is lost, so nothing is asked"


@asynchronous
async def test_an_engine_that_has_ended():
    async with app_of() as (app, pilot):
        await pilot.press("ctrl+r")
        assert "The engine is running" in notices(app)
        app.session.say(SessionEnded("the process was killed", "Lower --batch"))
        app.poll()
        assert "the process was killed. Lower --batch" in notices(app)
        await pilot.press("r", "x", "o")
        assert notices(app).count("The engine has ended") == 3
        assert not asked(app, "restart")
        await pilot.press("ctrl+r")
        assert asked(app, "restart") == [()]
