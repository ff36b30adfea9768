"""The reader with a real engine, on an untrained checkpoint of the embedded model's shape."""

import numpy as np
import pytest
import torch
from made import draw_lines

from ocria.document.options import ParseOptions
from ocria.document.reader import Delta, Reader, Told, drain, placement
from ocria.errors import EngineError, ModelNotFoundError
from ocria.events import EngineTick, PrefillDone, RequestSubmitted, TokensAccepted
from ocria.runtime.opinion import Opinion
from ocria.runtime.request import Result
from ocria.train.architecture import model_config
from ocria.train.export import export
from ocria.train.learner import Learner


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nano")
    torch.manual_seed(int(np.random.default_rng().integers(1 << 30)))
    export(Learner(model_config()), folder)
    return folder


@pytest.fixture(scope="module")
def reader(checkpoint):
    return Reader(ParseOptions(model=str(checkpoint), max_output_tokens=9, batch=3))


@pytest.fixture
def crops():
    words = ["one short line", "a second, somewhat longer line of print", "x", "and the fourth", "last of five"]
    return [draw_lines([text], size=(160 + 16 * len(text), 44), font_size=26, top=6)[:, 100:] for text in words]


def test_results_come_in_order_and_do_not_depend_on_the_batch(reader, crops):
    together = reader.read_lines(crops)
    assert [read.text for read in together] == [reader.read_lines([crop])[0].text for crop in crops]
    assert all(read.tokens_out <= 9 for read in together)
    assert all(read.tokens_in > 0 for read in together)


def test_the_streamed_text_is_what_the_decoder_wrote(reader, crops, monkeypatch):
    streamed, written = [""] * len(crops), []

    def take(delta: Delta):
        streamed[delta.index] += delta.text

    def judge(result):
        written.append(result.text)
        return Opinion(result.text.upper() + "!", whole=False)

    monkeypatch.setattr(reader._opinion, "on", judge)
    read = drain(reader.stream(crops), take)
    assert sorted(written) == sorted(streamed)
    assert [one.text for one in read] == [text.upper() + "!" for text in streamed], "a second opinion has the last word"


def test_a_line_that_is_too_long_is_read_in_pieces(reader):
    long = draw_lines(["word " * 120], size=(9000, 44), font_size=26, top=6)[:, 100:]
    short = draw_lines(["word"], size=(300, 44), font_size=26, top=6)[:, 100:]
    read, other = reader.read_lines([long, short])
    assert read.tokens_out > 9 >= other.tokens_out
    assert 0 <= read.confidence <= 1


def test_a_crop_that_cannot_be_used_fails_alone(reader, crops):
    good, bad = reader.read_lines([crops[0], np.zeros((0, 30), np.uint8)])
    assert good.tokens_out > 0
    assert bad.status == "failed"
    assert bad.error


def test_a_reading_that_is_closed_leaves_the_engine_free(reader, crops):
    reading = reader.stream(crops)
    next(reading, None)
    reading.close()
    assert len(reader.read_lines(crops[:2])) == 2


def test_the_model_is_named(reader):
    assert reader.unit == "line"
    assert reader.model.name == "ocria-nano"
    assert len(reader.model.version) == 12


def test_a_reading_tells_what_the_engine_does(reader, crops):
    items = list(reader.stream(crops))
    told = [item for item in items if isinstance(item, Told)]
    for index in range(len(crops)):
        mine = [item.event for item in told if item.index == index]
        assert [type(event) for event in mine[:2]] == [RequestSubmitted, PrefillDone]
        assert all(isinstance(event, TokensAccepted) for event in mine[2:])
        assert mine[0].tokens_in == mine[1].tokens_in > 0
    last = items[-1]
    assert isinstance(last, EngineTick)
    assert (last.running, last.waiting) == (0, 0)
    assert last.decode_tokens_per_s > 0
    assert last.state_bytes > 0


def test_time_runs_out(checkpoint, crops):
    """Half of the lines would never be reached within a nanosecond."""
    reader = Reader(ParseOptions(model=str(checkpoint), max_output_tokens=9, batch=2, page_timeout=1e-9))
    for read in reader.read_lines(crops):
        assert read.status == "timeout"
        assert read.error.startswith("time ran out after 1e-09 s and 0 tokens")
        assert "--page-timeout" in read.error
        assert (read.text, read.tokens_out) == ("", 0)


def test_a_loop_is_cut_to_its_first_round(reader):
    result = Result("0", "Total 12 12 12 12 12", (1,) * 6, "degenerate", "degenerate", 0.9, 0.8, 8, 6, 1.0, 8)
    read = reader._read_text(result)
    assert (read.text, read.status, read.error) == ("Total 12", "degenerate", "degenerate")


@pytest.mark.parametrize(("whole", "expected"), [(True, ("ok", None)), (False, ("degenerate", "degenerate"))])
def test_where_the_second_opinion_has_the_whole_line_there_is_no_loop(reader, monkeypatch, whole, expected):
    monkeypatch.setattr(reader._opinion, "on", lambda result: Opinion("Total 12", whole))
    result = Result("0", "Total 12 12 12 12 12", (1,) * 6, "degenerate", "degenerate", 0.9, 0.8, 8, 6, 1.0, 8)
    read = reader._read_text(result)
    assert (read.text, read.status, read.error) == ("Total 12", *expected)


def test_the_memory_is_planned_before_the_weights_are_read(checkpoint, monkeypatch):
    from ocria.model import checkpoint as loading

    def read(infos):
        raise AssertionError("weights were read")

    monkeypatch.setattr(loading, "read_tensors", read)
    with pytest.raises(EngineError, match=r"not enough memory.*weights.*vision.*--memory"):
        Reader(ParseOptions(model=str(checkpoint), memory="1M"))
    with pytest.raises(AssertionError, match="weights were read"):
        Reader(ParseOptions(model=str(checkpoint), memory="1G"))


def test_levers_reach_the_engine(checkpoint):
    options = ParseOptions(model=str(checkpoint), max_output_tokens=4, batch=2, ring=16, draft="none", memory="1G")
    reader = Reader(options)
    resolved = placement(options).resolved
    assert (resolved.ring, resolved.max_batch, resolved.memory_bytes) == (16, 2, 1 << 30)
    assert "ring 16" in reader.about
    assert "2 requests" in reader.about
    assert "weights" in reader.about


def test_a_missing_embedded_model_is_told(monkeypatch, tmp_path):
    from ocria.document import reader

    monkeypatch.setattr(reader, "NANO", tmp_path / "nano")
    with pytest.raises(ModelNotFoundError, match="Install ocria again"):
        Reader(ParseOptions())
