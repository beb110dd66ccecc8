# SPDX-License-Identifier: MIT
"""Traces as they would have been with part of the capture gone, each saying so as the recorder does.

A verdict on such a trace keeps its truth, not surer than before, or is inconclusive: never another cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from panthor_trace.trace.reader import Records, Trace
from panthor_trace.trace.records import DTYPES
from panthor_trace.trace.schema import COUNTER_COUNT, Counter, ProcessEvent, RecordType
from panthor_trace.verdict import Cause, Confidence, Verdict
from panthor_trace.verdict.verdict import Memory, Refusal

RANK = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}
#: What each layer of the capture records.
LAYERS = {
    "ioctl": (RecordType.IOCTL, RecordType.ARRAY, RecordType.MAPPING, RecordType.DRIVER, RecordType.MESSAGE),
    "mmap": (RecordType.MAPPING,),
    "driver": (RecordType.DRIVER, RecordType.MESSAGE),
    "vulkan": (RecordType.VULKAN,),
    "exception": (RecordType.EXCEPTION,),
    "process": (RecordType.PROCESS,),
}
#: A layer that cannot be there without another.
NEEDED_BY = {"ioctl": ("mmap", "driver")}
#: Which counter counts the lost records of a type.
LOST = {
    RecordType.IOCTL: Counter.LOST_IOCTL,
    RecordType.ARRAY: Counter.LOST_ARRAY,
    RecordType.VULKAN: Counter.LOST_VULKAN,
    RecordType.EXCEPTION: Counter.LOST_EXCEPTION,
    RecordType.PROCESS: Counter.LOST_PROCESS,
    RecordType.DRIVER: Counter.LOST_DRIVER,
    RecordType.MESSAGE: Counter.LOST_MESSAGE,
    RecordType.MAPPING: Counter.LOST_MAPPING,
}


def without_layer(trace: Trace, absent: str) -> Trace:
    """The layer did not come up, nor what needs it."""
    gone = {absent, *NEEDED_BY.get(absent, ())}
    layers = {
        name: {**layer, "live": False, "why": "switched off"} if name in gone else layer
        for name, layer in trace.meta["layers"].items()
    }
    types = {kind for name in gone for kind in LAYERS[name]}
    records = {kind: rows for kind, rows in trace.records.items() if kind not in types}
    return replace(trace, meta={**trace.meta, "layers": layers}, records=records)


def _absent_probes(trace: Trace, layer: str, *names: str) -> dict[str, Any]:
    """meta.json with probes of a layer in ``missing``."""
    facts = trace.meta["layers"][layer]
    kept = [probe for probe in facts.get("probes", ()) if probe.split(" ")[0] not in names]
    changed = {**facts, "probes": kept, "missing": [*facts.get("missing", ()), *names]}
    return {**trace.meta, "layers": {**trace.meta["layers"], layer: changed}}


def _without(trace: Trace, kind: RecordType, gone: np.ndarray) -> dict[RecordType, Records]:
    return {**trace.records, kind: trace.of(kind)[~gone]}


def without_driver_function(trace: Trace, name: str) -> Trace:
    """This kernel has no such function, or the compiler inlined it."""
    names = [row["name"] for row in trace.meta["driver_functions"]]
    gone = trace.of(RecordType.DRIVER)["function"] == names.index(name)
    meta = _absent_probes(trace, "driver", name)
    return replace(trace, meta=meta, records=_without(trace, RecordType.DRIVER, gone))


def without_vulkan_function(trace: Trace, name: str) -> Trace:
    """The loader does not export it."""
    gone = trace.of(RecordType.VULKAN)["function"] == trace.meta["vulkan_functions"].index(name)
    meta = _absent_probes(trace, "vulkan", name)
    return replace(trace, meta=meta, records=_without(trace, RecordType.VULKAN, gone))


def without_event(trace: Trace, event: str) -> Trace:
    """The kernel has no such tracepoint: the out-of-memory killer's, or its log's."""
    if event == "tracepoint:oom/mark_victim":
        gone = trace.of(RecordType.PROCESS)["event"] == ProcessEvent.OOM_KILL
        return replace(
            trace,
            meta=_absent_probes(trace, "process", event),
            records=_without(trace, RecordType.PROCESS, gone),
        )
    records = {kind: rows for kind, rows in trace.records.items() if kind != RecordType.MESSAGE}
    return replace(trace, meta=_absent_probes(trace, "driver", event), records=records)


def without_module_types(trace: Trace) -> Trace:
    """No BTF of the module: what functions returned is known, not what they were asked, nor for whom.

    What is done outside of an ioctl is then nobody's, and not recorded.
    """
    driver = trace.of(RecordType.DRIVER)
    driver = driver[driver["ioctl_ns"] != 0].copy()
    driver["values"], driver["owner"] = 0, 0
    facts = trace.meta["layers"]["driver"]
    values = {row["name"]: row["values"] for row in trace.meta["driver_functions"]}
    probes = [
        f"{name} without {', '.join(values[name])}" if values.get(name) else name
        for name in (probe.split(" ")[0] for probe in facts.get("probes") or values)
    ]
    layers = {**trace.meta["layers"], "driver": {**facts, "probes": probes}}
    return replace(
        trace,
        meta={**trace.meta, "layers": layers},
        records={**trace.records, RecordType.DRIVER: driver},
    )


def losing(trace: Trace, kind: RecordType, keep: np.ndarray) -> Trace:
    """The ring was full: of one type's records only some came, and the others were counted."""
    counters = np.zeros(1, DTYPES[RecordType.COUNTERS])
    counters["values"] = np.zeros(COUNTER_COUNT, np.uint64)
    counters["values"][0, LOST[kind]] = int((~keep).sum())
    records = {**trace.records, kind: trace.of(kind)[keep], RecordType.COUNTERS: counters}
    return replace(trace, records=records)


