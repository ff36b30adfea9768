"""One engine for several threads: their requests are in one batch, and what one does to its own concerns no other."""

import random
import threading
import time

import numpy as np
import pytest

from ocria.document.options import ParseOptions
from ocria.document.reader import Reader, drain
from ocria.errors import EngineError, UsageError
from ocria.runtime.request import Request


@pytest.fixture(scope="module")
def reader():
    reader = Reader(ParseOptions(draft="none", device="cpu"), shared=True)
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def plain():
    return Reader(ParseOptions(draft="none", device="cpu"))


def lines(seed, count):
    """Line images with strokes on them: the model reads something, and the same from the same."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        image = np.full((40, int(generator.integers(60, 200))), 255, np.uint8)
        for x in range(6, image.shape[1] - 6, int(generator.integers(5, 12))):
            image[8 : int(generator.integers(20, 34)), x : x + 2] = 0
        made.append(image)
    return made


def in_threads(*tasks):
    """Run them at once; returns their answers, or raises what one of them raised."""
    answers = [None] * len(tasks)

    def run(index):
        try:
            answers[index] = tasks[index]()
        except BaseException as error:
            answers[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a stream hangs"
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def test_threads_read_what_one_alone_reads(reader, plain):
    seed = random.randrange(1 << 30)
    images = [lines(seed + n, count) for n, count in enumerate((1, 5, 3))]
    alone = [[one.text for one in plain.read(some)] for some in images]
    together = in_threads(*(lambda some=some: reader.read(some) for some in images))
    assert [[one.text for one in some] for some in together] == alone, f"seed {seed}"
    assert any(text for some in alone for text in some)


def test_requests_of_two_threads_are_in_one_batch(reader):
    engine = reader._engine
    begun, seen = threading.Barrier(2), []

    def read(seed):
        begun.wait(60)
        for _ in drain_ticks(reader, lines(seed, 4), seen):
            pass

    def drain_ticks(reader, images, seen):
        for item in reader.stream(images):
            seen.append(len(engine._scheduler.running))
            yield item

    for _ in range(20):  # both begin at once; that one is done before the other is heard of is possible, and rare
        in_threads(lambda: read(1), lambda: read(2))
        if max(seen) > 4:
            return
    pytest.fail(f"never more than {max(seen)} requests at once")


def test_a_stream_that_is_left_frees_its_slots_and_no_other(reader, plain):
    left, kept = lines(7, 6), lines(8, 2)
    reading = reader.stream(left)
    next(reading)
    mine = in_threads(lambda: reader.read(kept), reading.close)[0]
    assert [one.text for one in mine] == [one.text for one in plain.read(kept)]
    wait_until_idle(reader)


def test_a_request_is_cancelled_and_the_others_go_on(reader):
    from ocria.document.reader import Order

    reading = reader.stream(lines(9, 3))
    next(reading)
    item = reading.send(Order(cancel=(1,)))
    results = None
    while results is None:
        try:
            item = next(reading)
        except StopIteration as end:
            results = end.value
    assert item is not None
    assert results[1].status in ("cancelled", "ok")  # it may have been done
    assert [results[0].status, results[2].status] == ["ok", "ok"]


def test_who_waits_is_told_that_nothing_came(reader):
    """So a run that is cancelled while others have the engine hears of it."""
    engine = reader._engine
    with engine._lock:  # as if a step took long
        stream = engine.stream([request_of(reader, "late")])
        emission = next(stream)
        assert (emission.id, emission.text, emission.result) == ("late", "", None)
    assert next(e for e in stream if e.result is not None).result.status == "ok"


def test_ids_are_unique_over_all_threads(reader):
    engine = reader._engine
    first = engine.stream([request_of(reader, "same")])
    next(first)
    with pytest.raises(UsageError, match="already there"):
        list(engine.stream([request_of(reader, "same")]))
    with pytest.raises(UsageError, match="same id"):
        list(engine.stream([request_of(reader, "a"), request_of(reader, "a")]))
    assert next(e for e in first if e.result is not None).result.status == "ok"


def test_a_step_that_fails_ends_all_streams_and_the_engine_goes_on(reader, plain, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such luck")

    engine, images = reader._engine, lines(11, 2)
    monkeypatch.setattr(engine, "_round", fail)

    def read():
        with pytest.raises(EngineError, match="no such luck"):
            reader.read(images)

    in_threads(read, read)
    monkeypatch.undo()
    assert [one.text for one in reader.read(images)] == [one.text for one in plain.read(images)]


def test_a_closed_engine_ends_its_streams_and_its_thread():
    reader = Reader(ParseOptions(draft="none", device="cpu"), shared=True)
    reading = reader.stream(lines(12, 2))
    next(reading)
    driver = reader._engine._driver
    reader.close()
    assert not driver.is_alive()
    with pytest.raises(EngineError, match="closed"):
        drain(reading)
    with pytest.raises(EngineError, match="closed"):
        reader.read(lines(12, 1))


def request_of(reader, name):
    from ocria.model.line import line_image

    return Request(name, reader._prompt, [line_image(lines(10, 1)[0])])


def wait_until_idle(reader):
    end = time.monotonic() + 60
    while not reader._engine.idle:
        assert time.monotonic() < end, "slots are still taken"
        time.sleep(0.01)
    reader._engine.check_integrity()
