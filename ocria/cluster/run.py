"""A run on a cluster: rows are listed, opened and read by Ray Data; the driver counts receipts."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ocria.batch.key import settings_key
from ocria.batch.shared_reader import SharedReader
from ocria.cluster.control import Control
from ocria.cluster.files import Store, full_name
from ocria.cluster.job import Receipt
from ocria.cluster.kept import FOLDER as PARTS
from ocria.cluster.kept import KeptParts
from ocria.cluster.lease import Lease
from ocria.cluster.options import ClusterOptions, parse_actors
from ocria.cluster.outcome import Outcome
from ocria.cluster.pace import Pace
from ocria.cluster.rows import check_source
from ocria.cluster.shards import FOLDER
from ocria.cluster.start import connected
from ocria.document.options import ParseOptions
from ocria.errors import EngineError, InputError, OcriaError, UsageError
from ocria.events import DocumentFailed, Event

_SETTINGS = ".ocria/batch.json"
_LOOK_S = 0.2
_OPENER_CORES, _LISTING_CORES = 0.5, 0.25
_ENGINES_PER_OPENER = 8
_SHARDS_PER_TASK = 64


def run_cluster(
    options: ParseOptions,
    cluster: ClusterOptions,
    *,
    cancel: threading.Event | None = None,
    tell: Callable[[str], None] | None = None,
    show: Callable[[Event], None] | None = None,
) -> Outcome:
    """Read all documents of a source that the output folder does not hold yet.

    Args:
        options: how each of them is parsed; `pages` must be None, for a manifest names pages.
        cancel: once set, nothing more is begun; what is finished is kept.
        tell: is given a line of progress every `interval_s`.
        show: is given `DocumentFailed` for each document that failed as a whole, in another thread.

    Raises:
        UsageError: an option cannot be met, or the folder holds results of other options.
        InputError: the source is missing or cannot be understood.
        OutputError: the output folder cannot be read or written, or another run writes into it.
        EngineError: Ray, the model or the device cannot be used.
    """
    if options.pages is not None:
        raise UsageError("pages are chosen by a manifest", cure='Write lines such as {"path": "a.pdf", "pages": "1-3"}')
    cluster = replace(cluster, source=full_name(cluster.source), out=full_name(cluster.out))
    if cluster.source.rstrip("/") == cluster.out.rstrip("/"):
        raise UsageError("the results would lie among the inputs", path=cluster.out, cure="Choose another --out")
    if cluster.out.startswith("memory://"):
        raise UsageError("each process has a memory of its own", path=cluster.out, cure="Choose another --out")
    settings = settings_key(options, cluster.page_markers, None if options.mode == "text" else _model(options))
    check_source(cluster.source)
    store = Store(cluster.out)
    begun = time.monotonic()
    with Lease(store, tell) as lease:
        _check_settings(store, cluster, settings)
        with connected(cluster.address) as ray:
            run = _Run(ray, options, cluster, settings, store, lease, cancel or threading.Event(), tell, show)
            outcome = run.go()
    outcome.seconds = time.monotonic() - begun
    return outcome


class _Run:
    def __init__(
        self,
        ray: Any,
        options: ParseOptions,
        cluster: ClusterOptions,
        settings: str,
        store: Store,
        lease: Lease,
        cancel: threading.Event,
        tell: Callable[[str], None] | None,
        show: Callable[[Event], None] | None,
    ):
        self._ray, self._options, self._cluster = ray, options, cluster
        self._settings, self._store, self._lease = settings, store, lease
        self._cancel, self._tell, self._show = cancel, tell, show
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        # With what is done: among the arguments of an actor that is started again it could be lost.
        self._control = ray.remote(Control).options(num_cpus=0, scheduling_strategy=here).remote([self._scan()])
        self._outcome = Outcome(cluster.max_errors)
        self._fault: BaseException | None = None

    def go(self) -> Outcome:
        with _quiet(self._ray):
            receipts = self._receipts()
            reading = threading.Thread(target=self._take_all, args=(receipts,), name="receipts", daemon=True)
            reading.start()
            self._watch(reading)
        if self._fault is not None:
            raise _cause(self._fault)
        counts, skipped, listed_all = self._ray.get(self._control.counts.remote())
        if listed_all and not counts.get("listed"):
            cure = "Check the name; files are taken by their suffix"
            raise InputError("no documents found", path=self._cluster.source, cure=cure)
        self._outcome.close(counts.get("listed", 0), listed_all, skipped)
        if not self._outcome.stopped:
            self._store.remove(PARTS, folder=True)
        self._ray.kill(self._control)
        return self._outcome

    def _scan(self) -> Any:
        """A reference to what the shards hold."""
        from ocria.cluster.done import Done, scan_all

        names = self._store.names(FOLDER, f".{self._cluster.shards}")
        task = self._ray.remote(scan_all).options(num_cpus=_LISTING_CORES)
        found: list[Done] = []
        waiting: list[Any] = []
        try:
            for first in range(0, len(names), _SHARDS_PER_TASK):
                some = names[first : first + _SHARDS_PER_TASK]
                waiting.append(task.remote(self._cluster.out, some, self._cluster.shards, self._cluster.retry_failed))
                if len(waiting) >= 256:
                    found.append(self._ray.get(waiting.pop(0)))
            found += self._ray.get(waiting)
        except self._ray.exceptions.RayError as error:
            raise _cause(error) from error
        return self._ray.put(Done.joined(found))

    def _receipts(self) -> Iterator[Receipt]:
        """Runs the pipeline as it is asked."""
        from ocria.cluster.engine import Engine
        from ocria.cluster.listing import Listing
        from ocria.cluster.opener import Opener

        data, cluster = self._ray.data, self._cluster
        options, resources, (least, most) = self._engines()
        kept = frozenset(self._store.names(PARTS))
        listing = Listing(cluster.source, cluster.out, cluster.rows_per_shard, self._control)
        rows = data.read_datasource(listing, override_num_blocks=1, num_cpus=_LISTING_CORES)
        jobs = rows.repartition(target_num_rows_per_block=cluster.rows_per_shard).map_batches(
            Opener,
            fn_constructor_args=(options, self._settings, cluster.pages_per_row, self._control),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=math.ceil(most / _ENGINES_PER_OPENER)),
            num_cpus=_OPENER_CORES,
        )
        receipts = jobs.repartition(target_num_rows_per_block=cluster.rows_per_shard).map_batches(
            Engine,
            fn_constructor_args=(options, cluster, self._control, kept, most),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=least, max_size=most),
            **resources,
        )
        for batch in receipts.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for text in batch["receipt"].to_pylist():
                yield Receipt.from_json(text)

    def _engines(self) -> tuple[ParseOptions, dict[str, float], tuple[int, int]]:
        """The options of an engine, what it takes of a machine, and the least and the most of them."""
        there = self._ray.cluster_resources()
        device, cores = self._options.device, self._cluster.cores_per_actor
        if device is not None and ":" in device:
            raise UsageError(f"Ray chooses the GPU of each engine, it cannot be {device}", cure="Give --device cuda")
        gpus = int(there.get("GPU", 0))
        if device is None:
            device = "cuda" if gpus else "cpu"
        threads = self._options.threads or (cores if device == "cpu" else None)
        resources = {"num_cpus": cores, **({"num_gpus": 1} if device == "cuda" else {})}
        room = gpus if device == "cuda" else int(there.get("CPU", 0) - 1) // cores
        self._check_room(cores, device)
        span = (1, max(1, room)) if self._cluster.actors is None else parse_actors(self._cluster.actors)
        return replace(self._options, device=device, threads=threads), resources, span

    def _check_room(self, cores: int, device: str) -> None:
        """Say that no machine has room for an engine. Raises UsageError where none will come."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        beside = _OPENER_CORES + _LISTING_CORES if len(nodes) == 1 else 0
        if any(
            node.get("CPU", 0) >= cores + beside and (device != "cuda" or node.get("GPU", 0) >= 1) for node in nodes
        ):
            return
        beside = f", {beside} to list and open documents" if beside else ""
        what = f"no machine has room for an engine: {cores} cores{beside}{' and a GPU' if device == 'cuda' else ''}"
        if self._cluster.address is None:
            raise UsageError(what, cure="Lower --cores-per-actor, or choose another --device")
        if self._tell is not None:
            self._tell(f"{what}; waiting for one to join")

    def _take_all(self, receipts: Iterator[Receipt]) -> None:
        try:
            for receipt in receipts:
                self._take(receipt)
        except BaseException as error:  # it is raised in the thread that waits
            self._fault = error

    def _take(self, receipt: Receipt) -> None:
        self._outcome.take(receipt)
        if self._show is not None and receipt.outcome == "failed":
            why = receipt.bad[0]["why"] if receipt.bad else "failed"
            self._show(DocumentFailed(receipt.path, why, receipt.cure, receipt.code))
        if receipt.kept:
            KeptParts(self._store, receipt.key).remove()
        if self._outcome.too_many_errors:
            self._stop()

    def _stop(self) -> None:
        if not self._outcome.stopped:
            self._outcome.stopped = True
            self._control.stop.remote()

    def _watch(self, reading: threading.Thread) -> None:
        """Tell how it goes, and pass on the wish to stop, until all receipts are there."""
        pace, told = Pace(), time.monotonic()
        while reading.is_alive():
            reading.join(_LOOK_S)
            if self._lease.lost is not None:
                raise self._lease.lost
            if self._cancel.is_set():
                self._stop()
            if self._tell is not None and time.monotonic() - told >= self._cluster.interval_s:
                told = time.monotonic()
                self._tell(pace.line(*self._ray.get(self._control.counts.remote()), told))


