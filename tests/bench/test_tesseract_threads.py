"""The peer's threads: each image is read with one and with as many as the other side has, on the same cores."""

import os
import shutil
import subprocess
import sys

import pytest
import tesseract
from PIL import Image, ImageDraw, ImageFont

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")


@needs_tesseract
def test_both_times_are_told_and_the_better_counts(tmp_path, monkeypatch):
    image = Image.new("L", (520, 80), 255)
    ImageDraw.Draw(image).text((20, 12), "Seven brown foxes", fill=0, font=ImageFont.load_default(size=40))
    image.save(tmp_path / "line.png", dpi=(300, 300))
    seen = []
    run = subprocess.run

    def spy(command, **rest):
        seen.append(rest.get("env", {}).get("OMP_THREAD_LIMIT"))
        return run(command, **rest)

    monkeypatch.setattr(tesseract.subprocess, "run", spy)
    peer = tesseract.Tesseract(tmp_path / "cache", threads=3)
    found = peer.read(tmp_path / "line.png", tesseract.RAW_LINE)
    assert [limit for limit in seen if limit] == ["1", "3"]
    assert set(found.seconds_by_threads) == {1, 3}
    assert found.seconds == min(found.seconds_by_threads.values()) > 0
    assert "brown" in found.text
    assert peer.read(tmp_path / "line.png", tesseract.RAW_LINE) == found  # from the cache, keys are numbers again
    assert len([limit for limit in seen if limit]) == 2
    alone = tesseract.Tesseract(tmp_path / "cache").read(tmp_path / "line.png", tesseract.RAW_LINE)
    assert set(alone.seconds_by_threads) == {1}  # other limits are another result


def test_a_pinned_process_and_its_children_have_so_many_cores():
    code = (
        "import os, subprocess, sys, tesseract\n"
        "cores = tesseract.pin(1)\n"
        "child = [sys.executable, '-c', 'import os; print(*os.sched_getaffinity(0))']\n"
        "found = subprocess.run(child, capture_output=True, text=True).stdout\n"
        "print(cores == sorted(os.sched_getaffinity(0)), found)\n"
    )
    folder = os.path.dirname(tesseract.__file__)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert run.stdout.split() == ["True", str(min(os.sched_getaffinity(0)))]


def test_more_threads_than_cores_cannot_be_pinned():
    with pytest.raises(tesseract.PeerError, match="need as many cores"):
        tesseract.pin(len(os.sched_getaffinity(0)) + 1)
