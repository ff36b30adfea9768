"""Ray: a cluster that runs already, or one on this machine for as long as a run takes."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from ocria.errors import EngineError, MissingDependencyError, OcriaError, UsageError

_CURE = "Install it with `pip install 'ocria[ray]'`, on all machines of the cluster"
# Beside the engines there is always something to list and to open.
_MORE_CORES = 2
_STORE_BYTES = 512 << 20
_REACH_S = 10.0


def need_ray() -> None:
    """Raises MissingDependencyError where a package of the extra is not installed."""
    for name in ("ray", "pyarrow", "fsspec"):
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(f"ocria batch needs the package {name}", cure=_CURE)


def _check_reachable(address: str) -> None:
    """Raises OSError where nobody listens at `host:port`: Ray itself tries for minutes. Raises UsageError."""
    if address.startswith("ray://"):
        raise UsageError(
            "Ray Data does not run through Ray's client", path=address,
            cure="Give the address of the cluster itself, such as 10.0.0.1:6379, on one of its machines",
        )  # fmt: skip
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S).close()


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected. Where the program has connected it already, that stays so.

    Raises:
        MissingDependencyError: it is not installed.
        EngineError: there is no cluster at the address.
    """
    need_ray()
    # Nothing is reported to anybody. Ray looks at this while it is started.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # What goes wrong below is raised; the rest would stand between the lines of progress.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    if ray.is_initialized():
        yield ray
        return
    handler = signal.getsignal(signal.SIGTERM)
    with contextlib.ExitStack() as last:
        temporary = tempfile.mkdtemp(prefix="ocria-ray-") if address is None else None
        if temporary is not None:
            last.callback(shutil.rmtree, temporary, ignore_errors=True)
        last.callback(ray.shutdown)
        try:
            _join(ray, address) if temporary is None else _start(ray, temporary)
        except OcriaError:
            raise
        except Exception as error:  # of any kind: no cluster, another version of Ray or Python, no shared memory
            where = "on this machine" if address is None else f"at {address}"
            cure = (
                "Check the address, that the cluster has the same versions of Python and Ray, and set "
                "RAY_AUTH_MODE=token where it asks for a token"
            )
            if address is None:
                cure = "If the machine is busy try again, or start it yourself: `ray start --head`, then --ray auto"
            raise EngineError(f"Ray cannot be used {where}: {str(error).rstrip('.')}", cure=cure) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray takes it
        yield ray


def _join(ray: Any, address: str) -> None:
    _check_reachable(address)
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def _start(ray: Any, temporary: str) -> None:
    for last_try in (False, True):
        try:
            ray.init(
                address="local",  # whatever RAY_ADDRESS says
                num_cpus=(os.cpu_count() or 1) + _MORE_CORES,
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=temporary,
            )
            return
        except Exception:  # Ray waits for its own processes for 30 s, which a busy machine may need twice
            if last_try:
                raise
            ray.shutdown()
