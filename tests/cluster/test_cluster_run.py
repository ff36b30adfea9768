"""Whole runs on a real Ray with two engines: what comes out, and what a killed engine, files that crash their reader
and a stopped run cost."""

import contextlib
import json
import os
import re
import tempfile
import threading
from pathlib import Path

import pymupdf
import pytest
from cluster_child import CRASH_AT_OPENING
from PIL import Image, ImageDraw

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ocria[ray]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ocria[ray]'")

import pyarrow.parquet as parquet  # noqa: E402

import ocria  # noqa: E402
from ocria.cluster.options import ClusterOptions  # noqa: E402
from ocria.cluster.run import run_cluster  # noqa: E402
from ocria.document.options import ParseOptions  # noqa: E402
from ocria.errors import UsageError  # noqa: E402

HERE = Path(__file__).parent
HEADER = "The annual report of the port"
REPORT_PAGES, SLOW_PAGES = 3, 16


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Ray whose workers open files in children that misbehave."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    # Not below the folder of the tests: names of sockets must be short.
    with contextlib.ExitStack() as last:
        temporary = last.enter_context(tempfile.TemporaryDirectory(prefix="ocria-ray-", ignore_cleanup_errors=True))
        last.callback(ray.shutdown)
        for tries_left in (2, 1, 0):  # Ray waits for its own processes for 30 s, which a busy machine may need again
            try:
                ray.init(
                    num_cpus=4,
                    include_dashboard=False,
                    object_store_memory=200 << 20,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _temp_dir=temporary,
                    runtime_env={
                        "env_vars": {"PYTHONPATH": paths}, "worker_process_setup_hook": "cluster_child.install"
                    },
                )  # fmt: skip
                break
            except Exception:
                if not tries_left:
                    raise
                ray.shutdown()
        yield


def pdf(path, *texts, blank=0, title=None, **saved):
    """A page for each text, of lines that are parted by line breaks, and blank ones."""
    with pymupdf.open() as document:
        for text in texts:
            page = document.new_page(width=400, height=500)
            for line, words in enumerate(text.split("\n")):
                page.insert_text((40, 40 + 40 * line), words, fontsize=11)
        for _ in range(blank):
            document.new_page(width=100, height=100)
        if title:
            document.set_metadata({"title": title})
        document.save(path, **saved)


def report(path):
    """Running headers and numbers of pages, which only all pages together tell."""
    lines = ["Of ships that came and went", "and of their cargo", "we have this to say", "in so many words"]
    pdf(path, *[
        "\n".join([HEADER, *[f"{line}, part {number}." for line in lines], "", "", "", "", "", str(number)])
        for number in range(1, REPORT_PAGES + 1)
    ])  # fmt: skip


def scan(path):
    image = Image.new("L", (700, 200), 255)
    ImageDraw.Draw(image).text((40, 80), "Read me from my pixels", fill=0, font_size=40)
    image.save(path, dpi=(150, 150))


def table_of(out):
    return [row for path in sorted((out / "pages").iterdir()) for row in parquet.read_table(path).to_pylist()]


def of_path(rows, name):
    return sorted((row for row in rows if row["path"].endswith(f"/{name}")), key=lambda row: row["page"] or 0)


def without_times(text):
    return re.sub(r'"seconds": [0-9.]+', "", text)


