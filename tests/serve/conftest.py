"""A server for all tests of this folder: uvicorn on loopback, in a thread."""

import pytest


@pytest.fixture(scope="session")
def running():
    from served import Running

    server = Running(names=("olmocr",))
    server.wait_until_ready()
    yield server
    server.stop()


@pytest.fixture
def server(running):
    yield running
    running.wait_until_free()


@pytest.fixture(scope="session")
def scan():
    """A PNG with a line of print, and the words in it."""
    from served import png

    return png(["The quick brown fox"]), "The quick brown fox"


@pytest.fixture(scope="session")
def pdf():
    """A PDF of three pages with a text layer."""
    import pymupdf

    with pymupdf.open() as document:
        for number in range(1, 4):
            document.new_page(width=300, height=200).insert_text((30, 60), f"Words of page {number}")
        return document.tobytes()
