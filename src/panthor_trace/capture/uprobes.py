# SPDX-License-Identifier: MIT
"""Puts the user-space probes on libraries: those the command would load, and those it really maps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..uapi import vulkan
from . import libraries
from .elf import addresses_in
from .layers import Layer
from .modules import Module, Region, identity
from .numbered import Numbered
from .quiet import captured_stderr


class LibraryProbes:
    """Attaches by file, never twice to the same one: two probes would record every call twice."""

    def __init__(self, bcc: Any, bpf: Any, layers: Mapping[str, Layer]) -> None:
        self._bpf = bpf
        self._enter, self._enter_submit = (
            Numbered(bcc, bpf, name) for name in ("vulkan_enter", "vulkan_enter_submit")
        )
        self._layers = layers
        self._attached: set[tuple[int, int]] = set()
        #: A row a library, for libraries.jsonl.
        self.rows: list[dict[str, Any]] = []
        self._append: Callable[[str, Mapping[str, Any]], None] | None = None

    def report_to(self, append: Callable[[str, Mapping[str, Any]], None]) -> None:
        """From now on, write a row for each library; those probed already first."""
        self._append = append
        for row in self.rows:
            append("libraries.jsonl", row)

    def attach_expected(self, root: Path, environment: Mapping[str, str]) -> None:
        """Probe the libraries a command in ``root`` would load."""
        for layer, sonames in libraries.PROBED.items():
            for name in sonames:
                path = libraries.find_library(name, root, environment)
                if path is not None:
                    self._attach(layer, path, str(path), None, None, None)
            if not self._layers[layer].live and not self._layers[layer].why:
                self._layers[layer].why = f"{sonames[0]} was not found where the command would load it from"

    def attach_mapped(self, region: Region, module: Module, mapped_ns: int | None) -> None:
        """Probe a library that a process has mapped, if it is one to probe.

        ``mapped_ns`` is when that was; None where it had been before the recording began.
        """
        layer = libraries.layer_of(module.soname, module.path)
        if layer is not None:
            for place in (region.link, Path(f"/proc/{region.pid}/root{region.path}")):
                if identity(place) is not None:
                    self._attach(layer, place, module.path, module.build_id, region.pid, mapped_ns)
                    return

    def _attach(
        self,
        layer: str,
        place: Path,
        path: str,
        build_id: str | None,
        pid: int | None,
        mapped_ns: int | None,
    ) -> None:
        file = identity(place)
        if file is None or file in self._attached:
            return
        self._attached.add(file)
        attached, missing = self._FUNCTIONS[layer](self, place)
        state = self._layers[layer]
        if attached:
            state.live, state.why = True, ""
        elif not state.live:
            state.why = f"no function of {path} could be probed"
        state.probes += [name for name in attached if name not in state.probes]
        state.missing = [name for name in dict.fromkeys(state.missing + missing) if name not in state.probes]
        row = {
            "layer": layer,
            "path": path,
            "build_id": build_id,
            "pid": pid,
            "mapped_ns": mapped_ns,
            "attached_ns": time.monotonic_ns(),
            "probes": len(attached),
            "missing": missing,
        }
        self.rows.append(row)
        if self._append:
            self._append("libraries.jsonl", row)

    def _attach_vulkan(self, place: Path) -> tuple[list[str], list[str]]:
        attached: list[str] = []
        missing: list[str] = []
        # bcc reads the whole file for each symbol it is asked for: half a minute on a small board.
        addresses = addresses_in(place)
        for number, function in enumerate(vulkan.FUNCTIONS):
            address = addresses.get(function.name)
            if addresses and address is None:
                continue  # an older library: what it does not have nobody can call in it
            where = {"sym": function.name} if address is None else {"addr": address}
            enter = self._enter_submit if function.submit else self._enter
            done = self._probe(place, where, partial(enter.load, number), "vulkan_exit")
            (attached if done else missing).append(function.name)
        return attached, missing

    def _attach_exceptions(self, place: Path) -> tuple[list[str], list[str]]:
        done = self._probe(place, {"sym": "__cxa_throw"}, lambda: "exception_thrown", None)
        return (["__cxa_throw"], []) if done else ([], ["__cxa_throw"])

    _FUNCTIONS = {"vulkan": _attach_vulkan, "exception": _attach_exceptions}  # noqa: RUF012 - never changed

    def _probe(
        self, place: Path, where: Mapping[str, Any], enter: Callable[[], str], leave: str | None
    ) -> bool:
        """Both probes or none: an entry without its return would stay in flight for ever."""
        name = str(place)
        with captured_stderr():
            try:
                if leave:
                    self._bpf.attach_uretprobe(name=name, fn_name=leave, **where)
                try:
                    self._bpf.attach_uprobe(name=name, fn_name=enter(), **where)
                except Exception:
                    if leave:
                        self._bpf.detach_uretprobe(name=name, **where)
                    raise
            except Exception:  # bcc raises bare Exception: no such symbol, or the kernel refused
                return False
        return True
