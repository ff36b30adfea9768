"""The web page in a real browser: files in, pages and text out, and nothing of a document runs in it."""

import random
import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="the web page is tested where playwright is installed")

WAIT_MS = 120_000
WORDS = ["garden", "winter", "letter", "bridge", "market", "doctor", "summer", "window", "forest", "kitchen", "history",
         "journey", "teacher", "morning", "village", "picture"]  # fmt: skip
HOSTILE = '<img src=x onerror="document.title=1"> <script>document.title=2</script> **bold** [a](javascript:alert(1))'


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_api.sync_playwright() as playwright:
        try:
            # Root, as in containers, has no sandbox of Chromium's.
            opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"there is no Chromium: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture
def page(browser, server):
    """The web page, which must stay without a complaint of the browser and reach for nothing but its server."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.complaints = complaints
    page.goto(server.url)
    yield page
    context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(server.url)] == []


def give(page, name, content, kind="application/octet-stream"):
    page.set_input_files("#files", {"name": name, "mimeType": kind, "buffer": content})


def row(page, name):
    return page.locator("#jobs li", has_text=name)


def wait_until_read(page, name):
    sync_api.expect(row(page, name).locator("small")).to_contain_text(" in ", timeout=WAIT_MS)


def a_pdf(texts):
    """A PDF with a text layer, a page each."""
    import pymupdf

    with pymupdf.open() as document:
        for lines in texts:
            sheet = document.new_page(width=595, height=842)
            for number, line in enumerate(lines):
                sheet.insert_text((50, 80 + 30 * number), line, fontsize=11)
        return document.tobytes()


def words(count):
    """Words that exist: a page of random letters is taken for a damaged text layer, and left to the model."""
    return random.SystemRandom().sample(WORDS, count)


def test_a_scan_is_read_beside_its_image(page, scan):
    content, text = scan
    give(page, "fox.png", content, "image/png")
    wait_until_read(page, "fox.png")
    shown = page.locator("#text")
    sync_api.expect(shown).to_contain_text(text)
    image = page.locator("#image")
    sync_api.expect(image).to_have_js_property("complete", True)
    assert image.evaluate("image => image.naturalWidth") > 100
    sync_api.expect(page.locator("#strip button")).to_have_attribute("data-status", "ok")
    # The marks of lines went with what `page_done` made superfluous, or lie over the line.
    for box in page.locator("#boxes rect").all():
        assert float(box.get_attribute("width")) > float(box.get_attribute("height"))


def test_pages_are_turned_and_downloaded(page):
    texts = [words(3) for _ in range(3)]
    give(page, "three.pdf", a_pdf(texts))
    wait_until_read(page, "three.pdf")
    for number, text in random.sample(list(enumerate(texts, 1)), 3):
        page.locator("#strip button").nth(number - 1).click()
        for word in text:
            sync_api.expect(page.locator("#text")).to_contain_text(word)
    page.locator("#strip button").first.click()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#strip [aria-current=page]")).to_have_text("2")
    for kind, begin in (("md", texts[0][0].encode()), ("pdf", b"%PDF"), ("html", b"<!DOCTYPE html>"), ("json", b"{")):
        with page.expect_download() as download:
            page.select_option("#download", kind)
        content = download.value.path().read_bytes()
        assert content.lstrip(b"# \n").startswith(begin), kind  # the first line may be taken for a heading
        assert download.value.suggested_filename.startswith("three.")


def test_what_a_document_says_is_shown_and_not_run(page):
    give(page, "hostile.pdf", a_pdf([[HOSTILE, "plain words"]]))
    wait_until_read(page, "hostile.pdf")
    page.wait_for_timeout(200)
    assert page.title() == "ocria"
    sync_api.expect(page.locator("#text")).to_contain_text("<script>document.title=2</script>")
    sync_api.expect(page.locator("#text")).to_contain_text("onerror=")
    assert page.locator("#text :is(script, a, img, iframe)").count() == 0
    page.click("#tab-source")
    sync_api.expect(page.locator("#text pre")).to_contain_text("plain words")
    assert page.locator("#text pre *").count() == 0


def test_a_hostile_name_is_text(page):
    name = '<img src=x onerror="document.title=3">.pdf'.replace("/", "")
    give(page, name, a_pdf([["words"]]))
    wait_until_read(page, "onerror")
    assert page.locator("#jobs img").count() == page.locator("#name img").count() == 0
    assert page.title() == "ocria"


HOSTILE_HTML = """<section onclick="x()" style="position:fixed" id="q" class="bar"><h1>Title</h1><script>evil()</script>
<p onmouseover=evil()>text<a href="javascript:evil()">link</a><iframe src="//elsewhere"></iframe></p>
<svg><script>evil()</script><circle r=1 /></svg><math><mi xlink:href="javascript:evil()">x</mi></math>
<img src="https://elsewhere/a.png"><img src="data:image/svg+xml;base64,AAAA"><img src=x onerror=evil()>
<img alt="kept" src="data:image/png;base64,iVBORw0KGgo="><form action="//elsewhere"><input name=a value=b></form>
<table><tr><td colspan=2 rowspan="99999" onclick=x()>cell</td></tr></table><style>*{display:none}</style>
<template><img src=x onerror=evil()></template><base href="//elsewhere">
<meta http-equiv=refresh content="0;//elsewhere">
<ol start="7"><li>seven</li></ol><object data="//elsewhere"></object><unknown-tag>inside</unknown-tag></section>"""


def test_only_what_shows_gets_through(page):
    made = page.evaluate(
        """async (html) => {
            const { sanitised } = await import("/sanitise.js");
            const holder = document.createElement("div");
            holder.append(sanitised(html));
            const all = [...holder.querySelectorAll("*")];
            return { text: holder.textContent, tags: all.map((one) => one.localName),
                     attributes: all.flatMap((one) => [...one.attributes].map((a) => `${a.name}=${a.value}`)) };
        }""",
        HOSTILE_HTML,
    )
    assert {"section", "h1", "p", "img", "table", "td", "ol", "li"} <= set(made["tags"])
    banned = {"script", "style", "a", "iframe", "svg", "form", "input", "template", "base", "meta", "object", "math"}
    assert not banned & set(made["tags"])
    assert made["tags"].count("img") == 1
    allowed = ["src=data:image/png;base64,iVBORw0KGgo=", "alt=kept", "colspan=2", "start=7"]
    assert sorted(made["attributes"]) == sorted(allowed)
    for word in ("Title", "text", "link", "cell", "seven", "inside"):
        assert word in made["text"]
    assert "evil" not in made["text"]
    # The browser tells what its policy would have stopped while it parses; no other complaint may be there.
    page.complaints[:] = [one for one in page.complaints if "Content Security Policy" not in one]


def test_a_damaged_file_fails_alone_and_says_why(page, scan):
    give(page, "broken.pdf", b"%PDF-1.7 nothing")
    sync_api.expect(row(page, "broken.pdf")).to_contain_class("failed")
    sync_api.expect(page.locator("#notice")).to_be_visible()
    give(page, "fox.png", scan[0], "image/png")
    wait_until_read(page, "fox.png")


def test_a_full_queue_is_waited_for(page, server):
    """Six documents where three have room: they are sent as there is room, none is lost."""
    names = [f"{word}.pdf" for word in words(6)]
    files = [{"name": name, "mimeType": "application/pdf", "buffer": a_pdf([[name]])} for name in names]
    page.set_input_files("#files", files)
    for name in names:
        wait_until_read(page, name)
    row(page, names[-1]).locator(".open").click()
    sync_api.expect(page.locator("#text")).to_contain_text(names[-1][:-4])
    # Answers of 429 are told by Chromium's console; nothing else may be.
    page.complaints[:] = [one for one in page.complaints if "429" not in one]


def test_a_reload_finds_its_documents_again(page):
    text = words(2)
    give(page, "kept.pdf", a_pdf([text]))
    wait_until_read(page, "kept.pdf")
    page.reload()
    wait_until_read(page, "kept.pdf")
    sync_api.expect(page.locator("#text")).to_contain_text(text[1])
    row(page, "kept.pdf").locator(".remove").click()
    sync_api.expect(page.locator("#document")).to_be_hidden()
    page.reload()
    sync_api.expect(page.locator("#empty")).to_be_visible()
    assert page.locator("#jobs li").count() == 0


def test_a_running_document_is_cancelled(page, server, scan):
    with server.held():
        give(page, "held.png", scan[0], "image/png")
        sync_api.expect(row(page, "held.png").locator("small")).to_contain_text("page 1 of 1")
        row(page, "held.png").locator(".remove").click()
        sync_api.expect(page.locator("#jobs li")).to_have_count(0)
    server.wait_until_free()


def test_options_are_sent(page):
    give_pages = [[word] for word in words(3)]
    page.click("summary")
    page.fill("#pages", "2")
    give(page, "second.pdf", a_pdf(give_pages))
    wait_until_read(page, "second.pdf")
    sync_api.expect(page.locator("#strip button")).to_have_text(["2"])
    page.fill("#pages", "nine")
    give(page, "wrong.pdf", a_pdf(give_pages))
    sync_api.expect(row(page, "wrong.pdf")).to_contain_class("failed")
    sync_api.expect(page.locator("#notice p")).not_to_be_empty()
    page.complaints[:] = [one for one in page.complaints if "422" not in one]


def test_it_works_narrow_and_in_the_dark(page, scan):
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    give(page, "fox.png", scan[0], "image/png")
    wait_until_read(page, "fox.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ink, paper = page.evaluate(
        "() => ['color', 'backgroundColor'].map((name) => getComputedStyle(document.querySelector('article'))[name])"
    )
    assert lightness(ink) > lightness(paper)


def lightness(colour):
    numbers = colour.removeprefix("rgb(").rstrip(")").split(",")
    return sum(map(float, numbers))
