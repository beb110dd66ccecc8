# SPDX-License-Identifier: MIT
"""A trace as a Perfetto trace: a timeline for https://ui.perfetto.dev; see docs/timeline.md.

By the trace builder of Perfetto's own package. Times are of CLOCK_MONOTONIC, as in all tables. Names are
interned (written once, then numbered), which makes the file a third of what it would be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from ..analysis import Analysis
from ..errors import TraceError
from ..speech import printable
from .files import whole_file
from .timeline import Sample, Slice, Track, nested, rows, samples, slices

#: All packets are of one sequence: interned names are numbered within it.
_SEQUENCE = 1
_FAILED = "failed"


def export_perfetto(analysis: Analysis, path: Path) -> list[Path]:
    """Write the timeline of a trace to ``path``. Raises TraceError where that fails."""
    by_track: dict[Track, list[Slice]] = defaultdict(list)
    for entry in slices(analysis):
        by_track[entry.track].append(entry)
    events: list[tuple[int, bool, Slice | Sample]] = []
    for entries in by_track.values():
        events.extend(nested(entries))
    events.extend((sample.start, True, sample) for sample in samples(analysis.tables))
    events.sort(key=lambda event: event[0])  # stable: within a track the order is right already
    names = {pid: Path(program or "").name for pid, program in rows(analysis.tables.processes, "pid", "path")}
    try:
        with whole_file(path) as file:
            _Writer(file, names).write(events)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}") from None
    return [path]


class _Writer:
    """Puts packets into a file; tracks and names are written before they are first used."""

    def __init__(self, file: BinaryIO, processes: dict[int, str]) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._processes = processes
        self._tracks: dict[Track, int] = {}
        self._interned: dict[tuple[str, str], int] = {}
        self._first = True

    def write(self, events: Iterable[tuple[int, bool, Slice | Sample]]) -> None:
        """All events, in this order. Raises OSError."""
        for time, begins, entry in events:
            track = self._track(entry.track)
            packet = self._packet()
            packet.timestamp = time
            event = packet.track_event
            event.track_uuid = track
            if isinstance(entry, Sample):
                event.type = TrackEvent.TYPE_COUNTER
                event.counter_value = entry.value
            elif not begins:
                event.type = TrackEvent.TYPE_SLICE_END
            else:
                event.type = TrackEvent.TYPE_INSTANT if entry.instant else TrackEvent.TYPE_SLICE_BEGIN
                self._describe(packet, entry)
            self._builder.write_packet(packet)

    def _packet(self) -> TracePacket:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        if self._first:
            packet.sequence_flags |= TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            packet.first_packet_on_sequence = True
            self._first = False
        return packet

    def _describe(self, packet: TracePacket, entry: Slice) -> None:
        event = packet.track_event
        event.name_iid = self._intern(packet, "event_names", entry.name)
        event.category_iids.append(self._intern(packet, "event_categories", entry.category))
        if entry.failed:
            event.category_iids.append(self._intern(packet, "event_categories", _FAILED))
        event.flow_ids.extend(entry.leaving)
        event.terminating_flow_ids.extend(entry.arriving)
        for name, value in entry.notes.items():
            note = event.debug_annotations.add()
            note.name_iid = self._intern(packet, "debug_annotation_names", name)
            if isinstance(value, str):
                note.string_value = _valid(value)
            elif isinstance(value, bool):
                note.bool_value = value
            elif value < 0:
                note.int_value = value
            else:
                note.uint_value = value

    def _intern(self, packet: TracePacket, kind: str, text: str) -> int:
        number = self._interned.get((kind, text))
        if number is None:
            number = self._interned[kind, text] = len(self._interned) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid, entry.name = number, _valid(text)
        return number

    def _track(self, track: Track) -> int:
        number = self._tracks.get(track)
        if number is not None:
            return number
        above = self._track(Track(track.pid)) if track.pid and track != Track(track.pid) else 0
        number = self._tracks[track] = len(self._tracks) + 1
        packet = self._packet()
        descriptor: Any = packet.track_descriptor
        descriptor.uuid = number
        name = _valid(self._processes.get(track.pid, ""))
        if track == Track(track.pid):
            descriptor.process.pid = track.pid
            descriptor.process.process_name = name
        elif track.tid:
            descriptor.thread.pid, descriptor.thread.tid = track.pid, track.tid
            descriptor.thread.thread_name = name if track.tid == track.pid else f"thread {track.tid}"
        else:
            descriptor.name = track.name
            if above:
                descriptor.parent_uuid = above
            if track.counter:
                descriptor.counter.unit = CounterDescriptor.UNIT_SIZE_BYTES
        self._builder.write_packet(packet)
        return number


def _valid(text: str) -> str:
    """A string of a protobuf is UTF-8; what a process calls itself need not be, nor fit for a screen."""
    return "\n".join(printable(line) for line in text.split("\n"))
