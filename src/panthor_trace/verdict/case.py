# SPDX-License-Identifier: MIT
"""The facts of one run that the rules look at, gathered once from the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..model import Tables
from .sight import HIDES_ALL, SIGHTS

#: Exceptions by which a C++ program learns of a Vulkan failure (vulkan.hpp) or of its own limit.
_OUT_OF_MEMORY = ("OutOfDeviceMemory", "OutOfHostMemory", "bad_alloc")
#: SIGKILL as a shell shows it: also how the out-of-memory killer ends a process.
_KILLED = 137


@dataclass(frozen=True)
class Case:
    """One run: its tables, the facts of meta.json, and how it ended (None: the recording never did)."""

    tables: Tables
    meta: Mapping[str, Any]
    end: Mapping[str, Any] | None

    @cached_property
    def exit_code(self) -> int | None:
        """The command's exit status, if it is known: as the recorder or, without it, the kernel told."""
        if self.end is not None:
            return self.end.get("exit_code")
        table = self.tables.processes
        first = table.sort_values("start_ns", kind="stable")["exit_status"].head(1).dropna()
        return int(first.iloc[0]) if len(first) else None

    @property
    def end_unknown(self) -> tuple[str, ...]:
        """Why it is not known how the command ended; empty where it is."""
        if self.end is None and self.exit_code is None:
            return ("the recording ended early (no end.json): whether the program got over it is not known",)
        return ()

    @property
    def torn(self) -> bool:
        """Whether part of the trace itself is missing."""
        return any(kind in HIDES_ALL for kind, _ in self.losses)

    @property
    def detached(self) -> bool:
        """Whether the process went on running when the recording ended."""
        return bool((self.end or {}).get("detached"))

    @property
    def losses(self) -> tuple[tuple[str, int], ...]:
        """What could not be recorded, by kind."""
        return tuple(self.tables.losses.itertuples(index=False, name=None))

    @cached_property
    def blind_to(self) -> tuple[str, ...]:
        """Reasons why a failure may have gone unseen."""
        reasons = list(self.blind("ioctl", "vulkan"))
        if self.exit_code:
            reasons += self.blind("exception")
        if self.exit_code == _KILLED or self.tables.processes["exit_status"].eq(_KILLED).any():
            reasons += self.blind("process")
        kinds = {kind for kind, _ in self.losses}
        reasons += [note for note, device_seen in self._late_libraries if not device_seen]
        if kinds & HIDES_ALL:
            reasons.append("part of what was recorded could not be written to the trace")
        root = (self.end or {}).get("root_pid")
        if root is not None and root not in set(self.tables.processes["pid"]):
            reasons.append(f"the command itself (process {root}) was not seen: is this a PID namespace?")
        if self.end is None:
            reasons.append("the recording ended early (no end.json): what came after is not known")
        return tuple(reasons)

    def blind(self, *layers: str) -> tuple[str, ...]:
        """Reasons why something that these layers show may have gone unseen."""
        reasons = []
        for layer in layers:
            sight, facts = SIGHTS[layer], self.meta.get("layers", {}).get(layer, {})
            unused = (sight.device and not self.meta.get("nodes")) or (
                bool(sight.library) and self.never_mapped(sight.library)
            )
            if not facts.get("live") and not unused:
                reasons.append(f"the {layer} layer was not live: {facts.get('why') or 'unknown reason'}")
            elif not unused and (absent := sight.absent(facts)):
                reasons.append(f"the {layer} layer had no probe of {', '.join(absent)}")
            lost = sum(count for kind, count in self.losses if kind in sight.hides)
            if lost:
                reasons.append(f"{lost} records of the {layer} layer were lost")
        return tuple(reasons)

    @cached_property
    def blind_in_user_space(self) -> tuple[str, ...]:
        """Reasons why it may not have been user space that gave up by itself: besides ``blind_to``."""
        reasons = [*self.blind_to, *self.blind("mmap")]
        arrays = sum(count for kind, count in self.losses if kind == "lost_array")
        binds = self.tables.ioctls["name"] == "VM_BIND"
        if arrays or bool(self.tables.ioctls.loc[binds, "cut"].any()):
            reasons.append("not all operations of every VM_BIND were recorded")
        return tuple(reasons)

    @property
    def blind_to_gpu(self) -> tuple[str, ...]:
        """Why a heap may have been refused a chunk, or the GPU have failed, unseen: no ioctl shows either."""
        return self.blind("driver") if len(self.tables.heaps) or self.submitted else ()

    @cached_property
    def unseen_requests(self) -> tuple[str, ...]:
        """Reasons why requests may have been made that the trace does not have."""
        attached = () if self.attached is None else (self.attached,)
        return (*attached, *self.blind("ioctl"), *(self.blind_to if self.torn else ()))

    def never_mapped(self, library: str) -> bool:
        """Whether no traced process is known to have loaded ``library``, where that would be known."""
        if library == "libvulkan.so" and len(self.tables.vulkan):
            return False
        names = self.tables.modules["soname"].where(
            self.tables.modules["soname"] != "", self.tables.modules["path"].str.rsplit("/", n=1).str[-1]
        )
        if self.tables.modules["path"].isna().any():
            return False  # some library's process had ended before anybody looked
        watched = self.meta.get("layers", {}).get("mmap", {}).get("live") and not self.blind("mmap")
        return bool(watched) and not names.str.startswith(library).any()

    @cached_property
    def _late_libraries(self) -> tuple[tuple[str, bool], ...]:
        """Vulkan loaders that were probed when a process had mapped them already, each as a sentence.

        Also whether the process's vkCreateDevice was seen all the same: then nothing can have been recorded,
        allocated or submitted before.
        """
        table, calls = self.tables.libraries, self.tables.vulkan
        late = table[(table["layer"] == "vulkan") & table["late_ns"].notna() & (table["probes"] > 0)]
        devices = set(calls.loc[calls["function"] == "vkCreateDevice", "pid"])
        return tuple(
            (
                f"{row['path']} was probed {row['late_ns'] / 1e9:.3f} s after process {row['pid']} had "
                "mapped it: "
                "Vulkan calls in between are not known (with --root, or LD_LIBRARY_PATH set by --env, it is "
                "found beforehand)",
                row["pid"] in devices,
            )
            for _, row in late.iterrows()
        )

    @property
    def attached(self) -> str | None:
        """What is not known of a process that ran already when the recording began; else None."""
        pid = self.meta.get("attached_pid")
        if pid is None:
            return None
        return f"attached to process {pid} while it ran: the objects it had made before are not known"

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What makes an answer less certain without taking it away."""
        notes = [] if self.attached is None else [self.attached]
        notes += [note for note, device_seen in self._late_libraries if device_seen]
        return tuple(notes)

    @cached_property
    def used_panthor(self) -> bool:
        """Whether any traced process made a request to a panthor node."""
        return len(self.tables.ioctls) > 0

    @property
    def used_gpu(self) -> bool:
        """Whether any traced process called Vulkan or panthor."""
        return self.used_panthor or len(self.tables.vulkan) > 0

    @cached_property
    def uses_ggml(self) -> bool:
        """Whether a traced process had ggml's library in it, or is a program of llama.cpp by its name."""
        libraries = self.tables.modules["path"].dropna().astype(str).str.rsplit("/", n=1).str[-1]
        programs = self.tables.processes["path"].dropna().astype(str).str.rsplit("/", n=1).str[-1]
        return bool(libraries.str.startswith("libggml").any() or programs.str.startswith("llama-").any())

    @cached_property
    def submitted(self) -> bool:
        """Whether work was given to the GPU, as far as either layer saw."""
        functions = self.tables.vulkan["function"]
        return bool(
            functions.isin(["vkQueueSubmit", "vkQueueSubmit2"]).any()
            or (self.tables.ioctls["name"] == "GROUP_SUBMIT").any()
        )

    @cached_property
    def vulkan_failures(self) -> pd.DataFrame:
        """Vulkan calls that answered with an error, in order."""
        return self._failures("vulkan")

    @cached_property
    def requests(self) -> pd.DataFrame:
        """All requests to the kernel about panthor: ioctls, mappings (mmap, munmap), openings of a node."""
        ioctls, mappings = self.tables.ioctls, self.tables.mappings
        if mappings.empty:
            return ioctls
        # All of ioctls' columns, whether or not there is an ioctl: the rules look at one kind of table.
        columns = ioctls.columns.union(mappings.columns, sort=False)
        parts = [table.astype(object).reindex(columns=columns) for table in (ioctls, mappings) if len(table)]
        whole = pd.concat(parts, ignore_index=True)
        whole = whole.astype(dict.fromkeys(["failed"], bool)).astype(
            dict.fromkeys(["pid", "tid", "enter_ns", "exit_ns"], "int64")
        )
        whole = whole.astype(dict.fromkeys(["vulkan_id", "recording_id", "ioctl_id", "ret"], "Int64"))
        return whole.sort_values("enter_ns", kind="stable", ignore_index=True)

    @cached_property
    def memory_exceptions(self) -> pd.DataFrame:
        """Exceptions that speak of memory, in order."""
        thrown = self._failures("exception")
        return thrown[thrown["error"].astype(str).str.contains("|".join(_OUT_OF_MEMORY))]

    def _failures(self, kind: str) -> pd.DataFrame:
        return self.tables.failures[self.tables.failures["kind"] == kind]

    @cached_property
    def ended_badly(self) -> bool:
        """Whether the command ended with a failure, or it is not known how."""
        return self.exit_code != 0 and not self.detached

    def failed(self, pid: int) -> bool:
        """Whether the command ended badly, or this process of it did: a shell may not care."""
        return self.ended_badly or self._failed_itself(pid)

    def _failed_itself(self, pid: int) -> bool:
        table = self.tables.processes
        status = table.loc[table["pid"] == pid, "exit_status"].dropna()
        return bool((status != 0).any())

    @cached_property
    def failing_calls(self) -> tuple[pd.Series, ...]:
        """The last failed Vulkan call of each process: first of those that ended badly, then the latest."""
        last = self.vulkan_failures.groupby("pid")["vulkan_id"].last().astype("int64")
        calls = [self.tables.vulkan.iloc[position] for position in sorted(last, reverse=True)]
        return tuple(sorted(calls, key=lambda call: not self._failed_itself(int(call["pid"]))))

    @cached_property
    def failing_call(self) -> pd.Series | None:
        """The Vulkan call most likely to be what the program did not get over."""
        return self.failing_calls[0] if self.failing_calls else None

    def max_map_count(self, at_ns: int) -> int | None:
        """vm.max_map_count as the snapshot nearest to ``at_ns`` has it, or as it was at the start."""
        known = self.tables.states.dropna(subset=["max_map_count"])
        if len(known):
            return int(known["max_map_count"].iloc[int((known["time_ns"] - at_ns).abs().argmin())])
        first = self.meta.get("machine", {}).get("max_map_count")
        return None if first is None else int(first)

    @cached_property
    def oom_killed(self) -> tuple[int, ...]:
        """Traced processes the kernel's out-of-memory killer ended."""
        table = self.tables.processes
        return tuple(int(pid) for pid in table.loc[table["oom_killed_ns"].notna(), "pid"])

    def oom_in_cgroup(self, pid: int) -> bool | None:
        """Whether the out-of-memory killer ended it for its memory cgroup; None where not known."""
        table = self.tables.processes
        answer = table.loc[table["pid"] == pid, "oom_in_cgroup"]
        return None if answer.empty or pd.isna(answer.iloc[0]) else bool(answer.iloc[0])

    @property
    def oom_limit(self) -> int | None:
        """Limit of the memory cgroup the out-of-memory killer last acted for, in bytes; None: not known."""
        known = self.tables.processes["oom_limit"].dropna()
        return int(known.iloc[-1]) if len(known) else None

    @cached_property
    def reused_pids(self) -> frozenset[int]:
        """Processes that were seen before the fork that made them: their number was another one's."""
        calls = pd.concat([self.tables.ioctls[["pid", "enter_ns"]], self.tables.vulkan[["pid", "enter_ns"]]])
        first = calls.groupby("pid")["enter_ns"].min().to_dict()
        starts = zip(self.tables.processes["pid"], self.tables.processes["start_ns"], strict=True)
        return frozenset(int(pid) for pid, start in starts if first.get(pid, start) < start)

    def reused_ns(self, pid: int, after_ns: int) -> int:
        """When the number of the process that lived at ``after_ns`` went to another one; far away: never."""
        if pid in self.reused_pids:
            table = self.tables.processes
            start = int(table.loc[table["pid"] == pid, "start_ns"].iloc[0])
            if start > after_ns:
                return start
        return np.iinfo(np.int64).max

    @cached_property
    def gpu_faults(self) -> pd.DataFrame:
        """Faults of the GPU that concern a traced process, or the device as a whole, by time."""
        table = self.tables.gpu_faults
        own = table["pid"].isin(self.tables.processes["pid"]) | table["pid"].isin(self.tables.ioctls["pid"])
        chosen: pd.DataFrame = table[table["pid"].isna() | own]
        return chosen if self.used_panthor else table.iloc[:0]

    def refused_before(self, time_ns: int) -> bool:
        """Whether a request was refused, or a Vulkan call failed, before ``time_ns``."""
        earlier = self.tables.failures["time_ns"] < time_ns
        return bool((earlier & (self.tables.failures["kind"] != "exception")).any())

    def last_refusal_after(self, time_ns: int) -> pd.Series | None:
        """The last refused ioctl from ``time_ns`` on, or None."""
        table = self.tables.ioctls
        later = table[table["failed"] & (table["exit_ns"] >= time_ns)]
        return later.iloc[-1] if len(later) else None

    def children(self, vulkan_id: int) -> list[int]:
        """A Vulkan call and the calls made inside it."""
        found, fresh = [vulkan_id], [vulkan_id]
        while fresh:
            inside = self.tables.vulkan["parent_id"].isin(fresh).fillna(False)
            fresh = [int(value) for value in self.tables.vulkan.loc[inside.astype(bool), "vulkan_id"]]
            found += fresh
        return found

    def requests_inside(self, call: pd.Series) -> pd.DataFrame:
        """Kernel requests made inside a Vulkan call."""
        inside = self.requests["vulkan_id"].isin(self.children(int(call["vulkan_id"])))
        return self.requests[inside.fillna(False).astype(bool)]

    def requests_of_recording(self, call: pd.Series) -> pd.DataFrame:
        """Kernel requests made while the call's command buffer was recorded, up to the call's end."""
        table: pd.DataFrame = self.requests
        if pd.isna(call["recording_id"]):
            return table.iloc[:0]
        belongs = table["recording_id"].eq(call["recording_id"]).fillna(False).astype(bool)
        chosen: pd.DataFrame = table[belongs & (table["enter_ns"] <= call["exit_ns"])]
        return chosen

    def dispatch_of(self, vulkan_id: object) -> pd.Series | None:
        """The dispatch a Vulkan call is, or None."""
        if pd.isna(vulkan_id):  # type: ignore[call-overload]
            return None
        table = self.tables.dispatches
        found = table[table["vulkan_id"] == vulkan_id]
        return found.iloc[0] if len(found) else None

    def function_of(self, vulkan_id: object) -> str | None:
        """Name of a Vulkan call, or None for "in no call"."""
        if pd.isna(vulkan_id):  # type: ignore[call-overload]
            return None
        return str(self.tables.vulkan.loc[int(vulkan_id), "function"])  # type: ignore[call-overload]
