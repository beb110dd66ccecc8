# SPDX-License-Identifier: MIT
"""Runs in the guest: samples what the kernel says of a program's GPU memory while it runs.

``memory_samples.py NAME FILE``: waits for a process NAME, then until its end writes one JSON line a sample to
FILE: CLOCK_MONOTONIC before and after, the memory lines of its DRM fdinfo (by client, in bytes), and, where
debugfs has it, panthor's list of GEM objects.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_SECONDS = 0.03
_EVERY_GEMS = 5


def process_named(name: str) -> Path:
    """/proc/PID of the process that runs ``name``, once there is one."""
    while True:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if Path((entry / "exe").readlink()).name == name:
                    return entry
            except OSError:
                continue
        time.sleep(_SECONDS)


def clients(process: Path) -> dict[str, dict[str, int]]:
    """The memory lines of each DRM client of the process."""
    found: dict[str, dict[str, int]] = {}
    for descriptor in (process / "fd").iterdir():
        try:
            if not str(descriptor.readlink()).startswith("/dev/dri/"):
                continue
            text = (process / "fdinfo" / descriptor.name).read_text()
        except OSError:
            continue
        lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        if "drm-client-id" not in lines:  # 6.12's panthor says nothing in fdinfo
            continue
        memory = {}
        for name, value in lines.items():
            if "-memory" in name:
                number, unit, *_ = [*value.split(), ""]
                memory[name] = int(number) * _UNITS[unit]
        found[lines["drm-client-id"].strip()] = memory
    return found


def main() -> None:
    """See the module's text."""
    name, target = sys.argv[1:]
    gems = next(iter(Path("/sys/kernel/debug/dri").glob("*/gems")), None)
    process = process_named(name)
    with Path(target).open("w", encoding="utf-8") as file:
        number = 0
        while process.exists():
            sample: dict[str, object] = {"before": time.monotonic_ns()}
            try:
                sample["clients"] = clients(process)
            except OSError:
                break
            if gems and number % _EVERY_GEMS == 0:
                sample["gems"] = gems.read_text()
            sample["after"] = time.monotonic_ns()
            file.write(json.dumps(sample) + "\n")
            number += 1
            time.sleep(_SECONDS)


if __name__ == "__main__":
    main()
