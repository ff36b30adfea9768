"""What panes show, and how much they do for it."""

import random
import re

import pytest
from driven import app_of, asked, asynchronous, notices
from fake_session import MARKDOWN, TEXTS, FakeSession, begun, boxes_of, draw_page, halfway, tick, whole_page
from ocria_tui import markdown
from ocria_tui.glyphs import GLYPHS, fold, glyph, spark
from ocria_tui.markdown import markdown_lines, plain_lines
from ocria_tui.messages import DocumentQueued, PageImage
from ocria_tui.raster import FRESH, READ, WAITS, Mark, cells, fit, page_map, tinted
from ocria_tui.search import Search
from ocria_tui.settings import AppSettings
from ocria_tui.state import LIVE, QUEUED, AppState, LogLine, apply
from ocria_tui.theme import DARK, THEMES, Palette
from ocria_tui.widgets.engine import accepted_shares, engine_text, size_of
from ocria_tui.widgets.log import rows_of
from ocria_tui.widgets.pane import fitted
from rich.cells import cell_len
from rich.style import Style
from screens_seen import screen_text, segments, settle

from ocria.document.result import STATUSES
from ocria.events import DocumentStarted, EngineTick, Note, PageDone, TextDelta

PALETTE = Palette.of(THEMES[0])
SMALL, LARGE = (80, 24), (200, 60)


def plain(lines):
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def test_every_status_has_a_sign_of_its_own_in_ascii_too():
    for ascii_only in (False, True):
        signs = [glyph(status, ascii_only)[0] for status in {*STATUSES, *LIVE, QUEUED, "cancelled"}]
        assert len(set(signs)) == len(signs)
        assert all(cell_len(sign) == 1 for sign in signs)
        assert not ascii_only or all(map(str.isascii, signs))
    assert glyph("of a later version")[0] not in [sign for sign, _, _ in GLYPHS.values()]


def test_folding_keeps_the_width_of_all_characters():
    draw = random.Random()
    texts = ["Größe – ½ €", "東京タワー", "│┃━╭╯▀░ ▁█", "e\u0301a\u0300", "ℵ→∞ “quoted” …", "👍🏽 flag"]
    texts += ["".join(chr(draw.choice([draw.randrange(0xA0, 0x3000), 0x4E00])) for _ in range(20)) for _ in range(200)]
    for text in texts:  # control characters never come that far
        for character in text:
            folded = fold(character)
            assert folded.isascii()
            assert len(folded) == cell_len(character), repr(character)
    assert fold("Grüße – ½") == "Gru?e - ?"


def test_a_spark_is_as_high_as_its_value_and_empty_where_nothing_was_done():
    assert spark([0.0, 1.0, 8.0, 4.0]) == " ▂█▅"
    assert spark([0.0, 0.0]) == "  "
    assert spark([0.0, 3.0], ascii_only=True) == " #"


def test_engine_says_n_a_for_all_that_is_not_known():
    text = engine_text(AppState(), PALETTE, 40, 40).plain
    assert text.count("n/a") >= 9
    assert not re.search(r"\d", text.replace("tokens/s", "")), text
    state = AppState()
    apply(state, 0.0, EngineTick(0.0, 0.0, 0, 0))
    text = engine_text(state, PALETTE, 40, 40).plain
    assert re.search(r"decode +n/a +n/a", text)
    assert re.search(r"memory +n/a", text)
    assert re.search(r"n/a/s, n/a of limit", text)
    assert re.search(r"batch +0 running", text)


