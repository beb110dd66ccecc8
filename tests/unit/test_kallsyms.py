# SPDX-License-Identifier: MIT
"""An address of the kernel is called what /proc/kallsyms calls it."""

from __future__ import annotations

import pytest

from panthor_trace.capture.kallsyms import Kallsyms

TEXT = b"""ffff800080010000 T _text
ffff800080010000 T _stext
ffff800080010100 t do_thing
ffff800080010180 d some_data
ffff800080010200 T ioctl_like
ffffd00000002000 t panthor_ioctl_bo_create\t[panthor]
ffffd00000001000 t panthor_vm_bind\t[panthor]
"""


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0xFFFF80008000FFFF, "[unknown]"),
        (0xFFFF800080010000, "_text+0x0 [kernel]"),
        (0xFFFF8000800101FC, "do_thing+0xfc [kernel]"),  # data is not code
        (0xFFFFD00000001FFF, "panthor_vm_bind+0xfff [panthor]"),
        (0xFFFFD00000002010, "panthor_ioctl_bo_create+0x10 [panthor]"),
    ],
)
def test_address_has_the_name_of_the_code_it_lies_in(address: int, name: str) -> None:
    assert Kallsyms(TEXT).name(address) == name


def test_kernel_without_symbols_names_nothing() -> None:
    assert Kallsyms(b"").name(0xFFFF800080010000) == "[unknown]"
