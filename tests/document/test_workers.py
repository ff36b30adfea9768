"""Documents that are read in child processes: what crashes, hangs or grows there costs one page."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from made import FakeReader, draw_lines, scan_pdf
from PIL import Image

import ocria
import ocria.events
from ocria.document.source import open_source
from ocria.document.workers import Workers, process
from ocria.errors import CrashError, EncryptedError, EngineError, InputError, OcriaError, TimeoutExceeded

LINES = ["The first line of the page is here", "and the second line follows it", "with a third one to end it"]
REPOSITORY = Path(__file__).parents[2]
FAULTY = process._START.replace("ocria.document.workers.child", "faulty_child")


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as pool:
        yield pool


@pytest.fixture
def faulty(monkeypatch):
    """A pool whose processes misbehave over pages with certain words."""
    monkeypatch.setattr(process, "_START", FAULTY)
    with Workers(1) as pool:
        yield pool


def pages(*texts):
    with pymupdf.open() as pdf:
        for text in texts:
            pdf.new_page(width=1200).insert_text((50, 90), f"{text} and some more words to fill the line", fontsize=9)
        return pdf.tobytes()


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_pages_come_out_as_in_this_process(born_digital, workers):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    with pymupdf.open(stream=born_digital) as pdf:
        pdf.insert_pdf(pymupdf.open(stream=scan_pdf(draw_lines(LINES))))
        pdf.new_page(width=draw.uniform(20, 900), height=draw.uniform(20, 900))
        content = pdf.tobytes()
    dpi = draw.choice([None, 50, 97])
    for near, far in zip(*(all_of(content, pool, dpi) for pool in (None, workers)), strict=True):
        assert repr(near) == repr(far)


def all_of(content, pool, dpi):
    with closing(open_source(content, None, pool)) as source:
        found = [source.page_count, source.sha256, source.repaired, source.converted_from]
        for number in range(1, source.page_count + 1):
            page = source.page(number)
            pixels = page.render(dpi)
            found += [page.look(), pixels.shape, pixels.sum(), page.words(), page.lay_out()]
    return found


def test_a_whole_run_is_as_in_this_process(born_digital, workers):
    with pymupdf.open(stream=born_digital) as pdf:
        pdf.insert_pdf(pymupdf.open(stream=scan_pdf(draw_lines(LINES))))
        content = pdf.tobytes()
    near, far = (ocria.parse(content, reader=FakeReader(LINES), workers=pool) for pool in (None, workers))
    assert near.markdown == far.markdown
    assert [page.lines for page in near.pages] == [page.lines for page in far.pages]


def test_pixels_can_be_written_to(workers):
    pixels = open_source(pages("a"), None, workers).page(1).render(30)
    pixels[0, 0] = 7
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize(("word", "how"), [("CRASH", "SIGSEGV"), ("ABORT", "SIGABRT: std::bad_alloc")])
def test_a_crash_costs_one_page(faulty, word, how):
    document = ocria.parse(pages("one", word, "three"), mode="text", workers=faulty)
    assert [page.status for page in document.pages] == ["ok", "failed", "ok"]
    assert how in document.pages[1].error
    assert document.status == "partial"


def test_a_page_whose_layout_crashes_is_read_from_its_pixels(faulty):
    document = ocria.parse(pages("one", "COLLAPSE"), workers=faulty, reader=FakeReader(["as it looks"]))
    assert [(page.status, page.route) for page in document.pages] == [("ok", "text"), ("ok", "model")]
    assert "SIGSEGV" in document.pages[1].reason
    assert document.pages[1].text == "as it looks"


def test_a_crash_that_does_not_come_again_costs_nothing(faulty, tmp_path):
    document = ocria.parse(pages("one", f"ONCE{tmp_path}/m ", "three"), mode="text", workers=faulty)
    assert (tmp_path / "m").exists()
    assert [page.status for page in document.pages] == ["ok"] * 3


def test_a_crash_at_opening_is_a_fault_of_the_file(faulty, tmp_path):
    with pytest.raises(CrashError, match="SIGSEGV") as caught:
        ocria.parse(pages("one") + b"\n%CRASH\n", workers=faulty)
    assert caught.value.exit_code == InputError.exit_code
    assert ocria.parse(pages("next"), workers=faulty).status == "ok"


def test_a_hang_costs_the_time_of_its_page(faulty):
    document = ocria.parse(pages("one", "HANG", "three"), mode="text", workers=faulty, page_timeout=5)
    assert [page.status for page in document.pages] == ["ok", "timeout", "ok"]
    assert "5 s" in document.pages[1].error


def test_the_time_of_a_document_cuts_its_page_off(faulty):
    faulty_pid = faulty.pids[0]
    open_source(pages("warm"), None, faulty).page(1).look()
    document = ocria.parse(pages("one", "HANG", "three", "four"), mode="text", workers=faulty, timeout=6)
    assert [page.status for page in document.pages] == ["ok", *["timeout"] * 3]
    assert all("time for the document" in page.error for page in document.pages[1:])
    assert document.status == "partial"
    assert document.seconds < 60
    assert faulty_pid not in faulty.pids
    with pytest.raises(TimeoutExceeded):
        ocria.parse(pages("one") + b"\n%HANG\n", workers=faulty, timeout=1)


def test_memory_has_a_bound(faulty):
    document = ocria.parse(pages("one", "GREED", "three"), mode="text", workers=faulty)
    assert [page.status for page in document.pages] == ["ok", "failed", "ok"]
    assert "memory" in document.pages[1].error


def test_a_child_cannot_take_more_than_its_memory():
    with Workers(1, memory_bytes=900 << 20) as pool:
        source = open_source(pages("a"), None, pool)
        with pytest.raises(InputError, match=r"memory|MemoryError|malloc"):
            source.page(1).lay_out_lines(*[np.zeros(1 << 28, np.float64)] * 3)
        assert source.page(1).look().letters > 0


def test_errors_keep_their_kind(workers, tmp_path):
    with pymupdf.open(stream=pages("secret")) as pdf:
        locked = pdf.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="sesame", owner_pw="own")
    (tmp_path / "locked.pdf").write_bytes(locked)
    for pool in (None, workers):
        with pytest.raises(EncryptedError, match="encrypted") as caught:
            open_source(tmp_path / "locked.pdf", None, pool)
        assert caught.value.path == str(tmp_path / "locked.pdf")
        assert "--password" in caught.value.cure
        with pytest.raises(InputError, match="not a readable PDF"):
            open_source(b"%PDF-1.7 rubbish", None, pool)
    with pytest.raises(InputError, match="the page cannot be found"):
        open_source(pages("a"), None, workers).page(9).look()


def test_passwords_stay_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("OCRIA_PASSWORD", "in-the-environment")
    with pymupdf.open(stream=pages("secret")) as pdf:
        locked = pdf.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open-sesame", owner_pw="own-it")
    with Workers(1) as pool:
        for password in ("open-sesame", "own-it"):
            assert open_source(locked, password, pool).page(1).words()[0].text == "secret"
        for name in ("cmdline", "environ"):
            told = Path(f"/proc/{pool.pids[0]}/{name}").read_bytes()
            assert not any(word in told for word in (b"sesame", b"own-it", b"in-the-environment")), name


def test_a_file_is_read_again_only_while_it_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.pdf").write_bytes(pages("first"))
    with Workers(1) as pool:
        source = open_source("a.pdf", None, pool)
        monkeypatch.chdir("/")
        os.kill(pool.pids[0], signal.SIGKILL)
        assert source.page(1).words()[0].text == "first"
        (tmp_path / "a.pdf").write_bytes(pages("second"))
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(InputError, match="changed"):
            source.page(1).words()


def test_what_was_converted_is_converted_once(workers, tmp_path):
    (tmp_path / "a.html").write_text("<html><body><p>Hello from a web page</p></body></html>")
    with Workers(1) as pool:
        source = open_source(tmp_path / "a.html", None, pool)
        assert source.converted_from == "html"
        (tmp_path / "a.html").unlink()
        os.kill(pool.pids[0], signal.SIGKILL)
        assert [word.text for word in source.page(1).words()] == ["Hello", "from", "a", "web", "page"]
    assert ocria.parse(b"<html><body><p>Hello</p></body></html>", workers=workers).converted_from == "html"
    assert ocria.parse(pages("a"), workers=workers).converted_from is None


def test_processes_are_replaced_and_documents_opened_again():
    content = pages(*[f"page{n}" for n in range(6)])
    with Workers(1, recycle_after=3) as pool:
        source = open_source(content, None, pool)
        seen = set()
        for number in range(1, 7):
            seen |= set(pool.pids)
            assert source.page(number).words()[0].text == f"page{number - 1}"
        assert len(seen) >= 3
        assert len(pool.pids) == 1
    with Workers(1, recycle_bytes=1) as pool:
        first = pool.pids
        source = open_source(content, None, pool)
        for _ in range(20):
            source.page(1).words()
        assert pool.pids != first
    wait_until(lambda: not any(map(is_running, seen)))


def test_closed_documents_are_closed_in_the_processes(tmp_path):
    with Workers(1) as pool:
        for number in range(5):
            with closing(open_source(pages(f"text{number}"), None, pool)) as source:
                source.page(1).words()
            assert not pool._idle[0].documents, "an idle process is told at once"
        open_source(pages("x"), None, pool)
        assert len(pool._idle[0].documents) == 1
        assert not pool._forgotten


def test_many_threads_share_a_few_processes(born_digital, workers):
    expected = ocria.parse(born_digital).markdown
    others = [pages(f"number{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        same = [threads.submit(ocria.parse, born_digital, workers=workers) for _ in range(8)]
        own = [threads.submit(ocria.parse, other, workers=workers) for other in others]
    assert [result.result().markdown for result in same] == [expected] * 8
    assert all(f"number{n} " in result.result().markdown for n, result in enumerate(own))
    assert len(workers.pids) <= 2


def test_crashes_in_one_thread_leave_the_others_alone(faulty):
    good, bad = pages("one", "two", "three"), pages("CRASH", "two", "CRASH")
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(ocria.parse, c, mode="text", workers=faulty) for c in (good, bad)]
    statuses = [[page.status for page in result.result().pages] for result in results]
    assert statuses == [["ok"] * 3, ["failed", "ok", "failed"]]


def test_closing_ends_what_is_under_way(faulty):
    source = open_source(pages("HANG"), None, faulty)
    pid = faulty.pids[0]
    caught = []

    def ask():
        try:
            source.page(1).look()
        except OcriaError as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: faulty._busy)
    faulty.close()
    thread.join(60)
    assert not thread.is_alive()
    assert len(caught) == 1
    assert not Path(f"/proc/{pid}").exists(), "not even a zombie"
    with pytest.raises(OcriaError, match="stopped"):
        source.page(1).look()


def test_a_process_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr(process, "_START", "raise ImportError('no such library')")
    with Workers(1) as pool, pytest.raises(EngineError, match="no such library"):
        open_source(pages("a"), None, pool)


SCRIPT = """
import os, sys, threading
sys.path.insert(0, {folder!r})
import ocria
import ocria.events
from ocria.document.workers import Workers, process
process._START = {start!r}
workers = Workers(1)
print(workers.pids[0], flush=True)
print(ocria.parse({path!r}, workers=workers, mode="text").markdown, flush=True)
"""


def script(path, start):
    code = SCRIPT.format(folder=str(Path(__file__).parent), start=start, path=str(path))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)


def test_children_die_with_their_parent_even_when_they_hang(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pages(f"HANG{tmp_path}/hangs "))
    with script(tmp_path / "a.pdf", FAULTY) as parent:
        child = int(parent.stdout.readline())
        wait_until((tmp_path / "hangs").exists)
        parent.kill()
    wait_until(lambda: not is_running(child))


def test_a_plain_script_works_and_libraries_do_not_print_into_its_output(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pages("PRINT"))
    with script(tmp_path / "a.pdf", FAULTY) as parent:
        child, *rest = parent.stdout.read().splitlines()
    assert parent.returncode == 0
    assert " ".join(rest).strip() == "PRINT and some more words to fill the line"
    wait_until(lambda: not is_running(int(child)))


def test_only_children_load_what_may_crash(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pages("words"))
    code = f"import sys, ocria; print(ocria.parse({str(tmp_path / 'a.pdf')!r}).status, 'pymupdf' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert run.stdout.split() == ["ok", "False"]


def test_children_are_out_of_reach_of_ctrl_c(workers):
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in workers.pids)


def test_pages_are_begun_ahead_in_order_and_not_far(workers, monkeypatch):
    """What is asked of a document while its first page is at the model: the next pages, a few of them."""
    asked = []
    call = Workers.call

    def spy(pool, handle, name, number, *arguments, **limits):
        asked.append((handle.number, name, number))
        return call(pool, handle, name, number, *arguments, **limits)

    monkeypatch.setattr(Workers, "call", spy)
    content = pages(*[f"page{n}" for n in range(30)])
    cancel = threading.Event()
    for event in ocria.stream(content, mode="text", workers=workers, cancel=cancel):
        if isinstance(event, ocria.events.PageDone):
            cancel.set()
    assert event.status == "interrupted"
    assert [page.index for page in event.document.pages] == [1]
    assert {number for _, _, number in asked} <= set(range(1, 9))
    document = ocria.parse(content, mode="text", workers=workers, pages="3-20")
    assert [page.text.split()[0] for page in document.pages] == [f"page{n}" for n in range(2, 20)]
    last = max(asked)[0]
    mine = sorted((name, number) for handle, name, number in asked if handle == last)
    assert mine == sorted((name, n) for name in ("look", "lay_out") for n in range(3, 21)), "each just once"


def test_salvaged_images_are_truncated_pages(workers, tmp_path):
    Image.fromarray(draw_lines(LINES)).save(tmp_path / "a.jpg", quality=90)
    content = (tmp_path / "a.jpg").read_bytes()
    for pool in (None, workers):
        document = ocria.parse(content[: len(content) * 5 // 8], reader=FakeReader(LINES), workers=pool)
        assert [page.status for page in document.pages] == ["truncated"]
        assert "missing" in document.pages[0].error
        assert document.pages[0].text
        assert document.status == "partial"


def test_jobs_choose_how_many_processes(born_digital, monkeypatch):
    made = []

    class Counted(Workers):
        def __init__(self, count):
            made.append(count)
            super().__init__(count)

    monkeypatch.setattr("ocria.document.workers.Workers", Counted)
    ocria.parse(pages("a"), jobs=0)
    assert made == []
    ocria.parse(pages("a"), jobs=2)
    monkeypatch.undo()
    monkeypatch.setattr("ocria.document.workers.Workers", Counted)
    ocria.parse(pages("a"))
    assert made == [2, 1], "one process where nothing is said"
