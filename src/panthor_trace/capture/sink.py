# SPDX-License-Identifier: MIT
"""Takes records as the ring delivers them, and writes them to the trace in blocks."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..trace.schema import COUNTER_COUNT, RecordType
from ..trace.writer import TraceWriter

#: How often records go to the file: what a kill -9 of the tracer can lose.
FLUSH_SECONDS = 0.1


class EventSink:
    """Collects records as the ring delivers them and appends them to the trace in blocks."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._batches: list[list[bytes]] = [[] for _ in range(256)]
        #: How many of a batch's records have been handed out.
        self._looked_at = [0] * 256
        self._counters: list[int] = []
        self._next_flush = 0.0
        self.received = 0
        #: Why the trace could not be written any further, and how many records that cost.
        self.failure: str | None = None
        self.discarded = 0

    def on_record(self, _context: Any, address: int, size: int) -> int:
        """Ring callback: copies the record and returns 0 (None would cost an exception a record)."""
        record = ctypes.string_at(address, size)
        self.received += 1
        self._batches[record[0]].append(record)
        return 0

    def arrivals(self) -> Callable[[RecordType], list[bytes]]:
        """What has come since the last call, by type; to be asked before each flush.

        Whoever looks at records shares one answer: a record is new to all of them or to none.
        """
        found: dict[int, list[bytes]] = {}

        def fresh(kind: RecordType) -> list[bytes]:
            if kind not in found:
                batch, seen = self._batches[kind], self._looked_at[kind]
                found[kind], self._looked_at[kind] = batch[seen:], len(batch)
            return found[kind]

        return fresh

    def add(self, kind: int, records: list[bytes]) -> None:
        """Records made by user space."""
        self._batches[kind].extend(records)

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Write a line of a side table."""
        if self.failure is None:
            try:
                self._writer.append_line(name, row)
                return
            except OSError as error:
                self.failure = error.strerror or str(error)
        self.discarded += 1

    def add_counters(self, values: list[int]) -> None:
        """The counters' sums, where they have changed."""
        if values == self._counters:
            return
        self._counters = list(values)
        padded = values + [0] * (COUNTER_COUNT - len(values))
        head = bytes([int(RecordType.COUNTERS)]) + bytes(15) + time.monotonic_ns().to_bytes(8, "little")
        self.add(RecordType.COUNTERS, [head + b"".join(value.to_bytes(8, "little") for value in padded)])

    def flush(self, *, now: float | None = None) -> None:
        """Write what was collected; with ``now``, only when it is time to."""
        if now is not None and now < self._next_flush:
            return
        self._next_flush = (now or 0.0) + FLUSH_SECONDS
        for kind, batch in enumerate(self._batches):
            if batch:
                self._write(kind, batch)
                self._batches[kind] = []
                self._looked_at[kind] = 0

    def write_state(self, snapshot: Mapping[str, Any]) -> None:
        """Append a snapshot to state.jsonl, where the trace can be written at all."""
        if self.failure is None:
            try:
                self._writer.append_line("state.jsonl", snapshot)
            except OSError as error:
                self.failure = error.strerror or str(error)

    def _write(self, kind: int, batch: list[bytes]) -> None:
        if self.failure is None:
            try:
                self._writer.write_block(kind, len(batch[0]), batch, len(batch))
                return
            except OSError as error:
                # Nothing may follow a block that was cut short; the command goes on all the same.
                self.failure = error.strerror or str(error)
        self.discarded += len(batch)
