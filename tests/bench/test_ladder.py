"""The ladder: its gate, the reference with snapshots, its tables and picture, and what an interrupt leaves."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from ladder import __main__ as command
from ladder import plot, table
from ladder.limits import Machine, StepCosts
from ladder.run import Climb, Measured, Progress, Spread, climb
from ladder.rungs import BY_KEY, GIVEN_ROWS, LADDER, MIX, RING, unavailable
from ladder.sides import Ocria, Seen
from ladder.snapshots import Snapshots
from ladder.subject import line_model
from ladder.work import Unit, Work, with_given_drafts
from scripted import Oracle, all_wrong, some_wrong
from torch.nn.functional import normalize

from ocria.document.reader import NANO
from ocria.errors import OutputError, UsageError
from ocria.ops.replay import replay
from ocria.quant.recipe import recipe_names
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request
from ocria.spec.chain import Chain

QUICK = ["--limit", "3", "--batch", "1", "2", "--repeats", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def subject():
    return line_model(NANO, "cpu", None, 3)


@pytest.fixture
def rng():
    sequence = np.random.SeedSequence()
    print(f"entropy {sequence.entropy}")
    return np.random.default_rng(sequence)


def run(capsys, *arguments):
    """Exit code, what was printed, and the document of a run of the command."""
    status = command.main([*QUICK, *arguments])
    out = capsys.readouterr().out
    return status, out, json.loads(out.splitlines()[-1])


def test_options_and_recipes_of_all_rungs_are_ones_that_exist():
    for rung in LADDER:
        if not rung.peer:
            EngineOptions(**rung.options)
    assert MIX in recipe_names()
    assert RING >= 2 * GIVEN_ROWS
    assert unavailable(BY_KEY["graphs"], "cpu")
    assert not unavailable(BY_KEY["graphs"], "cuda")
    assert all(BY_KEY[rung.beside].beside == rung.key for rung in LADDER if rung.beside)


@pytest.mark.parametrize(("spoil", "batch"), [(None, 2), (some_wrong, 1), (some_wrong, 3), (all_wrong, 3)])
def test_snapshots_decode_as_plain_steps_do(subject, rng, spoil, batch):
    requests = subject.work.requests
    plain = subject.engine(BY_KEY["plain"], 1).run(requests, 1)
    oracle = Oracle({r.id: (*a.tokens, 0) for r, a in zip(requests, plain, strict=True)}, spoil, rng)
    options = EngineOptions(max_batch=batch, ring=RING, draft_rows=GIVEN_ROWS)
    side = Ocria(subject.loaded, options, Chain([oracle], GIVEN_ROWS), Snapshots().in_place)
    oracle.engine = side.engine
    for _ in range(2):  # the second time slots have had owners
        found = side.run(requests, batch)
        assert [a.tokens for a in found] == [a.tokens for a in plain]
    assert all(step.rows == GIVEN_ROWS for step in side.counted.steps)
    length = side.counted.acceptance.accept_length
    assert length > 4 if spoil is None else length < 2 if spoil is all_wrong else 1 < length < GIVEN_ROWS


def test_snapshots_give_what_the_replay_gives(rng):
    """Texts of a robust model forgive a state that is slightly wrong; numbers do not."""
    slots, batch, rows, hk, hv, dk, dv = 5, 3, GIVEN_ROWS, 2, 4, 6, 10

    def normal(*shape):
        return torch.from_numpy(rng.normal(size=shape)).float()

    checkpoint = normal(slots, hv, dk, dv)
    plain = checkpoint.clone()
    rings = [torch.zeros(slots, RING, *shape) for shape in ((hk, dk), (hv, dv), (hv, dv), (2, hv))]
    unused = [ring.clone() for ring in rings]
    chosen = torch.from_numpy(rng.permutation(np.arange(1, slots))[:batch].copy())
    length = torch.from_numpy(rng.integers(1, 100, batch))
    folded, snapshots = length.clone(), Snapshots()
    for _ in range(6):
        count = torch.from_numpy(rng.integers(1, rows + 1, batch))
        live = (torch.arange(rows) < count[:, None])[..., None]
        q, k = (normalize(normal(batch, rows, hk, dk), dim=-1) * live[..., None] for _ in range(2))
        v = normal(batch, rows, hv, dv) * live[..., None]
        g, beta = -normal(batch, rows, hv).abs() * live, normal(batch, rows, hv).sigmoid() * live
        inputs, flush = (q, k, v, g, beta), length > folded
        expected = replay(*inputs, plain, *rings, chosen, length, folded, count, flush)
        found = snapshots.step(*inputs, checkpoint, *unused, chosen, length, folded, count, flush)
        assert expected.abs().max() > 0.1
        # fp32, sums of ten terms in another order.
        torch.testing.assert_close(found * live[..., None], expected, rtol=1e-3, atol=1e-4)
        folded = torch.where(flush, length, folded)
        length = length + torch.from_numpy(rng.integers(1, count.numpy() + 1))
    assert all((ring == 0).all() for ring in unused)


def test_a_ring_that_keeps_more_than_a_step_is_refused(subject):
    options = EngineOptions(max_batch=1, ring=2 * RING, draft_rows=GIVEN_ROWS, draft="lookup")
    side = Ocria(subject.loaded, options, state=Snapshots().in_place)
    with pytest.raises(UsageError, match="ring of"):
        side.run(subject.work.requests, 1)


def test_a_batch_is_never_larger_than_was_asked_for(subject):
    side = subject.engine(BY_KEY["plain"], 3)
    for batch in (3, 1, 2):
        side.run(subject.work.requests, batch)
        assert max(step.batch for step in side.counted.steps) == batch
        assert side.counted.seconds > 0


def test_a_real_run(capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    picture = tmp_path / "ladder.png"
    rungs = ["plain", "snapshots", "replay", "graphs", "fused"]
    status, out, found = run(capsys, "--rung", *rungs, "--plot", str(picture))
    assert status == 0, found
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert set(found["skipped"]) == {"graphs", "fused"}
    assert "needs cuda" in out
    rows = {(row["rung"], row["batch"]): row for row in found["rows"]}
    assert set(rows) == {("plain", 1), *((key, batch) for key in ("snapshots", "replay") for batch in (1, 2))}
    for row in rows.values():
        assert row["same"] + row["ties"] == row["requests"] == 3
        assert row["tokens_per_s"]["median"] > 0
        assert row["first_s"]["median"] > 0
        assert 0 < row["percent"] < 100
        assert row["host_s"] > 0
        assert row["cer"] < 0.1, "these are clean lines"
    # The same drafts on both sides.
    assert rows["snapshots", 1]["accept_length"] == rows["replay", 1]["accept_length"] > 2
    assert rows["snapshots", 1]["bytes_per_step"] > rows["replay", 1]["bytes_per_step"]
    assert rows["plain", 1]["accept_length"] is None


def test_another_token_turns_the_gate_red(capsys, monkeypatch, tmp_path):
    real = Ocria.run

    def wrong(side, requests, batch):
        answers = real(side, requests, batch)
        if side.engine.options.draft == "none":
            return answers
        return [replace(a, tokens=(*a.tokens[:-1], (a.tokens[-1] + 1) % 256)) for a in answers]

    monkeypatch.setattr(Ocria, "run", wrong)
    monkeypatch.setattr(table, "DOCS", tmp_path)
    status, out, found = run(capsys, "--rung", "plain", "replay", "--write")
    assert status == 1
    assert not list(tmp_path.iterdir()), "a red ladder is written nowhere"
    for row in found["rows"]:
        assert row["red"] == (row["rung"] == "replay")
        if row["red"]:
            assert row["different"] == row["requests"] == 3
            assert row["seconds"] == []
            assert row["tokens_per_s"] is None
    assert "**3 WRONG**" in out


def test_what_an_interrupt_leaves(capsys, monkeypatch):
    real, calls = Ocria.first, []

    def second(side, requests, batch):
        calls.append(batch)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(side, requests, batch)

    monkeypatch.setattr(Ocria, "first", second)
    status, out, found = run(capsys, "--rung", "plain", "replay")
    assert status == 130
    assert found["incomplete"]
    assert "**Incomplete**" in out
    rows = {(row["rung"], row["batch"]): row for row in found["rows"]}
    assert rows["plain", 1]["tokens_per_s"] is not None
    assert rows["replay", 1]["tokens_per_s"] is None
    assert rows["replay", 1]["same"] == 3, "it was checked, but not measured"


def test_an_interrupt_before_anything_was_read(subject, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ocria, "run", stop)
    found = climb(subject, list(LADDER), [1], 1, Progress(lambda text: None))
    assert found.incomplete
    how = table.method(found, 1, "cpu", "float32", [])
    assert "interrupted" in how[0]
    assert json.loads(json.dumps(table.document(found, how)))["rows"] == []


def made_climb(rng):
    """A climb of made numbers: rungs at batch 1, 8 and 32, one of them red, one not there."""
    work = Work([Request(0, [1])], [], 1.0, "one line")
    found = Climb("made", [1, 8, 32], work, tokens=10, machine=Machine(4e10, 1e10, 1e11, 1e7), repeats=3)
    found.skipped["graphs"] = "not on this device: needs cuda"
    for rung in LADDER:
        for batch in [rung.batch] if rung.batch else found.batches:
            if rung.key in ("fused", "graphs"):
                continue
            speed = float(rng.uniform(50, 5000))
            row = Measured(rung.key, batch, 7, 6, 1, 0, 100, cer=0.004)
            if (rung.key, batch) == ("dflash", 8):
                row.different, row.same, row.ties = 2, 5, 0
            else:
                row.tokens_per_s = Spread(speed, 0.9 * speed, 1.1 * speed)
                row.times, row.percent, row.bound = Spread(2.5, 2.0, 3.0), 12.3, "memory"
                row.bytes_per_step, row.host_s, row.seconds = 12.6e6, 3e-4, [1.0]
            found.rows.append(row)
    return found


def test_the_page_keeps_what_stands_around_the_tables(rng, tmp_path):
    found = made_climb(rng)
    page = tmp_path / "ladder.md"
    page.write_text(f"# Before\n\n{table.BEGIN}\nold numbers\n{table.END}\n\nAfter.\n", encoding="utf-8")
    for _ in range(2):
        assert table.write(found, ["how it was done"], tmp_path) == page
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# Before\n\n{table.BEGIN}\n")
        assert text.endswith(f"{table.END}\n\nAfter.\n")
        assert text.count("### Batch") == 3
        assert text.count("how it was done") == 1
        assert "old numbers" not in text
    red = next(line for line in text.splitlines() if "WRONG" in line)
    assert red.startswith("| + DFlash | — |")
    assert "**2 WRONG**, 5/7" in red
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert {line.count(" | ") for line in rows} == {len(table.HEAD) - 1}
    assert "6/7 + 1 =" in text
    assert "needs cuda" in text


def test_a_page_without_markers_is_left_alone(rng, tmp_path):
    page = tmp_path / "ladder.md"
    page.write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(OutputError, match="no place"):
        table.write(made_climb(rng), [], tmp_path)
    assert page.read_text(encoding="utf-8") == "# Nothing\n"


def test_the_repository_has_a_place_for_the_tables():
    text = (table.DOCS / "ladder.md").read_text(encoding="utf-8")
    assert text.index(table.BEGIN) < text.index(table.END)
    assert [rung.title for rung in LADDER if f"**{rung.title}" not in text and not rung.absent] == [
        "transformers, batched", "given drafts, ReplaySSM"
    ]  # fmt: skip  # they share a line with those before


def test_a_picture_of_made_numbers(rng, tmp_path):
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    plot.plot(made_climb(rng), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_given_drafts_are_the_answer_with_wrong_letters(rng):
    text = " ".join("".join(rng.choice(list("abcxyz"), int(rng.integers(1, 9)))) for _ in range(40))
    (request,) = with_given_drafts([Request(3, [1])], {3: text}, seed=int(rng.integers(1 << 30)))
    assert len(request.guess) == len(text)
    wrong = [a != b for a, b in zip(text.split(), request.guess.split(), strict=True)]
    first = wrong.index(True)
    assert first < 4
    assert wrong == [number % 4 == first for number in range(40)]


def test_a_text_is_scored_where_all_its_lines_are():
    work = Work([Request(n, [1]) for n in range(4)], [Unit((0, 1), "abcd efgh"), Unit((2,), "ijkl")], 2.0, "")
    texts = {0: "abcd", 1: "efgx", 2: "ijkl", 3: "?"}
    assert work.cer(texts) == pytest.approx(1 / 13)
    kept = work.kept({0, 2})
    assert kept.cer(texts) == 0
    assert kept.pages == 1
    assert work.kept({0}).cer(texts) is None


def test_the_least_time_of_a_step_is_that_of_what_binds_it(subject):
    costs = StepCosts(subject.engine(BY_KEY["plain"], 1))
    one, many = Seen(1, 1, False, 50), Seen(32, 16, False, 1600)
    parameters = sum(p.numel() for p in subject.loaded.network.model.language_model.parameters())
    assert costs.of(one)[1] == pytest.approx(2 * parameters, rel=0.05)
    assert costs.of(one)[0] == pytest.approx(4 * parameters, rel=0.1)  # fp32
    assert costs.of(many)[1] == 512 * costs.of(one)[1]
    machine = Machine(bandwidth=1e9, memory=1e9, operations=1e9, working_set=1e7)
    least = costs.least([one, many], machine)
    assert least.seconds == pytest.approx(costs.of(one)[0] / 1e9 + costs.of(many)[1] / 1e9)
    assert least.bound == "arithmetic"
    assert costs.least([one], machine).bound == "memory"


def test_wrong_arguments(capsys):
    for arguments in (["--batch", "0"], ["--limit", "0"], ["--rung", "nothing"], ["--repeats", "0"]):
        with pytest.raises(SystemExit) as caught:
            command.main(arguments)
        assert caught.value.code == 2
    if not torch.cuda.is_available():
        assert command.main(["--device", "cuda"]) == 2
    capsys.readouterr()


def test_a_peer_is_read_chunk_by_chunk():
    from ladder.sides import Peer

    class Model:
        def __init__(self):
            self.max_tokens, self.decoding, self.calls = 9, [], []

        def generate(self, images, batch, max_tokens=None):
            self.calls.append([image.shape[1] for image in images])
            self.decoding = [SimpleNamespace(batch=len(images), length=5, seconds=0.5, inside=0.4)] * 2
            return [[image.shape[1]] for image in images]

    widths = [30, 10, 50, 20, 40]
    requests = [Request(n, [1], [np.zeros((40, width), np.uint8)]) for n, width in enumerate(widths)]
    model = Model()
    side = Peer(model, str, "cpu")
    answers = side.run(requests, 2)
    assert [a.tokens for a in answers] == [(width,) for width in widths]
    assert model.calls == [[50, 40], [30, 20], [10]]
    assert side.counted.seconds == 3.0
    assert [step.batch for step in side.counted.steps] == [2, 2, 2, 2, 1, 1]
    assert side.host_seconds(requests, 2) == pytest.approx(0.1)
