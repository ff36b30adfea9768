"""Processes that open files stay between the documents of a reader, and end with it."""

import gc
import os
import signal

from made import FakeReader, draw_lines, scan_pdf
from test_workers import is_running, wait_until

import ocria
from ocria.document.workers import end_workers, warm_workers


def test_documents_of_a_reader_share_a_process_and_a_crash_between_them_costs_nothing():
    reader = FakeReader(["some words"])
    scan = scan_pdf(draw_lines(["The first line of the page is here", "and the second line follows it"]))
    assert ocria.parse(scan, mode="model", reader=reader, jobs=1).status == "ok"
    first = warm_workers(reader, 1).pids
    assert ocria.parse(scan, mode="model", reader=reader, jobs=1).status == "ok"
    assert warm_workers(reader, 1).pids == first
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: not is_running(first[0]))
    assert ocria.parse(scan, mode="model", reader=reader, jobs=1).status == "ok"
    second = warm_workers(reader, 1).pids
    assert second != first
    end_workers(reader)
    wait_until(lambda: not any(map(is_running, second)))


def test_the_process_ends_with_the_reader():
    reader = FakeReader(["some words"])
    pids = warm_workers(reader, 1).pids
    assert is_running(pids[0])
    del reader
    gc.collect()
    wait_until(lambda: not is_running(pids[0]))