def left_out(trace: Trace) -> Iterator[tuple[str, Trace]]:
    """Every trace that lacks one part of the capture, and differs from ``trace``, with what it lacks."""
    for layer, kinds in LAYERS.items():
        if any(len(trace.of(kind)) for kind in kinds):
            yield f"layer {layer}", without_layer(trace, layer)
    functions = [row["name"] for row in trace.meta.get("driver_functions", ())]
    for number in np.unique(trace.of(RecordType.DRIVER)["function"]):
        yield f"function {functions[number]}", without_driver_function(trace, functions[number])
    calls = trace.of(RecordType.VULKAN)
    for number in np.unique(calls["function"][calls["result"] < 0]):
        name = trace.meta["vulkan_functions"][number]
        yield f"function {name}", without_vulkan_function(trace, name)
    for event in ("tracepoint:oom/mark_victim", "tracepoint:printk/console"):
        changed = without_event(trace, event)
        if any(len(changed.of(kind)) != len(rows) for kind, rows in trace.records.items()):
            yield event, changed
    if len(trace.of(RecordType.DRIVER)):
        yield "types of the module", without_module_types(trace)
    for names in (("state",), ("modules", "libraries")):
        side = {name: rows for name, rows in trace.side.items() if name not in names}
        yield " and ".join(names), replace(trace, side=side)
    yield "the end", replace(trace, end=None)


def lost(trace: Trace) -> Iterator[tuple[str, Trace]]:
    """Traces that lack some of the records of one type, with which."""
    for kind in LOST:
        places = np.arange(len(trace.of(kind)))
        if len(places):
            yield f"first half of {kind.name}", losing(trace, kind, places >= len(places) // 2)
            yield f"last {kind.name}", losing(trace, kind, places < len(places) - 1)
            yield f"every third {kind.name}", losing(trace, kind, places % 3 != 2)


def wrong(verdict: Verdict, whole: Verdict) -> str:
    """What a damaged trace's verdict says that the ``whole`` one's does not; empty where nothing."""
    if verdict.cause is Cause.INCONCLUSIVE:
        return ""
    if verdict.cause is not whole.cause:
        return f"{verdict.cause.value}, not {whole.cause.value}: {verdict.headline}"
    if verdict.kernel_cap is not whole.kernel_cap or verdict.refused_by != whole.refused_by:
        return f"refused by {verdict.refused_by}, cap {verdict.kernel_cap.value}"
    if RANK[verdict.confidence] > RANK[whole.confidence]:
        return f"surer than the whole trace: {verdict.confidence.value}"
    return _other_refusal(verdict.refusal, whole.refusal) or _other_memory(verdict.memory, whole.memory)


def _other_refusal(now: Refusal | None, then: Refusal | None) -> str:
    """Less may be known of the refusal, or one that came of it is shown; no other limit is."""
    if now is None or now.limit is None:
        return ""
    if then is None or then.limit is None or now.limit.name != then.limit.name:
        return f"limit {now.limit.name}"
    if now.limit.value not in (None, then.limit.value):
        return f"limit {now.limit.name} = {now.limit.value}"
    return ""


def _other_memory(now: Memory | None, then: Memory | None) -> str:
    if now is None or then is None or now.which in (then.which, "unknown"):
        return ""
    return f"memory of {now.which}, not {then.which}: {now.ground}"
