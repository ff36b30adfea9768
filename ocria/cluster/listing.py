"""The rows of a run as a source of Ray Data: one task lists them and hands them on as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from ocria.cluster.job import rows_table
from ocria.cluster.rows import find_rows

# Ray Data hands a block on when it is as large as this. Rows are small, so that it would wait for half a million.
BLOCK_BYTES = 1 << 18


class Listing(Datasource):
    """`control`: the actor of `Control`, which counts the rows and may stop the listing."""

    def __init__(self, source: str, out: str, rows_per_block: int, control: Any):
        self._source, self._out, self._rows_per_block, self._control = source, out, rows_per_block, control

    def get_name(self) -> str:
        return "Rows"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(self._tables, metadata)]

    def _tables(self) -> Iterator[pa.Table]:
        found = find_rows(self._source, self._out)
        while rows := list(islice(found, self._rows_per_block)):
            if ray.get(self._control.is_stopped.remote()):
                return
            self._control.add.remote(listed=len(rows))
            yield rows_table(rows)
        self._control.listed_all.remote()
