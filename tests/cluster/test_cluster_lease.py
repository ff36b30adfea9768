"""One run at a time into a folder. No Ray is needed."""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: it comes with ocria[ray]")

from ocria.cluster.files import Store
from ocria.cluster.lease import FILE, Lease
from ocria.cluster.options import ClusterOptions
from ocria.cluster.run import run_cluster
from ocria.document.options import ParseOptions
from ocria.errors import OutputError, UsageError

FAST = {"renew_s": 0.05, "lapse_s": 0.5}


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    return Store(str(tmp_path / "out") if request.param == "disk" else f"memory://{uuid.uuid4().hex}")


def left_by(store, **other):
    lease = {"run": "other", "machine": "elsewhere", "process": 7, "begun": 1.0, "renewed": 0} | other
    store.write(FILE, json.dumps(lease).encode())


def test_a_second_run_is_refused_until_the_first_ends(store):
    with Lease(store, **FAST) as first:
        with (
            pytest.raises(OutputError, match=f"another run \\(process {os.getpid()} on .* writes into this folder"),
            Lease(store, renew_s=0.05, lapse_s=600),  # it sees the first renew its own, long before that
        ):
            pass
        assert first.lost is None
    assert store.read(FILE) is None
    with Lease(store, **FAST):
        assert store.read(FILE)


def test_what_a_dead_run_left_is_waited_for_and_taken(store):
    left_by(store)
    lines = []
    with Lease(store, lines.append, **FAST):
        assert b"other" not in store.read(FILE)
    assert "process 7 on elsewhere, begun 1970-01-01 00:00:01 UTC" in lines[0]
    store.write(FILE, b"half a le")
    with Lease(store, **FAST):
        pass


def test_a_process_that_is_gone_is_not_waited_for(store):
    """One that was killed on this machine."""
    code = (
        "import os, signal, sys; from ocria.cluster.files import Store; from ocria.cluster.lease import Lease\n"
        "Lease(Store(sys.argv[1]), renew_s=0.05).__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    if store.is_local:
        root = str(Path(__file__).parents[2])
        done = subprocess.run([sys.executable, "-c", code, store.url], env={**os.environ, "PYTHONPATH": root})
        assert done.returncode == -9
        if not json.loads(store.read(FILE))["system"]:
            pytest.skip("this system does not tell where its processes are")
        with Lease(store, pytest.fail, renew_s=0.05, lapse_s=600):
            pass


def test_a_run_whose_lease_was_taken_ends(store):
    with Lease(store, **FAST) as lease:
        waiting = threading.Event()
        for _ in range(600):
            left_by(store)
            if lease.lost is not None or waiting.wait(0.1):
                break
        assert "elsewhere" in str(lease.lost)
    assert b"other" in store.read(FILE)  # it is not ours to remove


def test_folders_that_cannot_be(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"x")
    for out, why in ((f"file://{tmp_path}/", "among the inputs"), ("memory://x", "a memory of its own")):
        with pytest.raises(UsageError, match=why):
            run_cluster(ParseOptions(mode="text"), ClusterOptions(str(tmp_path), out))
    assert [path.name for path in tmp_path.iterdir()] == ["a.pdf"]


def test_a_folder_that_another_run_has_is_told_before_ray_starts(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"x")
    with Lease(Store(str(tmp_path / "out")), **FAST), pytest.raises(OutputError, match="another run"):
        run_cluster(ParseOptions(mode="text"), ClusterOptions(str(tmp_path), str(tmp_path / "out")))
