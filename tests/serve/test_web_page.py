"""The web page in a real browser: files in, pages and text out, and nothing of a document runs in it."""

import json
import random
import shutil

import pytest
from served import png

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright, and Chromium"
)

WAIT_MS = 120_000
sync_api.expect.set_options(timeout=WAIT_MS)  # the cores may be busy with other tests
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
    sync_api.expect(row(page, name).locator("small")).to_contain_text(" in ")


def a_pdf(texts, top=300):
    """A PDF with a text layer, a page each. top: of the first line, in points; 300 is not where headers stand."""
    import pymupdf

    with pymupdf.open() as document:
        for lines in texts:
            sheet = document.new_page(width=595, height=842)
            for number, line in enumerate(lines):
                sheet.insert_text((50, top + 30 * number), line, fontsize=11)
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
    drawn = words(9)  # none twice: what begins two pages alike is left out as a running header
    texts = [drawn[at : at + 3] for at in (0, 3, 6)]
    give(page, "three.pdf", a_pdf(texts))
    wait_until_read(page, "three.pdf")
    for number, text in random.sample(list(enumerate(texts, 1)), 3):
        page.locator("#strip button").nth(number - 1).click()
        for word in text:
            sync_api.expect(page.locator("#text")).to_contain_text(word)
    page.locator("#strip button").first.click()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#strip [aria-current=page]")).to_have_text("2")
    for kind, begin in (
        ("md", texts[0][0].encode()), ("text", texts[0][0].encode()), ("pdf", b"%PDF"), ("html", b"<!DOCTYPE html>"),
        ("json", b"{"),
    ):  # fmt: skip
        page.select_option("#format", kind)
        with page.expect_download() as download:
            page.click("#download")
        content = download.value.path().read_bytes()
        assert content.lstrip(b"# \n").startswith(begin), kind  # the first line may be taken for a heading
        assert download.value.suggested_filename.startswith("three.")


