# SPDX-License-Identifier: MIT
"""What several checks look at, read once: rights, kernel configuration, symbols, the GPU's nodes."""

from __future__ import annotations

import gzip
import os
import platform
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ..capture import driver
from ..capture.driver_layer import kernel_symbols
from ..capture.identity import Identity
from ..capture.kallsyms import Kallsyms
from ..capture.nodes import Node, panthor_nodes
from ..capture.proc import read_lines

#: Where distributions keep a kernel's configuration.
_CONFIGS = ("/proc/config.gz", "/boot/config-{0}", "/lib/modules/{0}/config", "/usr/lib/modules/{0}/config")


def first_line(path: Path | str) -> str | None:
    """The first line of a file of the kernel's; None where there is none, or none we may read."""
    try:
        return (read_lines(Path(path)) or [""])[0]
    except OSError:
        return None


class Machine:
    """This machine, as the one who asks has it."""

    def __init__(self) -> None:
        self.root = os.geteuid() == 0
        self.kernel = platform.release()
        #: Who runs the commands that are traced: the user of sudo.
        self.user = Identity.invoking(os.environ)

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The environment of those commands, as far as we know it: sudo has removed most of the user's."""
        return {**os.environ, **(self.user.environment() if self.user else {})}

    @cached_property
    def config(self) -> Mapping[str, str] | None:
        """The kernel's configuration; None where it cannot be read."""
        for place in _CONFIGS:
            path = Path(place.format(self.kernel))
            try:
                raw = path.read_bytes()
                text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(errors="replace")
            except (OSError, EOFError):
                continue
            return dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_"))
        return None

    def configured(self, *options: str) -> bool | None:
        """Whether the kernel was built with all of ``options``; None where that cannot be told."""
        if self.config is None:
            return None
        return all(self.config.get(f"CONFIG_{option}") in ("y", "m") for option in options)

    @cached_property
    def nodes(self) -> list[Node]:
        """Nodes of panthor's devices."""
        return panthor_nodes()

    @cached_property
    def kallsyms(self) -> Kallsyms:
        """The kernel's list of symbols."""
        return Kallsyms.of_kernel()

    @cached_property
    def symbols(self) -> list[driver.Symbol]:
        """Those of them that we probe."""
        return kernel_symbols(self.kallsyms)
