"""`ocria parse` over many documents, as users run it: signals, kills, pipes, full disks, exit codes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from batch_made import LINE, apart, broken_page, command, debris, events_of, files, kept_pages, pdf, started


def wait_for_pages(process, folder, count):
    """Until `count` pages are kept in a folder of outputs; the run must not end before."""
    while kept_pages(folder) < count:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)


def test_killed_at_a_random_page_a_rerun_gives_the_same_and_reads_no_page_twice(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    pages = 100
    path = pdf(tmp_path / "in" / "a.pdf", pages=pages, printed=3)
    out = tmp_path / "out"
    process = started(tmp_path / "in", "--output-dir", out, "--page-markers")
    wait_for_pages(process, out, rng.randint(1, pages - 4))
    process.kill()
    process.wait()
    process.communicate()
    assert files(out) == {}
    kept = kept_pages(out)
    again = command(tmp_path / "in", "--output-dir", out, "--page-markers", "--progress", "json")
    assert again.returncode == 0
    read = [event["page"] for event in events_of(again.stderr) if event["type"] == "page_done"]
    assert read == list(range(kept + 1, pages + 1))
    assert not debris(out)
    whole = command(path, "--page-markers")
    assert files(out) == {"a.pdf.md": whole.stdout}
    assert whole.stdout.count(b"<!-- page") == pages


def test_killed_at_any_time_no_half_file_has_a_final_name(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for name in "abcdef":
        pdf(tmp_path / "in" / f"{name}.pdf", name, pages=20, printed=name in "ac")
    expected = tmp_path / "expected"
    assert command(tmp_path / "in", "--output-dir", expected, "--page-markers").returncode == 0
    wanted, out = files(expected), tmp_path / "out"
    assert len(wanted) == 6
    for _ in range(2):
        process = started(tmp_path / "in", "--output-dir", out, "--page-markers")
        goal = rng.randint(1, 5)
        while process.poll() is None and len(files(out)) < goal and kept_pages(out) < 15:
            time.sleep(0.001 * rng.random())
        process.kill()
        process.wait()
        process.communicate()
        found = {name: content for name, content in files(out).items() if ".tmp" not in name}
        assert found.items() <= wanted.items()
    assert command(tmp_path / "in", "--output-dir", out, "--page-markers").returncode == 0
    assert files(out) == wanted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_keeps_what_is_done_and_says_how_to_go_on(tmp_path, number):
    for name in "ab":
        pdf(tmp_path / "in" / f"{name}.pdf", name, pages=40 if name == "b" else 9, printed=6 if name == "b" else 0)
    out = tmp_path / "out"
    process = started(tmp_path / "in", "--output-dir", out)
    wait_for_pages(process, out, 34)  # of b, for a has fewer
    process.send_signal(number)
    _, told = process.communicate(timeout=900)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "the same command goes on" in told
    assert "1 ok, 1 interrupted" in told
    assert list(files(out)) == ["a.pdf.md"]
    kept = kept_pages(out)
    assert 34 <= kept < 40
    again = command(tmp_path / "in", "--output-dir", out, "--progress", "json")
    assert again.returncode == 0
    assert sum(event["type"] == "page_done" for event in events_of(again.stderr)) == 40 - kept
    assert list(files(out)) == ["a.pdf.md", "b.pdf.md"]


def test_the_second_signal_stops_at_once(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", pages=60, printed=30)
    process = started(tmp_path / "in", "--output-dir", tmp_path / "out")
    wait_for_pages(process, tmp_path / "out", 30)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, told = process.communicate(timeout=900)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in told
    assert files(tmp_path / "out") == {}
    assert kept_pages(tmp_path / "out") >= 30


def test_two_runs_into_one_folder(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", pages=40, printed=10)
    out = tmp_path / "out"
    process = started(tmp_path / "in", "--output-dir", out)
    wait_for_pages(process, out, 30)
    process.send_signal(signal.SIGSTOP)  # or it might be done before the second has begun
    second = command(tmp_path / "in", "--output-dir", out)
    assert second.returncode == 6
    assert f"process {process.pid}".encode() in second.stderr
    assert second.stderr.count(b"\n") == 1
    process.kill()
    process.wait()
    process.communicate()
    # The lock of a run that was killed stands in nobody's way.
    assert command(tmp_path / "in", "--output-dir", out, "-p", "1").returncode == 0


def test_json_lines_of_several_documents(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", "a", pages=3)
    (tmp_path / "in" / "b.pdf").write_bytes(b"no PDF")
    pdf(tmp_path / "in" / "c.pdf", "c", printed=0)
    result = command(tmp_path / "in", "-f", "jsonl", "-o", "-")
    assert result.returncode == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(os.path.basename(line["document"]), line["page"] and line["page"]["index"]) for line in lines] == [
        ("a.pdf", 1), ("a.pdf", 2), ("a.pdf", 3), ("b.pdf", None), ("c.pdf", 1)
    ]  # fmt: skip
    assert b"b.pdf" in result.stderr
    for arguments in (["-o", "-"], ["-f", "md", "-o", "-"], ["-o", tmp_path / "one.md"]):
        wrong = command(tmp_path / "in", *arguments)
        assert (wrong.returncode, wrong.stdout) == (2, b"")
        assert b"--output-dir" in wrong.stderr


def test_a_reader_that_has_seen_enough(tmp_path):
    for name in "abc":
        pdf(tmp_path / "in" / f"{name}.pdf", name, pages=20, printed=0)
    line = f"'{sys.executable}' -m ocria parse --mode text -j 0 '{tmp_path}/in' -f jsonl -o - | head -n 1"
    result = subprocess.run(
        ["/bin/bash", "-c", line + "; echo ${PIPESTATUS[0]}"], capture_output=True, timeout=900
    )
    first, code = result.stdout.splitlines()
    assert json.loads(first)["page"]["index"] == 1
    assert code in (b"0", b"141")
    assert b"Traceback" not in result.stderr
    assert b"Broken pipe" not in result.stderr


def test_a_full_disk_behind_the_stream(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", printed=0)
    pdf(tmp_path / "in" / "b.pdf", printed=0)
    with open("/dev/full", "wb") as full:
        result = apart(tmp_path / "in", "-f", "jsonl", "-o", "-", "-q", stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 6
    assert b"No space left" in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_full_disk_in_the_middle(tmp_path):
    for name in "abcdef":
        pdf(tmp_path / "in" / f"{name}.pdf", name * 300, pages=1, printed=1)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=36k", "tmpfs", disk]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small disk can be made here")
    try:
        result = command(tmp_path / "in", "--output-dir", disk, "-f", "json,html,md")
        assert result.returncode == 6
        assert b"No space left" in result.stderr
        assert b"Traceback" not in result.stderr
        written = files(disk)
        for name, content in written.items():
            if name.endswith(".json"):
                assert json.loads(content)["status"] == "ok"
        assert not debris(disk)
        assert len(written) < 18
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert command(tmp_path / "in", "--output-dir", disk, "-f", "json,html,md").returncode == 0
        assert len(files(disk)) == 18
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_read_only_folder(tmp_path):
    pdf(tmp_path / "a.pdf", printed=0)
    (tmp_path / "out").mkdir(mode=0o500)
    if os.access(tmp_path / "out", os.W_OK):
        result = command(tmp_path / "a.pdf", "--output-dir", "/proc/ocria")  # root may write anywhere else
    else:
        result = command(tmp_path / "a.pdf", "--output-dir", tmp_path / "out")
    assert result.returncode == 6
    assert result.stderr.count(b"\n") <= 2
    assert b"--output-dir" in result.stderr


def test_the_summary_and_the_table(tmp_path):
    broken_page(tmp_path / "in" / "a.pdf")
    (tmp_path / "in" / "b.pdf").write_bytes(b"no PDF")
    pdf(tmp_path / "in" / "c.pdf", printed=0)
    (tmp_path / "in" / "d.xyz").write_bytes(b"?")
    result = command(tmp_path / "in", "--output-dir", tmp_path / "out", "-v")
    lines = result.stderr.decode().splitlines()
    assert result.stdout == b""
    assert "3 documents: 1 ok, 1 partial, 1 failed; 4 pages, 1 of them failed, in" in lines[-1]
    title, first, second = lines[-4:-1]
    assert title.split()[1:4] == ["document", "pages", "status"]
    assert "a.pdf" in first
    assert "damaged" in first
    assert "b.pdf" in second
    assert any("d.xyz" in line for line in lines)
    told = command(tmp_path / "in", "--output-dir", tmp_path / "out", "--progress", "json").stderr
    events = events_of(told)
    assert events[-1]["type"] == "batch_done"
    assert (events[-1]["skipped"], events[-1]["pages"]) == (3, 0)
    quiet = command(tmp_path / "in", "--output-dir", tmp_path / "out", "-q")
    assert (quiet.returncode, quiet.stderr) == (1, b"")


def test_no_model_is_loaded_where_nothing_is_to_do(tmp_path):
    pdf(tmp_path / "a.pdf", printed=0)
    run = (
        "import sys, ocria.cli\n"
        f"code = ocria.cli.main(['parse', {str(tmp_path / 'a.pdf')!r}, '--output-dir', {str(tmp_path / 'out')!r}])\n"
        "print(code, *sorted({'torch', 'transformers', 'pymupdf', 'numpy'} & set(sys.modules)))"
    )
    for _ in range(2):
        result = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=900)
    assert result.stdout.split() == ["0"]
    assert "1 skipped" in result.stderr


def test_a_dry_run(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", pages=3)
    (tmp_path / "in" / "b.pdf").write_bytes(b"no PDF")
    result = command(tmp_path / "in", "--dry-run", cwd=tmp_path)
    assert result.returncode == 1
    assert f"{tmp_path}/in/a.pdf: 3 pages (2 blank, 1 text)\n  -> ocria-out/a.pdf.md\n" in result.stdout.decode()
    assert not (tmp_path / "ocria-out").exists()
    out = tmp_path / "out"
    broken_page(tmp_path / "in" / "c.pdf")
    assert command(tmp_path / "in", "--output-dir", out, "--exclude", "b*").returncode == 3
    (out / "c.pdf.md").unlink()
    before = sorted(out.rglob("*"))
    lines = events_of(command(tmp_path / "in", "--dry-run", "--output-dir", out, "-f", "json,md").stdout)
    assert [(line["routes"], line["kept"], line["done"]) for line in lines] == [
        ({"blank": 2, "text": 1}, 0, None), ({}, 0, None), ({}, 3, None)
    ]  # fmt: skip
    assert lines[1]["error"]["exit_code"] == 4
    assert lines[0]["outputs"] == [f"{out}/a.pdf.json", f"{out}/a.pdf.md"]
    assert sorted(out.rglob("*")) == before
    one = command(tmp_path / "in" / "a.pdf", "--dry-run", "-f", "json")
    assert json.loads(one.stdout)["outputs"] == []


def test_lists_and_standard_input(tmp_path):
    first, second = pdf(tmp_path / "a\nb.pdf", "a"), pdf(tmp_path / "-c.pdf", "c")
    listed = os.fsencode(first) + b"\0" + os.fsencode(second)
    result = command("--files-from", "-", "-0", "-f", "jsonl", "-o", "-", input=listed)
    assert [json.loads(line)["document"] for line in result.stdout.splitlines()] == [str(first), str(second)]
    (tmp_path / "list").write_text("-c.pdf\n")
    result = command("--files-from", "list", cwd=tmp_path)
    assert result.returncode == 0
    assert list(files(tmp_path / "ocria-out")) == ["-c.pdf.md"]
    result = command("-f", "text", "--", "-c.pdf", cwd=tmp_path)
    assert result.stdout.decode().split() == LINE.format(1, "c").split()
    piped = command("-", "--output-dir", tmp_path / "out", input=first.read_bytes())
    assert piped.returncode == 0
    assert list(files(tmp_path / "out")) == ["stdin.md"]
    assert command("-", "--files-from", "-", input=b"").returncode == 2


def test_inputs_may_stand_between_options(tmp_path):
    a, b = pdf(tmp_path / "a.pdf", printed=0), pdf(tmp_path / "b.pdf", printed=0)
    result = command(a, "-f", "json", b, "--output-dir", tmp_path / "out", "-f", "md")
    assert result.returncode == 0
    assert sorted(files(tmp_path / "out")) == ["a.pdf.json", "a.pdf.md", "b.pdf.json", "b.pdf.md"]
    assert command(a, "--nonsense", b).returncode == 2
    assert command(a, "-f", "odt").returncode == 2
    assert command(a, "-o", tmp_path / "x.md", "--output-dir", tmp_path / "y").returncode == 2


def test_one_document_stays_as_it_was(tmp_path):
    a = pdf(tmp_path / "a.pdf", "a")
    result = command(a, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode() == LINE.format(1, "a") + "\n"
    assert sorted(os.listdir(tmp_path)) == ["a.pdf"]
    several = command(a, "-f", "md,json")
    assert several.returncode == 2
    assert b"--output-dir" in several.stderr
    broken_page(tmp_path / "b.pdf")
    assert command(tmp_path / "b.pdf", "--fail-on", "failure").returncode == 0
    assert command(tmp_path / "none.pdf", "--fail-on", "never").returncode == 4
    assert command(a, "--retry-failed").returncode == 2
    assert command(a, "-p", "7").returncode == 2
