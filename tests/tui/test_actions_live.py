"""Actions against the engine that ships with ocria, in its own process."""

from driven import SIZE, asynchronous, fill, listened, notices, until
from ocria_tui.app import OcriaApp
from ocria_tui.sessions import make_session
from ocria_tui.settings import AppSettings
from scan_made import scan
from sessions_made import PATIENCE_S, pdf


@asynchronous
async def test_a_session_by_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scan("scan.png")
    pdf("report.pdf", 3, "Words of a report, enough to be believed,")
    session = make_session([], {"output_dir": "out", "threads": 1})
    app = listened(OcriaApp(session, AppSettings(animation=False)))
    documents = app.state.documents

    async def so(true):
        await until(pilot, true, PATIENCE_S)

    async def read(path, pages):
        await so(lambda: documents[path].ended and documents[path].status == "ok")
        assert sorted(documents[path].pages) == pages

    try:
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await pilot.press("p")
            await so(lambda: app.state.paused)
            for path, pages in (("scan.png", ""), ("report.pdf", "1-2")):
                await pilot.press("o")
                fill(app, "path", path)
                fill(app, "pages", pages)
                await pilot.press("ctrl+o")
                await so(lambda path=path: path in documents)
            await pilot.press("q")
            assert app.is_running
            assert "2 documents are not read to the end" in notices(app)
            await pilot.press("ctrl+x", "y")
            await so(lambda: {document.status for document in documents.values()} == {"cancelled"})
            await pilot.press("p")
            await so(lambda: not app.state.paused)

            await so(lambda: app.document is not None)
            app.show("report.pdf")
            await pilot.press("r")
            await read("report.pdf", [1, 2])
            app.show("scan.png")
            await pilot.press("r")
            await read("scan.png", [1])
            first = documents["scan.png"].pages[1]
            assert "tide gauge" in first.markdown
            seconds = first.seconds
            await pilot.press("R", "ctrl+s")
            await so(lambda: first.done and first.seconds != seconds)
            await read("scan.png", [1])

            await pilot.press("slash", *"NOON", "enter")
            assert app.search.hit.page == 1
            await pilot.press("c")
            assert app.clipboard == first.markdown

            await pilot.press("e")
            fill(app, "target", "mine.md")
            await pilot.press("ctrl+s")
            exported = tmp_path / "mine.md"
            await so(exported.exists)
            assert exported.read_bytes() == (tmp_path / "out" / "scan.png.md").read_bytes()
            exported.write_text("something else")
            await pilot.press("e")
            fill(app, "target", "mine.md")
            await pilot.press("ctrl+s", "y")
            await so(lambda: exported.read_bytes() == (tmp_path / "out" / "scan.png.md").read_bytes())

            await pilot.press("p")
            await so(lambda: app.state.paused)
            app.show("report.pdf", 2)
            await pilot.press("r")
            await so(lambda: not documents["report.pdf"].pages[2].done)
            await pilot.press("x", "p")
            await so(lambda: documents["report.pdf"].ended)
            assert documents["report.pdf"].pages[2].status == "cancelled"
            assert documents["report.pdf"].pages[1].status == "ok"

            await pilot.press("s")
            fill(app, "pages", "3")
            await pilot.press("ctrl+s")
            await so(lambda: session.options.get("pages") == "3")
            await pilot.press("q")
            await pilot.pause()
            assert not app.is_running
    finally:
        session.close()