def test_what_a_document_says_is_shown_and_not_run(page):
    give(page, "hostile.pdf", a_pdf([[HOSTILE, "plain words"]]))
    wait_until_read(page, "hostile.pdf")
    sync_api.expect(page.locator("#text")).to_contain_text("<script>document.title=2</script>")
    assert page.title() == "ocria"
    sync_api.expect(page.locator("#text")).to_contain_text("onerror=")
    assert page.locator("#text :is(script, a, img, iframe)").count() == 0
    page.click("#markdown")
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
<ol start="7"><li>seven</li></ol><object data="//elsewhere"></object><unknown-tag>inside</unknown-tag></section>
<p data-box="1 2.5 30 40" data-x=1>boxed</p><p data-box="1 2 3 url(//elsewhere)" dir="auto">unboxed</p>
<noscript><p title="</noscript><img src=x onerror=evil()>"></noscript>
<form><math><mtext></form><form><mglyph><style></math>
<img src onerror=evil()></style></form><svg></p><style><a id="</style><img src=1 onerror=evil()>"></svg>
<table><td><svg><desc><table><td></desc><img src=x onerror=evil()></svg></table><textarea><b>evil()</b></textarea>"""


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
    allowed = ["src=data:image/png;base64,iVBORw0KGgo=", "alt=kept", "colspan=2", "start=7", "data-box=1 2.5 30 40",
               "dir=auto"]  # fmt: skip
    assert sorted(made["attributes"]) == sorted(allowed)
    for word in ("Title", "text", "link", "cell", "seven", "inside", "boxed", "unboxed"):
        assert word in made["text"]
    # The browser tells what its policy would have stopped while it parses; no other complaint may be there.
    page.complaints[:] = [one for one in page.complaints if "Content Security Policy" not in one]


def test_a_damaged_file_fails_alone_and_says_why(page, scan):
    give(page, "broken.pdf", b"%PDF-1.7 nothing")
    sync_api.expect(row(page, "broken.pdf")).to_have_attribute("data-state", "failed")
    sync_api.expect(page.locator("#problem")).to_be_visible()
    sync_api.expect(page.locator("#problem-what")).to_contain_text("broken.pdf")
    sync_api.expect(page.locator("#said")).to_contain_text("broken.pdf")
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
    sync_api.expect(row(page, "wrong.pdf")).to_have_attribute("data-state", "failed")
    sync_api.expect(page.locator("#problem-what")).to_contain_text("nine")
    page.complaints[:] = [one for one in page.complaints if "422" not in one]


def test_a_password_is_asked_for_and_the_file_read_again(page):
    import pymupdf

    text, secret = words(3), random.SystemRandom().choice(WORDS)
    with pymupdf.open("pdf", a_pdf([text])) as document:
        locked = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=secret, owner_pw=f"{secret}-owner")
    give(page, "locked.pdf", locked)
    sync_api.expect(page.locator("#problem-cure")).to_contain_text("password")
    page.click("summary")
    page.fill("#password", secret)
    page.click("#again")
    wait_until_read(page, "locked.pdf")
    sync_api.expect(page.locator("#text")).to_contain_text(text[2])
    sync_api.expect(page.locator("#problem")).to_be_hidden()


def test_a_document_that_the_server_forgot_is_read_again(page, server):
    text = words(2)
    give(page, "first.pdf", a_pdf([text]))
    wait_until_read(page, "first.pdf")
    give(page, "second.pdf", a_pdf([words(2)]))
    wait_until_read(page, "second.pdf")
    first = page.evaluate("JSON.parse(sessionStorage.getItem('ocria-jobs'))[0]")
    assert server.client.delete(f"/v1/jobs/{first}").status_code == 204
    row(page, "first.pdf").locator(".open").click()
    sync_api.expect(row(page, "first.pdf")).to_have_attribute("data-state", "gone")
    page.click("#again")
    wait_until_read(page, "first.pdf")
    sync_api.expect(page.locator("#text")).to_contain_text(text[1])
    page.complaints[:] = [one for one in page.complaints if "404" not in one]


def test_a_server_that_is_away_is_waited_for(page, server):
    page.context.set_offline(True)
    text = words(2)
    give(page, "later.pdf", a_pdf([text]))
    sync_api.expect(row(page, "later.pdf")).to_have_attribute("data-state", "away")
    sync_api.expect(page.locator("#offline")).to_be_visible()
    page.context.set_offline(False)
    wait_until_read(page, "later.pdf")
    sync_api.expect(page.locator("#offline")).to_be_hidden()
    sync_api.expect(page.locator("#text")).to_contain_text(text[1])
    page.complaints[:] = [one for one in page.complaints if "ERR_INTERNET_DISCONNECTED" not in one]


def test_a_server_that_is_back_is_noticed_by_itself(page):
    give(page, "done.pdf", a_pdf([words(2)]))
    wait_until_read(page, "done.pdf")
    page.context.set_offline(True)
    page.click("#download")
    sync_api.expect(page.locator("#offline")).to_be_visible()
    page.context.set_offline(False)
    sync_api.expect(page.locator("#offline")).to_be_hidden()
    page.complaints[:] = [one for one in page.complaints if "ERR_INTERNET_DISCONNECTED" not in one]


def test_a_dropped_folder_is_taken_with_all_that_is_in_it(page, tmp_path):
    folder = tmp_path / "papers" / "old"
    folder.mkdir(parents=True)
    (tmp_path / "papers" / "new.pdf").write_bytes(a_pdf([words(2)]))
    (folder / "older.pdf").write_bytes(a_pdf([words(2)]))
    (folder / ".hidden.pdf").write_bytes(b"x")
    over = page.locator("main").bounding_box()
    browser = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {
            "type": kind, "x": over["x"] + 50, "y": over["y"] + 50,
            "data": {"items": [], "files": [str(tmp_path / "papers")], "dragOperationsMask": 1},
        })  # fmt: skip
    wait_until_read(page, "papers/new.pdf")
    wait_until_read(page, "papers/old/older.pdf")
    sync_api.expect(page.locator("#jobs li")).to_have_count(2)


def test_text_and_image_point_at_each_other(page):
    give(page, "two.pdf", a_pdf([[""] * 6 + ["Journey of a letter"] + [""] * 7 + ["Winter in the village"]], top=80))
    wait_until_read(page, "two.pdf")
    block = page.locator("#text [data-box]", has_text="Winter")
    block.hover()
    marked = page.locator("#boxes .marked")
    sync_api.expect(marked).to_have_count(1)
    assert 470 < float(marked.get_attribute("y")) < 500  # the baseline is at 500 points of 842
    sync_api.expect(page.locator("#sheet")).to_have_attribute("data-image", "shown")
    sheet = page.locator("#sheet").bounding_box()
    page.locator("#sheet").click(position={"x": sheet["width"] * 80 / 595, "y": sheet["height"] * 257 / 842})
    sync_api.expect(page.locator("#text .found")).to_contain_text("Journey")
    page.click("#zoom")
    assert page.locator("#sheet").bounding_box()["width"] > 2 * sheet["width"]


def test_what_is_read_appears_line_by_line_with_the_speed(page):
    """The events of a job are made up, so that they stand still."""
    job = {"id": "made-up", "name": "slow.png", "state": "running", "ahead": 0, "format": "md", "pages": 2,
           "pages_done": 0, "page_count": None, "status": None, "seconds": None, "error": None}  # fmt: skip
    told = [
        {"type": "document_started", "path": "slow.png", "pages": 2},
        {"type": "page_started", "path": "slow.png", "page": 1},
        {"type": "lines_found", "path": "slow.png", "page": 1, "boxes": [[10, 10, 90, 20], [10, 30, 90, 40]],
         "size": [100, 100]},
        {"type": "text_delta", "path": "slow.png", "page": 1, "unit": 1, "text": "<b>second"},
        {"type": "engine_tick", "decode_tokens_per_last_s": 812.4, "accept_length": 2.5, "running": 2, "waiting": 7},
    ]  # fmt: skip
    stream = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told)
    page.route("**/v1/jobs", lambda route: route.fulfill(status=202, json=job))
    page.route("**/v1/jobs/made-up", lambda route: route.fulfill(json=job))
    page.route("**/v1/jobs/made-up/pages/*", lambda route: route.fulfill(body=png(["x"]), content_type="image/png"))
    page.route(
        "**/v1/jobs/made-up/events",
        lambda route: route.fulfill(body=f"retry: 600000\n\n{stream}", content_type="text/event-stream"),
    )
    give(page, "slow.png", b"x")
    sync_api.expect(page.locator("#speed")).to_have_text("812")
    sync_api.expect(page.locator("#accepted")).to_have_text("2.5")
    sync_api.expect(page.locator("#running")).to_have_text("2 + 7")
    sync_api.expect(page.locator("#state")).to_have_text("page 1 of 2")
    sync_api.expect(page.locator("#place")).to_have_text("Page 1 of 2")
    sync_api.expect(page.locator("#text")).to_have_text("<b>second")
    sync_api.expect(page.locator("#boxes rect")).to_have_count(2)
    sync_api.expect(page.locator("#boxes .read")).to_have_attribute("data-unit", "1")
    sync_api.expect(page.locator("#progress")).to_be_visible()


def test_tabs_that_nobody_sees_leave_the_browser_its_connections(page, server, scan):
    """A browser has six for a server. Tabs of a headless one all think that they are seen, so they are told."""
    with server.held():
        where = server.client.post("/v1/jobs", files={"file": ("fox.png", scan[0])}).headers["location"]
        kept = json.dumps(json.dumps([where.rpartition("/")[2]]))
        page.context.add_init_script(f"if (location.protocol === 'http:') sessionStorage.setItem('ocria-jobs', {kept})")
        tabs = []
        for _ in range(7):
            tab = page.context.new_page()
            tab.goto(server.url, timeout=WAIT_MS)
            sync_api.expect(tab.locator("#state")).to_have_text("page 1 of 1")
            tell_seen(tab, False)
            tabs.append(tab)
        page.reload()
        sync_api.expect(page.locator("#boxes rect")).to_have_count(1)
    sync_api.expect(page.locator("#text")).to_contain_text(scan[1])
    sync_api.expect(row(tabs[0], "fox.png")).to_have_attribute("data-state", "done")
    sync_api.expect(tabs[0].locator("#text")).not_to_contain_text(scan[1])
    for tab in tabs:
        tell_seen(tab, True)
        sync_api.expect(tab.locator("#text")).to_contain_text(scan[1])
        sync_api.expect(tab.locator("#strip button")).to_have_count(1)


def tell_seen(page, seen):
    """Let a page believe that its tab is seen, or is not."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        not seen,
    )


