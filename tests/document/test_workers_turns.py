"""Threads that share child processes have them in turn: a long document keeps no other waiting."""

import threading
import time

from ocria.document.workers import Workers
from ocria.document.workers.pool import Handle
from ocria.document.workers.wire import Opening
from ocria.errors import TimeoutExceeded


def waiting(pool):
    with pool._changed:
        return len(pool._changed._waiters)


def test_who_came_first_has_it_first():
    with Workers(1) as pool:
        pool.run("stated_size", "warm", b"x")
        for _ in range(5):
            order = []

            def ask(name, order=order):
                pool.run("stated_size", name, b"x")
                order.append(name)

            handle = Handle(0, Opening("busy", ""))
            process = pool._take(handle, None, False)
            others = []
            for number in range(3):
                others.append(threading.Thread(target=ask, args=(number,)))
                others[-1].start()
                while waiting(pool) <= number:
                    time.sleep(0.001)
            pool._give_back(process, handle)
            ask("again")  # at once, as the next page of a long document
            for other in others:
                other.join()
            assert order == [0, 1, 2, "again"]


def test_one_that_waits_no_longer_holds_up_nobody():
    with Workers(1) as pool:
        handle = Handle(0, Opening("busy", ""))
        process = pool._take(handle, None, False)
        told = []

        def late():
            try:
                pool.run("stated_size", "late", b"x", until=time.monotonic() + 0.2)
            except TimeoutExceeded as error:
                told.append(error)

        first, second = threading.Thread(target=late), threading.Thread(
            target=lambda: told.append(pool.run("stated_size", "patient", b"no image")))
        first.start()
        while not waiting(pool):
            time.sleep(0.001)
        second.start()
        first.join()
        assert isinstance(told[0], TimeoutExceeded)
        pool._give_back(process, handle)
        second.join()
        assert told[1] is None
