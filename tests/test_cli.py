"""The command, run as users run it: in a process of its own where streams, signals and libraries are what is tested,
and in this one where it is the command alone."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pymupdf
import pytest
from in_process import called
from PIL import Image, ImageDraw, ImageFont

import ocria

LINE = "A line of text on page {} of the document, long enough."


def run(*arguments, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "ocria", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=300,
    )


def made(path, pages=1, **options):
    with pymupdf.open() as pdf:
        for number in range(1, pages + 1):
            pdf.new_page().insert_text((72, 90), LINE.format(number))
        pdf.save(path, **options)
    return path


@pytest.fixture
def document(tmp_path):
    return made(tmp_path / "a.pdf", pages=3)


@pytest.fixture(scope="module")
def long_document(tmp_path_factory):
    """Far more pages than are read until a signal arrives."""
    return made(tmp_path_factory.mktemp("long") / "long.pdf", pages=2000)


def test_markdown_goes_to_standard_output(document):
    result = run("parse", document)
    assert result.returncode == 0
    assert result.stdout.decode() == "\n\n".join(LINE.format(n) for n in (1, 2, 3)) + "\n"
    assert result.stderr == b""


def test_standard_input(document):
    result = run("parse", "-", "-f", "json", stdin=document.read_bytes())
    assert result.returncode == 0
    assert json.loads(result.stdout)["document"]["path"] == "<stdin>"


def test_version_and_help():
    assert run("--version").stdout.decode().strip() == f"ocria {ocria.__version__}"
    text = run("parse", "--help").stdout.decode()
    for option in (
        "--output", "--format", "--pages", "--mode", "--model", "--password-file", "--page-markers", "-q",
        "--progress", "--timeout", "--memory", "--compile", "--no-graph", "--no-overlap", "--ring", "--draft",
        "--draft-rows", "--verify", "--output-dir", "--recursive", "--include", "--exclude", "--files-from",
        "--no-resume", "--retry-failed", "--fail-on", "--dry-run", "--no-merge-tables",
    ):  # fmt: skip
        assert option in text
    assert "exit codes" in text


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["parse"], ["parse", "a", "--mode", "fast"]])
def test_usage_errors(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert b"usage: ocria" in result.stderr
    assert result.stdout == b""


@pytest.mark.parametrize("pages", ["4", "0", "3-1", "x", "1-4"])
def test_bad_page_ranges(document, pages):
    result = called("parse", document, "-p", pages)
    assert result.returncode == 2
    assert b"Traceback" not in result.stderr


def test_pages_and_markers(document):
    text = called("parse", document, "-p", "3,1", "--page-markers").stdout.decode()
    assert text == f"<!-- page 1 ok -->\n\n{LINE.format(1)}\n\n<!-- page 3 ok -->\n\n{LINE.format(3)}\n"


@pytest.mark.parametrize(("name", "start"), [("a.md", "A line"), ("a.json", "{"), ("a.txt", "A line")])
def test_output_file(document, tmp_path, name, start):
    target = tmp_path / name
    result = called("parse", document, "-o", target)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert target.read_text().startswith(start)
    again = called("parse", document, "-o", target)
    assert again.returncode == 6
    assert b"--overwrite" in again.stderr
    assert called("parse", document, "-o", target, "--overwrite").returncode == 0


def test_a_document_is_not_replaced_by_its_text(tmp_path):
    document = tmp_path / "notes.md"
    document.write_text("What was there")
    (tmp_path / "link.md").symlink_to(document)
    for target in (document, tmp_path / "link.md"):
        result = called("parse", document, "-o", target, "--overwrite")
        assert result.returncode == 6
        assert b"the document itself" in result.stderr
    assert document.read_text() == "What was there"


def test_an_output_that_cannot_be_written(document, tmp_path):
    assert called("parse", document, "-o", tmp_path / "none" / "a.md").returncode == 6
    assert called("parse", document, "-o", tmp_path).returncode == 6


def test_faulty_inputs(tmp_path):
    assert called("parse", tmp_path / "none.pdf").returncode == 4
    (tmp_path / "text.pdf").write_text("not a PDF at all")
    result = called("parse", tmp_path / "text.pdf")
    assert result.returncode == 4
    assert result.stderr.startswith(b"ocria: ")
    assert result.stderr.count(b"\n") == 1


def test_a_missing_model(document, tmp_path):
    result = called("parse", document, "--mode", "model", "--model", tmp_path / "none")
    assert result.returncode == 7
    assert b"Traceback" not in result.stderr


def test_passwords(tmp_path):
    path = made(tmp_path / "a.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="se cret", owner_pw="o")
    assert called("parse", path).returncode == 5
    assert called("parse", path, "--password", "wrong").returncode == 5
    assert called("parse", path, "--password", "se cret").returncode == 0
    (tmp_path / "password").write_text("se cret\n")
    result = called("parse", path, "--password-file", tmp_path / "password", "-v")
    assert result.returncode == 0
    assert b"se cret" not in result.stderr
    assert called("parse", path, "--password-file", tmp_path / "none").returncode == 2


def test_a_failed_page_among_others_gives_3_and_alone_gives_1(document, tmp_path):
    with pymupdf.open(document) as pdf:
        pdf.update_stream(pdf[1].get_contents()[0], b"BT ( never closed << ]] garbage \xff\xfe q Q q")
        pdf.save(tmp_path / "b.pdf")
    result = called("parse", tmp_path / "b.pdf", "-f", "json")
    assert result.returncode == 3
    assert [page["status"] for page in json.loads(result.stdout)["pages"]] == ["ok", "failed", "ok"]
    assert b"page 2" in result.stderr
    assert called("parse", tmp_path / "b.pdf", "-p", "2").returncode == 1


def test_quiet_and_verbose(document, tmp_path):
    (tmp_path / "cut.pdf").write_bytes(document.read_bytes()[:-200])
    assert run("parse", tmp_path / "cut.pdf", "-q").stderr == b""
    assert b"repaired" in called("parse", tmp_path / "cut.pdf").stderr
    lines = called("parse", document, "-v").stderr.decode().splitlines()
    assert any("page 2: text (trustworthy text layer)" in line for line in lines)


def test_a_closed_pipe_is_quiet(document):
    # `true` never reads, so that the first byte written finds the pipe closed.
    command = f"'{sys.executable}' -m ocria parse -j 0 '{document}' | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(command, executable="/bin/bash", shell=True, capture_output=True, timeout=300)
    assert result.stderr == b""
    assert result.stdout.strip() in (b"0", b"141")


def test_an_interrupt_keeps_the_finished_pages(long_document, tmp_path):
    target = tmp_path / "out.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "ocria", "parse", long_document, "-o", target, "-v"], stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if "page 3: ok" in line:
            process.send_signal(signal.SIGINT)
            break
    told = process.stderr.read()
    assert "finished pages are kept" in told
    assert process.wait(timeout=120) == 130
    data = json.loads(target.read_text())
    assert f"interrupted; {len(data['pages'])} of 2000 pages are in {target}; the same command starts over" in told
    assert data["status"] == "interrupted"
    indexes = [page["index"] for page in data["pages"]]
    assert indexes == list(range(1, len(indexes) + 1))
    assert 3 <= len(indexes) < 2000
    assert not list(tmp_path.glob(".ocria-*"))


def test_a_second_interrupt_stops_at_once(long_document):
    process = subprocess.Popen(
        [sys.executable, "-m", "ocria", "parse", long_document, "-v"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if "page 2: ok" in line:
            break
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors


def test_a_full_disk_behind_standard_output_is_an_error_of_the_output(document):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "ocria", "parse", "-j", "0", document]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == 6
    assert result.stderr.count(b"\n") == 1
    assert b"No space left" in result.stderr


@pytest.mark.parametrize("words", ["--help", "--version", "parse --help", "help parse", "completion bash"])
def test_help_that_cannot_be_written_is_an_error_of_the_output(words):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "ocria", *words.split()], stdout=full, stderr=subprocess.PIPE, timeout=300
        )
    assert result.returncode == 6
    assert result.stderr == b"ocria: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("place", ["/dev/full", "&-"])
def test_the_code_of_no_command_does_not_hang_on_who_reads_the_help(place):
    command = f"'{sys.executable}' -m ocria 2>{place}"
    assert subprocess.run(command, executable="/bin/bash", shell=True, timeout=300).returncode == 2


def test_a_command_that_help_does_not_know():
    result = subprocess.run([sys.executable, "-m", "ocria", "help", "parsse"], capture_output=True, timeout=300)
    assert result.returncode == 2
    assert b"'parsse', did you mean parse? There are: parse, " in result.stderr


@pytest.mark.parametrize(("closed", "arguments", "code"), [("<&-", "-", 4), (">&-", "'{}'", 6)])
def test_closed_standard_streams(document, closed, arguments, code):
    command = f"'{sys.executable}' -m ocria parse {arguments.format(document)} {closed}"
    result = subprocess.run(command, executable="/bin/bash", shell=True, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == code
    assert result.stderr.startswith(b"ocria: standard ")


def test_a_device_as_output_needs_no_overwriting_and_stays_one(document, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    assert called("parse", document, "-o", pipe).returncode == 0
    assert os.read(reader, 6) == b"A line"
    os.close(reader)
    assert pipe.is_fifo()


def test_names_that_are_no_text(document, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.pdf"
    os.rename(document, path)
    result = called("parse", os.fsdecode(path), "-o", tmp_path / "a.json")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads((tmp_path / "a.json").read_text())["document"]["path"].endswith("caf\ufffd.pdf")


def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path):
    result = called("parse", tmp_path / "a\x1b[31m\rb.pdf")
    assert result.returncode == 4
    assert b"a\\x1b[31m\\x0db.pdf" in result.stderr
    assert b"\x1b" not in result.stderr


def test_libraries_keep_quiet_and_errors_do_not(tmp_path):
    frames = [Image.new("L", (60, 60), 255) for _ in range(4)]
    stream = io.BytesIO()
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    # Pillow warns about such a file before it raises.
    (tmp_path / "cut.tif").write_bytes(stream.getvalue()[: len(stream.getvalue()) * 5 // 8])
    result = run("parse", tmp_path / "cut.tif", "-q")
    assert result.returncode == 3
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    for number, line in zip((3, 4), lines, strict=True):
        assert line.startswith(f"ocria: error: page {number}: image {number} is corrupt".encode())


@pytest.fixture
def line_image(tmp_path):
    """A page of one printed line, which goes to the model."""
    image = Image.new("L", (900, 300), 255)
    ImageDraw.Draw(image).text((80, 120), "one short line of print", fill=0, font=ImageFont.load_default(40))
    image.save(tmp_path / "line.png", dpi=(200, 200))
    return tmp_path / "line.png"


def test_progress_as_json(document, line_image):
    """Every line of standard error is one object, and the output is what it is without."""
    result = run("parse", line_image, "--progress", "json", "--mode", "model")
    assert result.returncode == 0
    events = [json.loads(line) for line in result.stderr.splitlines()]
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("document_started", "document_done")
    for kind in ("page_started", "page_routed", "lines_found", "engine_tick", "page_done"):
        assert kind in kinds
    assert any(event["type"] == "note" and "graph off" in event["message"] for event in events)
    assert result.stdout == called("parse", line_image, "--mode", "model", "-q").stdout
    failed = called("parse", line_image.with_name("none.pdf"), "--progress", "json")
    assert failed.returncode == 4
    (error,) = [json.loads(line) for line in failed.stderr.splitlines()]
    assert (error["type"], error["exit_code"]) == ("error", 4)


def test_plain_progress_and_none(document):
    plain = called("parse", document, "--progress", "plain").stderr.decode().splitlines()
    assert plain[0] == f"ocria: {document}: 3 pages"
    assert [line.split(" in ")[0] for line in plain[1:4]] == [f"ocria: page {n}: ok" for n in (1, 2, 3)]
    assert called("parse", document, "--progress", "none").stderr == b""
    bar = called("parse", document, "--progress", "bar")
    assert b"3/3" in bar.stderr
    assert bar.stdout == called("parse", document).stdout
    clash = called("parse", document, "--progress", "json", "-q")
    assert clash.returncode == 2


def test_an_interrupt_in_json(long_document, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "ocria", "parse", long_document, "-o", tmp_path / "a.md", "--progress", "json"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if json.loads(line)["type"] == "page_done":
            process.send_signal(signal.SIGINT)
            break
    rest = [json.loads(line) for line in process.stderr]
    assert process.wait(timeout=120) == 130
    assert any("finished pages are kept" in event.get("message", "") for event in rest)
    assert [event["status"] for event in rest if event["type"] == "document_done"] == ["interrupted"]
    assert "the same command starts over" in rest[-1]["message"]


def test_time_runs_out(line_image):
    result = called("parse", line_image, "--mode", "model", "--page-timeout", "0.000001", "-f", "json", "-j", "0")
    assert result.returncode == 8
    assert [page["status"] for page in json.loads(result.stdout)["pages"]] == ["timeout"]
    assert b"time ran out after 1e-06 s and 0 tokens" in result.stderr
    assert called("parse", line_image, "--timeout", "-1").returncode == 2


def test_too_little_memory_is_told_part_by_part(line_image):
    result = called("parse", line_image, "--mode", "model", "--memory", "20M")
    assert result.returncode == 7
    for word in (b"weights", b"vision", b"of 20.0 MiB", b"--memory", b"--batch", b"--max-pixels"):
        assert word in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert called("parse", line_image, "--memory", "lots").returncode == 2


def test_verbose_names_the_levers(line_image):
    result = called("parse", line_image, "--mode", "model", "-v", "--batch", "3", "--ring", "16", "--draft", "none")
    assert result.returncode == 0
    (line,) = [line for line in result.stderr.decode().splitlines() if "engine:" in line]
    for part in ("cpu, float32", "graph off", "overlap off", "compile off", "ring 16", "draft none", "3 requests"):
        assert part in line
    (ran,) = [line for line in result.stderr.decode().splitlines() if "engine ran" in line]
    assert re.search(r"engine ran [1-9]\d* steps, 0 by graph and [1-9]\d* without, not compiled", ran)
    quiet = called("parse", line_image, "--mode", "model")
    assert b"engine ran" not in quiet.stderr


def test_models_and_doctor():
    models = called("models")
    assert models.returncode == 0
    assert b"OCRia-1" in models.stdout
    doctor = called("doctor", "--batch", "5")
    assert doctor.returncode == 0
    for word in (b"torch", b"5 requests at a time", b"weights", b"checkpoints", b"together", b"limit"):
        assert word in doctor.stdout
    tight = called("doctor", "--memory", "1M")
    assert tight.returncode == 7
    assert b"torch" in tight.stdout
    assert b"not enough memory" in tight.stderr
