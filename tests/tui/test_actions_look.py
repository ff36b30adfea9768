"""What is shown, by keys."""

import pytest
from driven import app_of, asked, asynchronous, notices, until
from fake_session import FakeSession
from ocria_tui.actions import leave
from ocria_tui.kept import kept_theme
from ocria_tui.keymap import ACTIONS, bindings
from ocria_tui.screens.goto import GoTo
from ocria_tui.screens.help import Help
from ocria_tui.settings import AppSettings
from textual.widgets import Input, OptionList


@asynchronous
async def test_documents_and_pages():
    async with app_of() as (app, pilot):
        assert (app.document, app.page) == ("report.pdf", 4), "it follows what is being read"
        await pilot.press("k")
        assert (app.document, app.page, app.following) == ("first.pdf", 1, False)
        await pilot.press("right")
        assert (app.document, app.page) == ("first.pdf", 2)
        await pilot.press("right", "k")
        assert (app.document, app.page) == ("first.pdf", 2), "there is nothing behind the ends"
        await pilot.press("j")
        assert (app.document, app.page) == ("report.pdf", 4), "the page that was shown last"
        await pilot.press("left", "left")
        assert app.page == 2
        await pilot.press("enter")
        assert app.following
        app.poll()
        assert "Following" in notices(app)
        await pilot.press("enter")
        assert not app.following


@asynchronous
async def test_go_to_a_page():
    async with app_of() as (app, pilot):
        await pilot.press("g")
        assert isinstance(app.screen, GoTo)
        await pilot.press("1", "3", "enter")
        assert "no page 13" in str(app.screen.query_one("#problem").render())
        assert "1 to 12" in str(app.screen.query_one("#problem").render())
        app.screen.query_one(Input).value = "11"
        await pilot.press("enter")
        assert (app.document, app.page, app.following) == ("report.pdf", 11, False)
        await pilot.press("g", "escape")
        assert not isinstance(app.screen, GoTo)
        assert app.page == 11


@asynchronous
async def test_switches():
    async with app_of() as (app, pilot):
        for key, name, first in (("m", "raw", False), ("b", "boxes", True), ("i", "images", True),
                                 ("l", "log_shown", True)):  # fmt: skip
            assert getattr(app, name) is first
            await pilot.press(key)
            assert getattr(app, name) is not first
            await pilot.press(key)
            assert getattr(app, name) is first


@asynchronous
async def test_images_that_the_command_line_forbids():
    async with app_of(settings=AppSettings(images=False)) as (app, pilot):
        await pilot.press("i")
        assert app.images is False
        assert "--no-images" in notices(app)
        assert not asked(app, "draw")


@asynchronous
async def test_themes_one_after_the_other_and_the_one_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with app_of() as (app, pilot):
        names = sorted(app.available_themes)
        app.theme = names[-2]
        await pilot.press("t")
        assert app.theme == names[-1]
        await pilot.press("t")
        assert app.theme == names[0], "it begins again"
        assert f"Theme {app.theme}" in notices(app)
        assert not (tmp_path / "ocria").exists(), "nothing is kept unless the user asks for it"
        await pilot.press("T")
        assert (tmp_path / "ocria" / "theme").read_text() == f"{app.theme}\n"
        kept = app.theme
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "ocria" / "theme"))
        await pilot.press("T")
        assert "cannot be kept" in notices(app)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert kept_theme() == kept


@asynchronous
async def test_help_shows_the_keys_that_hold():
    settings = AppSettings(keymap={"export": "w", "help": "f1,question_mark"})
    async with app_of(settings=settings) as (app, pilot):
        await pilot.press("f1")
        assert isinstance(app.screen, Help)
        lines = app.screen.lines()
        for action in ACTIONS:
            (line,) = [line for line in lines if line.endswith(f" {action.help}")]
            assert not line.strip().startswith("-"), f"{action.name} has no key"
        assert any(line.split()[:1] == ["w"] and "any format" in line for line in lines)
        assert not any(line.split()[:1] == ["e"] for line in lines)
        assert any(line.strip().startswith("f1, ?") for line in lines)
        await pilot.press("q")
        assert not isinstance(app.screen, Help)
        assert app.is_running
        await pilot.press("e")
        assert len(app.screen_stack) == 1, "the default key is gone"
        await pilot.press("w")
        assert len(app.screen_stack) == 2


@asynchronous
async def test_keys_of_several_actions_change_places():
    settings = AppSettings(keymap={"pause": "r", "retry": "p"})
    async with app_of(settings=settings) as (app, pilot):
        await pilot.press("r")
        assert asked(app, "pause") == [()]
        await pilot.press("k", "p")
        assert asked(app, "retry") == [("first.pdf", [1])]


@asynchronous
async def test_the_palette_finds_an_action_by_what_it_does():
    async with app_of() as (app, pilot):
        await pilot.press("ctrl+p", *"boxes")
        options = app.screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count > 0 and options.highlighted is not None)
        await pilot.press("enter")
        await until(pilot, lambda: app.boxes is False)


@asynchronous
async def test_every_key_with_nothing_to_show():
    """None of them fails before anything is there."""
    async with app_of(FakeSession()) as (app, pilot):
        for binding in bindings():
            if binding.action not in ("quit", "command_palette", "cycle_theme", "keep_theme"):
                await pilot.press(binding.key)
                assert app.is_running, binding.action
                while len(app.screen_stack) > 1:
                    await pilot.press("escape")
        assert {name for name, *_ in app.session.asked} <= {"start", "pause"}
        assert "There is no document. Open one first." in notices(app)


@asynchronous
async def test_quit_asks_where_something_is_being_read(monkeypatch):
    monkeypatch.setattr(leave, "ASK_SECONDS", 600.0)  # a busy machine may take long between two keys
    async with app_of() as (app, pilot):
        await pilot.press("q")
        assert app.is_running
        assert "2 documents are not read to the end" in notices(app)
        assert "finished pages are kept" in notices(app)
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
@asynchronous
async def test_quit_ends_at_once_where_nothing_is(key):
    async with app_of(FakeSession()) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running
        assert app.return_code == 0