def test_it_works_by_keyboard_alone_and_names_what_it_has(page):
    drawn = words(4)  # as above
    texts = [drawn[:2], drawn[2:]]
    give(page, "keys.pdf", a_pdf(texts))
    wait_until_read(page, "keys.pdf")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, progress, [tabindex]")]
            .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim()))
            .map((one) => one.outerHTML)"""
    )
    assert unnamed == []
    page.get_by_role("button", name="Page 2: ok").focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#text")).to_contain_text(texts[1][0])
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowLeft")
    sync_api.expect(page.locator("#text")).to_contain_text(texts[0][0])
    page.get_by_role("button", name="Remove keys.pdf").focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#files")).to_be_focused()
    sync_api.expect(page.locator("#empty")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 360), ("light", 360), ("light", 640)])
def test_it_fits_narrow_windows_and_can_be_read_in_both_schemes(page, scheme, width):
    """640 pixels are a window of 1280 at a zoom of 200 %."""
    page.set_viewport_size({"width": width, "height": 640})
    page.emulate_media(color_scheme=scheme)
    drawn = words(4)
    give(page, "word" * 40 + ".pdf", a_pdf([["unbroken" * 30, *drawn[:2]], drawn[2:]]))
    wait_until_read(page, "wordword")
    page.locator("#strip button").first.click()  # the page in work was followed, perhaps to the second
    sync_api.expect(page.locator("#text")).to_contain_text("unbroken")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = page.evaluate(CONTRASTS)
    assert contrasts
    assert min(contrasts.values()) >= 4.5, contrasts  # WCAG 2.2, level AA


# Of the colours of text on what lies under it, by the first words of each element that holds text.
CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const light = (colour) => {
        const [r, g, b] = [...rgba(colour)].map((one) => one / 255).map((one) =>
            one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (one) => {
        for (; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (rgba(colour)[3]) return colour;
        }
    };
    const found = {};
    for (const one of document.querySelectorAll("body *")) {
        const texts = [...one.childNodes].filter((node) => node.nodeType === 3);
        const words = texts.map((node) => node.data.trim()).join("");
        if (!words || !one.checkVisibility() || one.disabled) continue;
        const [above, below] = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
        found[`${one.localName} ${words.slice(0, 30)}`] = (above + 0.05) / (below + 0.05);
    }
    return found;
}"""
