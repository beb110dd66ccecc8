# SPDX-License-Identifier: MIT
"""Reads a Perfetto trace as trace processor does, as far as ours use its format, and minds its rules.

Perfetto's own trace processor is a program of its own that its Python package downloads; tests do without.
The rules are those of protos/perfetto/trace/{trace_packet,track_event/*}.proto.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    Trace,
    TracePacket,
    TrackEvent,
)


@dataclass
class Drawn:
    """A slice or an instant as it would be drawn."""

    name: str
    categories: list[str]
    notes: dict[str, Any]
    start: int
    end: int | None
    depth: int
    parent: Drawn | None
    instant: bool
    leaving: list[int]
    arriving: list[int]


@dataclass
class Timeline:
    """By track, and a track by its path of names: ``("engine 100", "thread 101")``."""

    slices: dict[tuple[str, ...], list[Drawn]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[tuple[str, ...], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def all(self) -> list[Drawn]:
        return [one for ones in self.slices.values() for one in ones]

    def arrows(self) -> list[tuple[Drawn, Drawn]]:
        """From where to where; every one has both ends, and goes forward in time."""
        leaving = {number: one for one in self.all() for number in one.leaving}
        arriving = {number: one for one in self.all() for number in one.arriving}
        assert leaving.keys() == arriving.keys()
        assert len(leaving) == sum(len(one.leaving) for one in self.all())
        assert len(arriving) == sum(len(one.arriving) for one in self.all())
        assert 0 not in leaving
        assert all(leaving[number].start <= arriving[number].start for number in leaving)
        return [(leaving[number], arriving[number]) for number in leaving]


def read(path: Path) -> Timeline:
    """Read ``path``; an AssertionError says which rule was broken."""
    trace = Trace.FromString(path.read_bytes())
    timeline = Timeline()
    tracks: dict[int, tuple[str, ...]] = {}
    counters: set[int] = set()
    interned: dict[str, dict[int, str]] = defaultdict(dict)
    open_: dict[int, list[Drawn]] = defaultdict(list)
    time = 0
    for number, packet in enumerate(trace.packet):
        assert packet.trusted_packet_sequence_id == 1
        cleared = bool(packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        assert cleared == (number == 0)
        assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                assert entry.iid not in interned[kind]
                assert entry.iid > 0
                interned[kind][entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks
            assert descriptor.uuid > 0
            tracks[descriptor.uuid] = _path(descriptor, tracks)
            if descriptor.HasField("counter"):
                assert descriptor.counter.unit == CounterDescriptor.UNIT_SIZE_BYTES
                counters.add(descriptor.uuid)
            continue
        assert packet.timestamp >= time
        time, event = packet.timestamp, packet.track_event
        assert event.track_uuid in tracks
        assert (event.type == TrackEvent.TYPE_COUNTER) == (event.track_uuid in counters)
        where, stack = tracks[event.track_uuid], open_[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            timeline.counters[where].append((time, event.counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            stack.pop().end = time
        else:
            instant = event.type == TrackEvent.TYPE_INSTANT
            assert instant or event.type == TrackEvent.TYPE_SLICE_BEGIN
            one = Drawn(
                interned["event_names"][event.name_iid],
                [interned["event_categories"][iid] for iid in event.category_iids],
                {
                    interned["debug_annotation_names"][note.name_iid]: getattr(
                        note, str(note.WhichOneof("value"))
                    )
                    for note in event.debug_annotations
                },
                time,
                time if instant else None,
                len(stack),
                stack[-1] if stack else None,
                instant,
                list(event.flow_ids),
                list(event.terminating_flow_ids),
            )
            timeline.slices[where].append(one)
            if not instant:
                stack.append(one)
    return timeline


def _path(descriptor: Any, tracks: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
    if descriptor.HasField("process"):
        return (f"{descriptor.process.process_name} {descriptor.process.pid}",)
    if descriptor.HasField("thread"):
        return (f"process {descriptor.thread.pid}", f"thread {descriptor.thread.tid}")
    above = tracks[descriptor.parent_uuid] if descriptor.parent_uuid else ()
    assert descriptor.name
    return (*above, descriptor.name)