def test_engine_tells_speeds_now_and_mean_and_shares_by_position():
    state = AppState()
    for at, now in enumerate([100.0, 0.0, 812.0]):
        apply(state, 5.0 * at, tick(now=now))
    text = engine_text(state, PALETTE, 40, 40).plain
    assert re.search(r"decode +812 +640", text)
    assert re.search(r"accept +3\.38 ", text)
    assert "last 0:10, top 812/s" in text
    shares = accepted_shares(state.tick.acceptance)
    assert shares == [7 / 8, 5 / 8, 4 / 8, 3 / 8]
    assert accepted_shares(state.tick.acceptance.as_dict()) == shares, "a recording has plain data"
    assert [int(share) for share in re.findall(r"^ +\d .* (\d+) %$", text, re.M)] == [88, 62, 50, 38]
    idle = tick(now=0.0)
    apply(state, 15.0, idle)
    text = engine_text(state, PALETTE, 40, 40).plain
    assert re.search(r"decode +idle +640", text)
    assert re.search(r"prefill +n/a +2400", text), "recordings of before do not tell"
    for speed, told in ((0.0, "idle"), (3100.4, "3100")):
        apply(state, 16.0, tick(prefill_tokens_per_last_s=speed))
        assert re.search(rf"prefill +{told} +2400", engine_text(state, PALETTE, 40, 40).plain)


def test_the_engine_pane_fits_any_height():
    state = AppState()
    apply(state, 1.0, tick())
    for height in range(11, 40):
        assert len(engine_text(state, PALETTE, 36, height).plain.split("\n")) <= height