def test_everything_comes_out_whatever_happens(cluster, tmp_path):
    source, out, killed = tmp_path / "in", tmp_path / "out", tmp_path / "killed"
    source.mkdir()
    report(source / "report.pdf")
    scan(source / "scan.png")
    pdf(source / "kill.pdf", blank=2, title=f"KILL {killed}")
    pdf(source / "page.pdf", blank=3, title="CRASH 2")
    pdf(source / "opening.pdf", blank=1)
    with open(source / "opening.pdf", "ab") as file:
        file.write(CRASH_AT_OPENING)
    pdf(source / "locked.pdf", blank=1, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
    (source / "empty.pdf").write_bytes(b"")
    os.mkfifo(source / "pipe.pdf")  # whoever opens it waits for a writer
    options = ParseOptions(batch=8)
    chosen = ClusterOptions(
        str(source), str(out), actors="2", cores_per_actor=1, rows_per_shard=2, pages_per_row=2,
        documents=("md", "json"),
    )  # fmt: skip
    events = []
    outcome = run_cluster(options, chosen, show=events.append)
    tally = outcome.tally
    assert (tally.ok, tally.partial, tally.failed, tally.skipped, tally.interrupted) == (3, 1, 4, 0, 0)
    failed = {Path(event.path).name: event.exit_code for event in events}
    assert failed == {"locked.pdf": 5, "empty.pdf": 4, "opening.pdf": 4, "pipe.pdf": 4}
    assert len(events) == len(failed)
    assert (outcome.exit_code("partial"), outcome.exit_code("never")) == (1, 0)
    assert killed.exists()  # one engine was killed, and what it had was read by another
    assert sorted(Path(failure.path).name for failure in tally.failures) == [
        "empty.pdf", "locked.pdf", "opening.pdf", "page.pdf", "pipe.pdf"
    ]  # fmt: skip

    rows = table_of(out)
    assert len({(row["row"], row["page"]) for row in rows}) == len(rows) == REPORT_PAGES + 1 + 2 + 3 + 4
    assert [row["page"] for row in of_path(rows, "report.pdf")] == list(range(1, REPORT_PAGES + 1))
    assert [row["status"] for row in of_path(rows, "page.pdf")] == ["blank", "failed", "blank"]
    assert [row["status"] for row in of_path(rows, "kill.pdf")] == ["blank", "blank"]
    for name, code, why in (("locked", 5, "password"), ("empty", 4, "empty"), ("opening", 4, "crashes"),
                            ("pipe", 4, "no file")):  # fmt: skip
        (row,) = of_path(rows, f"{name}.pdf")
        assert (row["page"], row["status"], row["code"], row["markdown"]) == (None, "failed", code, None)
        assert why in row["error"]
    (read,) = of_path(rows, "scan.png")
    assert (read["route"], read["outcome"]) == ("model", "ok")
    assert read["tokens"] > 0
    assert "pixels" in read["text"]

    for name in ("report.pdf", "scan.png"):
        whole = ocria.parse(source / name, batch=8)
        assert (out / "documents" / f"{name}.md").read_text() == whole.markdown
        assert without_times((out / "documents" / f"{name}.json").read_text()) == without_times(whole.to_json())
        assert [row["markdown"] for row in of_path(rows, name)] == [page.markdown for page in whole.pages]
        assert json.loads(of_path(rows, name)[0]["json"])["blocks"]
    assert HEADER not in whole_text(out / "documents/report.pdf.md")
    assert {path.name for path in (out / "documents").iterdir()} == {
        f"{name}.{form}" for name in ("report.pdf", "scan.png", "kill.pdf", "page.pdf") for form in ("md", "json")
    }
    assert not (out / ".ocria/parts").exists()
    with pytest.raises(UsageError, match="made with other options"):
        run_cluster(ParseOptions(mode="text"), chosen)


def whole_text(path):
    return path.read_text(encoding="utf-8")


def test_a_stopped_run_goes_on(cluster, tmp_path):
    """A manifest in, JSON Lines out by URL. What was done, down to the page, is not read again."""
    log, out = tmp_path / "log", tmp_path / "out"
    pdf(tmp_path / "quick.pdf", blank=9)
    pdf(tmp_path / "slow.pdf", blank=SLOW_PAGES, title=f"SLOW {log}")
    rows = [{"path": "quick.pdf", "pages": "2-3", "id": "q"}, {"path": f"{tmp_path}/slow.pdf"}, {"path": "none.pdf"}]
    rows.append({"path": "nonsense://bucket/x.pdf"})  # a fault of its row alone, as is
    rows.append({"path": "quick.pdf", "pages": "3-1"})
    (tmp_path / "todo.jsonl").write_text("\n".join(map(json.dumps, rows)))
    chosen = ClusterOptions(
        str(tmp_path / "todo.jsonl"), f"file://{out}", actors="1", cores_per_actor=1, rows_per_shard=1, shards="jsonl",
        interval_s=0.2,
    )  # fmt: skip
    cancel, lines = threading.Event(), []

    def stop_in_the_slow_one(line):
        lines.append(line)
        if re.match("1 of", line) and int(re.search(r"(\d+) pages", line)[1]) > 4:
            cancel.set()

    first = run_cluster(ParseOptions(mode="text"), chosen, cancel=cancel, tell=stop_in_the_slow_one)
    assert first.stopped
    assert (first.tally.ok, first.tally.pages, first.exit_code("partial")) == (1, 2, 130), lines
    before = {path.name: path.read_bytes() for path in (out / "pages").iterdir()}
    read_before = log.read_text().split()
    assert len(before) == 1
    assert 3 <= len(read_before) < SLOW_PAGES
    assert len(list((out / ".ocria/parts").iterdir())) == 1

    Path(f"{log}.fast").touch()
    second = run_cluster(ParseOptions(mode="text"), chosen)
    tally = second.tally
    assert (tally.skipped, tally.ok, tally.failed, tally.interrupted) == (1, 1, 3, 0)
    after = {path.name: path.read_bytes() for path in (out / "pages").iterdir()}
    assert len(after) == 5
    assert after | before == after  # as they were
    told = [json.loads(line) for data in after.values() for line in data.splitlines()]
    slow = of_path(told, "slow.pdf")
    assert [row["page"] for row in slow] == list(range(1, SLOW_PAGES + 1))
    assert [(row["id"], row["page"], row["range"]) for row in of_path(told, "quick.pdf") if row["page"]] == [
        ("q", 2, "2-3"), ("q", 3, "2-3")
    ]  # fmt: skip
    assert of_path(told, "none.pdf")[0]["error"] == "no such file"
    # Pages are looked at ahead of where they are needed: those that the stop overtook are looked at again.
    again = len(log.read_text().split()) - SLOW_PAGES
    assert 0 <= again <= 4 < len(read_before)
    assert not (out / ".ocria/parts").exists()
