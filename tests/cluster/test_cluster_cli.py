"""What `ocria batch` says before Ray is started. No Ray is needed but for the last test."""

import importlib.util
import socket

import pytest

from ocria.cli import main
from ocria.cluster.start import connected, need_ray
from ocria.errors import EngineError, MissingDependencyError


def test_the_folder_of_results_is_required(capsys):
    assert main(["batch", "in"]) == 2
    assert "--out is required. Name a folder" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["ray", "pyarrow"])
def test_a_missing_package_is_told_with_its_cure(missing, monkeypatch, tmp_path, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find("json"))
    with pytest.raises(MissingDependencyError) as caught:
        need_ray()
    assert f"needs the package {missing}. Install it with `pip install 'ocria[ray]'`" in str(caught.value)
    assert main(["batch", str(tmp_path), "--out", str(tmp_path / "out")]) == 7
    assert not (tmp_path / "out").exists()
    assert "ocria[ray]" in capsys.readouterr().err


def test_options_are_checked_before_ray_starts(tmp_path, capsys):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ocria[ray]'")
    for options, told in (
        (["--actors", "4-2"], "actors must be"),
        (["--rows-per-shard", "0"], "rows_per_shard must be"),
        (["--mode", "text", "--max-errors", "-1"], "max_errors must be"),
    ):
        assert main(["batch", str(tmp_path), "--out", str(tmp_path / "out"), *options]) == 2
        assert told in capsys.readouterr().err
    assert main(["batch", str(tmp_path / "gone.txt"), "--out", str(tmp_path / "out"), "--mode", "text"]) == 4
    assert "gone.txt: no such file or folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_failed_in_an_earlier_run_is_told_with_the_exit_code(monkeypatch, tmp_path, capsys):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ocria[ray]'")
    from ocria.cluster.outcome import Outcome

    outcome = Outcome()
    outcome.close(5, True, {0: 3, 4: 2})
    monkeypatch.setattr("ocria.cluster.run.run_cluster", lambda *_, **__: outcome)
    assert main(["batch", str(tmp_path), "--out", str(tmp_path / "out"), "--mode", "text"]) == 1
    told = capsys.readouterr().err
    assert "5 skipped" in told
    assert "2 of those skipped did not come out whole in an earlier run; --retry-failed" in told


def test_an_address_where_nobody_listens():
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ocria[ray]'")
    if ray.is_initialized():
        pytest.skip("Ray runs in this process already")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"Ray cannot be used at {address}"), connected(address):
            pass