@pytest.mark.parametrize(("value", "text"), [
    (None, "n/a"), (0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (48e6, "48.0 MB"), (123e9, "123 GB"),
    (4e15, "4000 TB"),
])  # fmt: skip
def test_sizes(value, text):
    assert size_of(value) == text


def test_names_are_cut_to_cells():
    for text in ("report.pdf", "長い名前の文書.pdf", "x" * 50):
        for width in range(0, 30):
            for end in (False, True):
                assert cell_len(fitted(text, width, end=end)) == width
    assert fitted("chapter-12.pdf", 8, end=True) == "…-12.pdf"


def test_markdown_loses_no_words():
    table = (
        '<table><tr><th colspan="2">Total sum</th></tr><tr><td>left<br>below</td><td>right</td></tr></table>\n\n'
        "After <sub>it</sub> a | b.\n\n<!-- hidden -->\n\n<div>in a box</div>\n\n| a | b |\n|---|---|\n| x<br>y | z |\n"
        "\n![a picture](figures/p1.png)\n\n```\ncode  here\n```\n\n1. first\n   - inner\n\n> quoted\n\n$x < y$"
    )
    for width in (20, 40, 100):
        lines = plain(markdown_lines(table, width, PALETTE))
        assert all(cell_len(line) <= width for line in lines)
        words = " ".join(lines)
        for word in ("Total", "left", "below", "right", "After", "it", "box", "a", "x", "y", "z", "picture", "here",
                     "first", "inner", "quoted"):  # fmt: skip
            assert re.search(rf"\b{word}\b", words), (width, word)
        assert "leftbelow" not in words
        assert "xy" not in words
        assert "hidden" not in words


def test_growing_markdown_is_laid_out_as_the_whole_would_be(monkeypatch):
    laid_out = []
    monkeypatch.setattr(
        markdown, "markdown_lines", lambda text, *rest: laid_out.append(len(text)) or markdown_lines(text, *rest)
    )
    seed = random.SystemRandom().getrandbits(32)
    draw = random.Random(seed)
    blocks = ["# Head", "word " * 60, "| a | b |\n|---|---|\n| 1 | 2 |", "```\nx = 1\n\ny = 2\n```",
              "<table><tr><td>in\n\ncell</td></tr></table>"]  # fmt: skip
    text = "\n\n".join(draw.choice(blocks) for _ in range(120))
    growing, at = markdown.GrowingMarkdown(60, PALETTE), 0
    while at < len(text):
        at = min(len(text), at + draw.randint(1, 400))
        lines = growing.lines(text[:at])
    assert [line for line in plain(lines) if line] == [
        line for line in plain(markdown_lines(text, 60, PALETTE)) if line
    ], seed
    assert max(laid_out) < 4000 < len(text), "each time only the end is laid out"
    assert growing.lines("another") == markdown_lines("another", 60, PALETTE)


def test_raw_text_is_wrapped_and_whole():
    text = "# Head\n\n" + "word " * 50 + "\n[bold]not markup[/bold]\ttab"
    lines = plain(plain_lines(text, 30, Style()))
    assert all(cell_len(line) <= 30 for line in lines)
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert lines[:2] == ["# Head", ""]


@asynchronous
async def test_what_is_read_cannot_command_the_terminal():
    evil = "a\x1b[2Jb\x07c\x9bd\u202ee"
    session = FakeSession()
    session.say(DocumentQueued(f"{evil}.pdf", (1, 2)), *begun(f"{evil}.pdf", 1, 2), *begun(f"{evil}.pdf", 2, 0))
    session.say(TextDelta(f"{evil}.pdf", 1, 0, evil), Note("error", evil, f"{evil}.pdf", 1))
    async with app_of(session) as (app, pilot):
        for markdown in (None, evil):
            if markdown is not None:
                session.say(PageDone(f"{evil}.pdf", 1, "ok", "model", 0.1, 1, markdown))
                session.say(TextDelta(f"{evil}.pdf", 2, 0, evil))
            for raw in (False, True):
                app.raw = raw
                text = await settle(app, pilot)
                assert not set("\x1b\x07\x9b\u202e") & set(text)
                assert "a\\x1b[2Jb" in text


def test_a_page_fits_its_pane_in_its_own_shape():
    for columns, rows in ((30, 16), (100, 10), (7, 60), (1, 1)):
        for shape in ((595, 842), (842, 595), (10, 5000)):
            across, down = fit(*shape, columns, rows)
            assert 1 <= across <= columns
            assert 1 <= down <= rows
            assert across == columns or down == rows
    assert fit(100, 100, 40, 40) == (40, 20), "a cell is twice as high as wide"


def test_lines_light_up_on_the_map_and_over_the_image():
    import numpy as np

    marks = [Mark(box, state) for box, state in zip(boxes_of(3), (READ, FRESH, WAITS), strict=True)]
    lines = plain(page_map(40, 28, (595.0, 842.0), marks, PALETTE, ascii_only=True))
    assert "".join(dict.fromkeys(line.strip()[0] for line in lines if line.strip())) == "#@."
    white = np.full((56, 40, 3), 255, np.uint8)
    seen = tinted(white, (595.0, 842.0), marks, PALETTE)
    assert (white == 255).all(), "the image itself stays"
    row = [round((box[1] + box[3]) / 2 / 842 * 56) for box in boxes_of(3)]
    dark = [255 - seen[y, 10].astype(int).min() for y in row]
    assert dark[1] > dark[0] > 0
    assert dark[2] > 0
    assert (seen[:, :3] == 255).all()
    assert sum(cell_len(segment.text) for segment in cells(seen)[0]) == 40


def test_the_log_wraps_and_names_the_cure():
    entry = LogLine(65.0, "error", "it is broken " * 9, "folder/a.pdf", 3, "mend it " * 9)
    for width in (20, 40, 200):
        rows = plain(rows_of(entry, width, PALETTE))
        assert all(cell_len(row) <= width for row in rows)
        assert rows[0].startswith("   1:05 error:")
        words = " ".join(" ".join(rows).split())
        assert words == f"1:05 error: a.pdf, page 3: {entry.message}cure: {entry.cure}".strip()


@asynchronous
async def test_a_log_that_was_hidden_opens_at_its_end():
    session = FakeSession()
    session.say(*(Note("info", f"line {number} {'long ' * 15}") for number in range(50)))
    async with app_of(session, size=(80, 24)) as (app, pilot):
        await pilot.press("5")
        assert "line 49" in await settle(app, pilot)


@asynchronous
async def test_text_grows_where_its_line_is():
    session = FakeSession()
    halfway(session)
    async with app_of(session) as (app, pilot):
        before = (await settle(app, pilot)).splitlines()
        come = [TextDelta("report.pdf", 4, 8, "South"), TextDelta("report.pdf", 4, 5, "in March.")]
        session.say(*come, at=session.at + 1)
        after = (await settle(app, pilot)).splitlines()
        changed = [row for row, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        first = next(row for row, line in enumerate(after) if TEXTS[0] in line)
        assert {first + 5, first + 8} <= set(changed)
        assert "South" in after[first + 8]
        assert after[first + 9].rstrip("┃ ").endswith("·")
        session.say(PageDone("report.pdf", 4, "ok", "model", 2.0, 90, MARKDOWN, 3.0), at=session.at + 1)
        text = await settle(app, pilot)
        assert "• All others lay below." in text
        app.raw = True
        text = await settle(app, pilot)
        assert "- All others lay below." in text
        assert "| North | 4.31 |" in text


@asynchronous
async def test_what_is_looked_for_is_marked_and_in_sight():
    session = FakeSession()
    text = "".join(f"Paragraph {number} with a needle.\n\n" for number in range(100))
    session.say(DocumentQueued("a.pdf", (1,)), PageDone("a.pdf", 1, "ok", "text", 0.1, 0, text))
    async with app_of(session, size=SMALL) as (app, pilot):
        app.show("a.pdf", 1)
        await settle(app, pilot)
        document = app.state.documents["a.pdf"]
        app.search = Search.of(document, "NEEDLE")
        for place in (0, 70, 99):
            while app.search.index != place:
                app.search = app.search.step(document, 1)
            assert f"Paragraph {place} with" in await settle(app, pilot)
            drawn = [segment for row in segments(app) for segment in row if segment.text == "needle"]
            assert len(drawn) > 3, "the others in sight are marked too"
            assert all(segment.style.reverse for segment in drawn)
            assert sum(bool(segment.style.bold) for segment in drawn) == 1, "the present one stands out"
        app.search = None
        await settle(app, pilot)
        assert not [segment for row in segments(app) for segment in row if segment.text == "needle"]


@asynchronous
async def test_pages_that_are_kept_are_shown_though_none_is_read():
    session = FakeSession()
    session.say(DocumentQueued("report.pdf"))
    async with app_of(session) as (app, pilot):
        session.say(DocumentQueued("report.pdf", (3, 4)), DocumentStarted("report.pdf", 0))
        session.say(*(PageDone("report.pdf", page, "ok", "model", 0.1, 9, MARKDOWN) for page in (3, 4)))
        text = await settle(app, pilot)
        assert (app.page, app.following) == (3, True)
        assert "Levels were measured daily" in text


@asynchronous
async def test_it_follows_what_is_read_until_the_user_goes_elsewhere():
    session = FakeSession()
    halfway(session)
    async with app_of(session) as (app, pilot):
        assert (app.document, app.page, app.following) == ("report.pdf", 4, True)
        await pilot.press("left")
        assert (app.page, app.following) == (3, False)
        session.say(PageDone("report.pdf", 4, "ok", "model", 2.0, 90, MARKDOWN, 3.0), *begun("report.pdf", 5, 3))
        await settle(app, pilot)
        assert app.page == 3
        await pilot.press("enter")
        await pilot.pause(0.6)  # a page is shown for a while at least
        app.poll()
        assert (app.page, app.following) == (5, True)
        await pilot.click("#strip", offset=(1 + 6 + 1, 1))
        assert (app.page, app.following) == (2, False)
        await pilot.click("#queue", offset=(5, 1))
        assert (app.document, app.page) == ("first.pdf", 1)


@asynchronous
async def test_a_thousand_pages_cost_what_is_in_sight():
    """30,000 lines in 1000 pages, and 3000 documents that wait."""
    session = FakeSession()
    session.say(*(DocumentQueued(f"{number:04}.pdf") for number in range(3000)))
    session.say(DocumentQueued("0000.pdf", tuple(range(1, 1001))), DocumentStarted("0000.pdf", 1000, 1, 3000))
    async with app_of(session, size=LARGE) as (app, pilot):
        for page in range(1, 990):
            session.say(*begun("0000.pdf", page, 30)[:3])
            session.say(PageDone("0000.pdf", page, "ok", "model", 0.1, 9, MARKDOWN), at=session.at + 0.1)
        session.say(*begun("0000.pdf", 990, 30))
        await pilot.pause(0.6)
        await settle(app, pilot)
        assert (app.document, app.page) == ("0000.pdf", 990)
        assert len(app.state.documents["0000.pdf"].pages) == 1000
        strip, queue, text, page = (app.query_one(f"#{name}") for name in ("strip", "queue", "text", "page"))
        assert strip.virtual_size.height >= 6
        assert " 981 " in screen_text(app), "the row of the page that is read is in sight"
        drawn = [pane.drawn for pane in (strip, queue, text, page)]
        for line in range(30):
            session.say(TextDelta("0000.pdf", 990, line, "some words"), at=session.at + 1)
            app.poll()
            await pilot.pause()
        work = [pane.drawn - before for pane, before in zip((strip, queue, text, page), drawn, strict=True)]
        screens = 40  # of updates: one for each line, a few for what the timer saw alone
        assert work[0] <= screens * 6
        assert work[1] <= screens * queue.size.height
        assert work[2] <= screens * 2 * text.size.height
        assert work[3] <= screens * page.size.height


@asynchronous
async def test_nothing_is_drawn_while_nothing_happens():
    async with app_of() as (app, pilot):
        await settle(app, pilot)
        panes = [app.query_one(f"#{name}") for name in ("strip", "queue", "text", "page", "log")]
        drawn = [pane.drawn for pane in panes]
        for _ in range(20):
            app.poll()
        await pilot.pause()
        assert [pane.drawn for pane in panes] == drawn


@asynchronous
async def test_images_are_asked_for_once_and_drawn_in_half_cells(tmp_path):
    session = FakeSession(images=tmp_path)
    halfway(session)
    async with app_of(session) as (app, pilot):
        text = await settle(app, pilot)
        assert "▀▀▀▀▀" in text
        assert asked(app, "draw") == [("report.pdf", 4, 256)]
        await pilot.press("left", "right")
        await settle(app, pilot)
        assert sorted(asked(app, "draw")) == [("report.pdf", 3, 256), ("report.pdf", 4, 256)]
        await pilot.resize_terminal(*LARGE)
        await settle(app, pilot)
        assert len(asked(app, "draw")) == 2, "twice as many pixels as a cell has are enough"
        width = app.query_one("#text").size.width
        app.images = False
        await settle(app, pilot)
        assert app.query_one("#text").size.width > width
        assert "▀" not in screen_text(app)


@asynchronous
async def test_an_image_that_is_gone_is_drawn_again(tmp_path):
    session = FakeSession(images=tmp_path)
    halfway(session)
    async with app_of(session) as (app, pilot):
        await settle(app, pilot)
        await pilot.press("left")
        await settle(app, pilot)
        for file in tmp_path.iterdir():
            file.unlink()
        for _ in range(2):
            await pilot.press("right")
            assert "▀▀▀▀" in await settle(app, pilot)
            await pilot.press("left")
            await settle(app, pilot)
        assert [page for _, page, _ in asked(app, "draw")] == [4, 3, 4, 3]
        assert not notices(app)


@asynchronous
async def test_an_image_that_cannot_be_read_leaves_the_map(tmp_path):
    session = FakeSession()
    halfway(session)
    (tmp_path / "bad.png").write_bytes(b"no image")
    session.say(PageImage("report.pdf", 4, str(tmp_path / "bad.png"), 595.0, 842.0))
    async with app_of(session) as (app, pilot):
        text = await settle(app, pilot)
        assert "▓▓▓" in text
        assert notices(app).count("The image of page 4 cannot be shown") == 1
        draw_page(tmp_path / "good.png", 200, 4)
        session.say(PageImage("report.pdf", 4, str(tmp_path / "good.png"), 595.0, 842.0))
        assert "▀▀▀▀" in await settle(app, pilot)


@asynchronous
async def test_without_colours_everything_is_still_told(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_COLOR", "1")
    session = FakeSession(images=tmp_path)
    halfway(session)
    async with app_of(session, size=SMALL) as (app, pilot):
        text = await settle(app, pilot)
        assert "▓▓▓" in text, "of an image nothing would be left"
        assert not asked(app, "draw")
        for row in segments(app):
            for segment in row:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or colour.is_default
        assert "▸ 3 Text" in text, "where the keyboard is"


@asynchronous
async def test_ascii_holds_on_all_screens():
    session = FakeSession()
    session.say(DocumentQueued("größe–東京.pdf", (1, 2)), DocumentStarted("größe–東京.pdf", 2))
    whole_page(session, "größe–東京.pdf", 1)
    session.say(PageDone("größe–東京.pdf", 1, "ok", "text", 0.1, 0, "# Straße\n\n東京 – ½ “x” 👍\n\n> é\n\n---\n"))
    session.say(Note("warning", "Größe", "größe–東京.pdf", 1), tick())
    async with app_of(session, AppSettings(ascii=True, animation=False), SMALL) as (app, pilot):
        app.show("größe–東京.pdf", 1)
        for keys in ([], ["m"], ["1"], ["4"], ["5"], ["question_mark"], ["escape", "ctrl+p"], ["escape", "o"]):
            await pilot.press(*keys)
            text = await settle(app, pilot)
            assert text.isascii(), (keys, {character for character in text if not character.isascii()})
            if not keys:
                assert "1 # ok" in text, "the sign in the border of the pages too"
            if keys == ["question_mark"]:
                assert re.search("enter +Follow", text), "keys are spelt"


@asynchronous
async def test_every_size_shows_the_text_and_keeps_the_focus():
    async with app_of(size=LARGE) as (app, pilot):
        await pilot.press("5")
        for size in (SMALL, (40, 12), (120, 40), (99, 60), (100, 20), (20, 5), LARGE):
            await pilot.resize_terminal(*size)
            text = await settle(app, pilot)
            assert len(text.splitlines()) == size[1]
            assert app.focused is not None
            assert app.focused.id == "log"
        for key, name in enumerate(("queue", "strip", "text", "engine", "log"), 1):
            await pilot.resize_terminal(*SMALL)
            await pilot.press(str(key))
            await settle(app, pilot)
            assert app.focused.id == name
            assert app.focused.size.height >= 1
            assert app.focused.is_on_screen


@asynchronous
async def test_every_theme_gives_the_panes_its_colours():
    async with app_of() as (app, pilot):
        seen = set()
        for theme in THEMES:
            app.theme = theme.name
            await settle(app, pilot)
            assert app.palette == Palette.of(theme)
            seen.add(app.palette)
        assert len(seen) == len(THEMES)
        assert app.available_themes.keys() >= {theme.name for theme in THEMES}
    assert THEMES[0].name == DARK


def test_colours_are_legible_on_their_backgrounds():
    """A contrast of 4.5 is what WCAG asks of text, 7 of high contrast; `muted` is for what need not be read."""
    from textual.color import Color

    for theme in THEMES:
        back, palette = Color.parse(theme.background), Palette.of(theme)
        least = 7.0 if "high-contrast" in theme.name else 4.5
        for role in ("text", "good", "warn", "bad", "live", "bright", "title"):
            ink = Color(*palette.role(role).color.get_truecolor())
            assert contrast(ink, back) >= least, (theme.name, role, contrast(ink, back))
        assert contrast(Color(*palette.muted.color.get_truecolor()), back) >= 3.0, theme.name


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
