# SPDX-License-Identifier: MIT
"""The kernel's symbols, read once: which functions can be probed, and what an address is called.

Reading /proc/kallsyms is the kernel's work and takes seconds on a small board (12 MB, 4.6 s on the emulated
one); bcc's own reading of it would take 7.5 s more, with a process held in the meantime.

numpy is loaded for names only: doctor looks for functions, and says where numpy is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_KALLSYMS = Path("/proc/kallsyms")
_ADDRESS_DIGITS = 16
#: nm's letters of what is no code.
_DATA = b"bBdDrR"


class Kallsyms:
    """``text`` is as /proc/kallsyms prints it: a line a symbol, "address type name" and "\\t[module]"."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._addresses: npt.NDArray[np.uint64] | None = None
        self._lines: npt.NDArray[np.int64] | None = None

    @classmethod
    def of_kernel(cls) -> Kallsyms:
        """This kernel's; empty where it does not show them."""
        try:
            return cls(_KALLSYMS.read_bytes())
        except OSError:
            return cls(b"")

    def name(self, address: int) -> str:
        """``function+0x1c [module]``, the kernel itself being module "kernel"; "[unknown]" before all."""
        import numpy as np

        if self._addresses is None:
            self._sort()
        assert self._addresses is not None
        assert self._lines is not None
        index = int(np.searchsorted(self._addresses, np.uint64(address), side="right")) - 1
        if index < 0:
            return "[unknown]"
        start = int(self._addresses[index])
        # Of several names for one address, the first one listed.
        first = int(np.searchsorted(self._addresses, np.uint64(start), side="left"))
        line = int(self._lines[first])
        words = self.text[line : self.text.find(b"\n", line)].decode(errors="replace").split()
        module = words[3] if len(words) > 3 else "[kernel]"
        return f"{words[2]}+0x{address - start:x} {module}"

    def _sort(self) -> None:
        """Find each line's address. Vectorised: there are some 200,000 lines."""
        import numpy as np

        digits = np.zeros(256, np.uint64)  # the value of a hexadecimal digit, by its character
        for character in b"0123456789abcdef":
            digits[character] = int(chr(character), 16)
        characters = np.frombuffer(self.text, np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        lines = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
        kinds = characters[lines + _ADDRESS_DIGITS + 1]
        lines = lines[~np.isin(kinds, np.frombuffer(_DATA, np.uint8))]
        addresses = np.zeros(len(lines), np.uint64)
        for place in range(_ADDRESS_DIGITS):
            addresses = addresses * np.uint64(16) + digits[characters[lines + place]]
        order = np.argsort(addresses, kind="stable")
        self._addresses, self._lines = addresses[order], lines[order]