def _model(options: ParseOptions) -> str:
    return SharedReader(options).identity


def _check_settings(store: Store, cluster: ClusterOptions, settings: str) -> None:
    """A folder holds results of one kind. Raises UsageError where these would be of another."""
    told = {
        "format": 1, "options": settings, "shards": cluster.shards, "documents": sorted(cluster.documents),
        "pages_per_row": cluster.pages_per_row,
    }  # fmt: skip
    before = store.read(_SETTINGS)
    if before is None:
        store.write(_SETTINGS, json.dumps(told).encode("ascii"))
        return
    try:
        known = json.loads(before)
        other = sorted(name for name in told if known.get(name) != told[name])
    except (ValueError, AttributeError):
        other = ["format"]
    if other:
        names = ", ".join(name.replace("_", " ") for name in other)
        cure = "Give the options and the model of that run, or choose another --out"
        raise UsageError(f"the folder holds results that were made with other {names}", path=store.url, cure=cure)


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """No bars and no log of Ray Data; blocks that are handed on early."""
    from ocria.cluster.listing import BLOCK_BYTES

    context = ray.data.DataContext.get_current()
    wanted = {
        "enable_progress_bars": False, "target_max_block_size": BLOCK_BYTES, "raise_original_map_exception": True
    }  # fmt: skip
    before = {name: getattr(context, name) for name in wanted}
    logger = logging.getLogger("ray.data")
    level = logger.level
    try:
        for name, value in wanted.items():
            setattr(context, name, value)
        logger.setLevel(logging.CRITICAL)  # what tasks raise comes here too, and is told once
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        logger.setLevel(level)


def _cause(error: BaseException) -> BaseException:
    """What a task of ours raised, out of what Ray makes of it."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, OcriaError):
            fresh = OcriaError(one.message, path=one.path, cure=one.cure)
            fresh.exit_code = one.exit_code
            return fresh
        seen.add(id(one))
        waiting += [
            other for other in (getattr(one, "cause", None), one.__cause__, one.__context__)
            if isinstance(other, BaseException) and id(other) not in seen
        ]  # fmt: skip
    if isinstance(error, Exception):
        told = str(error).strip().splitlines()
        return EngineError(f"the cluster failed: {type(error).__name__}: {told[-1] if told else ''}")
    return error
