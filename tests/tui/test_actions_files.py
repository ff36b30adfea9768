"""Opening and settings, by keys."""

import asyncio

from driven import app_of, asked, asynchronous, fill, notices, problem, until
from fake_session import FakeSession
from ocria_tui.screens.browse import Browse, DocumentTree
from ocria_tui.screens.paths import PathSuggester
from ocria_tui.screens.settings import Settings
from textual.widgets import Input, Select, SelectionList


def made_folder(tmp_path):
    """Readable files among others."""
    for name in ("b10.pdf", "b9.pdf", "scan.PNG", "notes.docx", "data.bin", ".hidden.pdf", "more/c.pdf", "more/x.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()


def offered(tree):
    return {node.data.path.name for node in tree.root.children}


@asynchronous
async def test_choose_in_the_tree(tmp_path, monkeypatch):
    made_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    async with app_of(FakeSession()) as (app, pilot):
        await pilot.press("o")
        assert isinstance(app.screen, Browse)
        tree = app.screen.query_one(DocumentTree)
        await until(pilot, lambda: len(tree.root.children) >= 5)
        assert offered(tree) == {"b10.pdf", "b9.pdf", "scan.PNG", "notes.docx", "more"}
        await pilot.press("ctrl+o")
        assert "nothing is chosen" in problem(app)
        await pilot.press("down", "space", "j", "space")  # the folder comes first
        assert "2 chosen: more, b10.pdf" in str(app.screen.query_one("#chosen").render())
        await pilot.press("space", "down", "space")
        await pilot.press("ctrl+o")
        assert len(app.screen_stack) == 1
        assert asked(app, "open") == [(["more", "b9.pdf"], None)]


@asynchronous
async def test_enter_opens_one_file_and_folders_above_can_be_seen(tmp_path, monkeypatch):
    made_folder(tmp_path)
    monkeypatch.chdir(tmp_path / "more")
    async with app_of(FakeSession()) as (app, pilot):
        await pilot.press("o")
        tree = app.screen.query_one(DocumentTree)
        await until(pilot, lambda: offered(tree) == {"c.pdf"})
        await pilot.press("backspace")
        await until(pilot, lambda: "b9.pdf" in offered(tree))
        await until(pilot, lambda: tree.root.children[-1].line >= 0)
        tree.move_cursor(next(node for node in tree.root.children if node.data.path.name == "b9.pdf"))
        await pilot.press("enter")
        assert asked(app, "open") == [([str(tmp_path / "b9.pdf")], None)]


@asynchronous
async def test_paths_that_are_typed(tmp_path, monkeypatch):
    made_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with app_of(FakeSession()) as (app, pilot):
        for typed, opened in (("b*.pdf", "b*.pdf"), ("~/more", str(tmp_path / "more")), ("data.bin", "data.bin")):
            await pilot.press("o")
            fill(app, "path", typed)
            await pilot.press("ctrl+o")
            assert asked(app, "open")[-1] == ([opened], None)
        await pilot.press("o")
        fill(app, "path", "none.pdf")
        await pilot.press("ctrl+o")
        assert problem(app) == "none.pdf is not there"
        fill(app, "path", "b9.pdf")
        fill(app, "pages", "5-1")
        await pilot.press("ctrl+o")
        assert "reversed" in problem(app)
        fill(app, "pages", "1-3,7")
        await pilot.press("ctrl+o")
        assert asked(app, "open")[-1] == (["b9.pdf"], {"pages": "1-3,7"})
        await pilot.press("o", "escape")
        assert len(asked(app, "open")) == 4


def test_paths_are_completed(tmp_path, monkeypatch):
    made_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def suggested(value, **options):
        return asyncio.run(PathSuggester(**options).get_suggestion(value))

    assert suggested("b") == "b9.pdf", "9 goes before 10"
    assert suggested("b1") == "b10.pdf"
    assert suggested("m") == "more/"
    assert suggested("more/") == "more/c.pdf"
    assert suggested("~/sc") == "~/scan.PNG"
    assert suggested(f"{tmp_path}/no") == f"{tmp_path}/notes.docx"
    assert suggested("da") is None, "no kind that can be read"
    assert suggested(".h") == ".hidden.pdf"
    assert suggested("") is None
    assert suggested("none/") is None
    assert suggested("b", folders=True) is None


@asynchronous
async def test_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    session = FakeSession({"mode": "text", "timeout": 5.0, "formats": ("md", "json"), "recursive": True})
    async with app_of(session) as (app, pilot):
        await pilot.press("s")
        assert isinstance(app.screen, Settings)
        assert app.screen.query_one("#mode", Select).value == "text"
        for name, text, told in (
            ("dpi", "5000", "dpi must be a whole number between 36 and 1200"),
            ("batch", "some", "batch must be a whole number, not 'some'"),
            ("pages", "1-x", "'1-x' is not a page range"),
            ("device", "tpu", "device must be cpu, cuda or cuda:N"),
            ("output_dir", "file", "is no folder"),
        ):
            before = app.screen.query_one(f"#{name}", Input).value
            fill(app, name, text)
            await pilot.press("ctrl+s")
            assert told in problem(app)
            fill(app, name, before)
        formats = app.screen.query_one("#formats", SelectionList)
        formats.deselect_all()
        await pilot.press("ctrl+s")
        assert "at least one format" in problem(app)
        formats.select("html")
        formats.select("md")
        for name, text in (("pages", "2-4"), ("model", "some/model"), ("draft", ""), ("batch", "3"),
                           ("password", "secret"), ("output_dir", "new/out")):  # fmt: skip
            fill(app, name, text)
        await pilot.press("ctrl+s")
        (told,) = asked(app, "set_options")
        assert told[0] == {
            "mode": "text", "timeout": 5.0, "recursive": True, "formats": ("md", "html"), "output_dir": "new/out",
            "pages": "2-4", "model": "some/model", "draft": "auto", "batch": 3, "dpi": None, "device": None,
            "max_output_tokens": None, "table_format": "auto", "password": "secret",
        }  # fmt: skip
        assert "opened from now on" in notices(app)
        await pilot.press("s", "escape")
        assert len(asked(app, "set_options")) == 1
