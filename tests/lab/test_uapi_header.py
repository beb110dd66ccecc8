# SPDX-License-Identifier: MIT
"""The ioctl table says what each kernel's own panthor_drm.h says. Needs the lab's kernels, boots nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from board.assemble import kernel_entry
from board.kernels import kernel_named
from panthor_trace.uapi.ioc import ioc
from panthor_trace.uapi.ioctls import PANTHOR, VM_BIND_OP, Ioctl

#: Uses of an ioctl number's parts that are not the plain name of its struct.
STRUCTS = {"VM_BIND operation": "vm_bind_op"}


def _members(ioctl: Ioctl) -> list[str]:
    """The table's names as C expressions: the object arrays are flattened there."""
    names = []
    for field in ioctl.fields:
        head, _, tail = field.name.rpartition("_")
        flattened = tail in ("stride", "count", "array") and head in (
            "ops",
            "queues",
            "queue_submits",
            "syncs",
        )
        names.append(f"{head}.{tail}" if flattened else field.name)
    return names


def test_table_agrees_with_the_header(kernel: str, tmp_path: Path) -> None:
    include = kernel_entry(kernel_named(kernel), print).path / "build" / "usr" / "include"
    header = (include / "drm" / "panthor_drm.h").read_text()
    known = [ioctl for ioctl in PANTHOR if f"DRM_IOCTL_PANTHOR_{ioctl.name} " in header]
    assert len(known) >= 13
    if kernel != "6.12":
        assert len(known) == len(PANTHOR), "an ioctl of the table is not the kernel's"
    lines = []
    for ioctl in [*known, VM_BIND_OP]:
        struct_name = f"struct drm_panthor_{STRUCTS.get(ioctl.name, ioctl.name.lower())}"
        if ioctl in known:
            lines.append(f'printf("%u %zu\\n", DRM_IOCTL_PANTHOR_{ioctl.name}, sizeof({struct_name}));')
        for member in _members(ioctl):
            lines.append(f'printf("%zu ", offsetof({struct_name}, {member}));')
            lines.append(f'printf("%zu\\n", sizeof((({struct_name} *)0)->{member}));')
    (tmp_path / "main.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <drm/panthor_drm.h>\nint main(void) {\n"
        + "\n".join(lines)
        + "\nreturn 0; }\n"
    )
    subprocess.run(["gcc", "-I", include, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    said = subprocess.check_output([tmp_path / "main"], text=True).split("\n")
    expected = []
    for ioctl in [*known, VM_BIND_OP]:
        if ioctl in known:
            number, size = map(int, said[len(expected)].split())
            assert number == ioc(3, "d", ioctl.number, size), ioctl.name
            expected.append(f"{number} {size}")
        expected += [f"{field.offset} {field.end - field.offset}" for field in ioctl.fields]
    assert said[:-1] == expected


@pytest.mark.parametrize("name", ["GEM_CLOSE", "SYNCOBJ_WAIT", "PRIME_HANDLE_TO_FD"])
def test_core_numbers_agree_with_the_header(kernel: str, name: str, tmp_path: Path) -> None:
    from panthor_trace.uapi.ioctls import BY_NAME

    include = kernel_entry(kernel_named(kernel), print).path / "build" / "usr" / "include"
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n#include <drm/drm.h>\n"
        f'int main(void) {{ printf("%u", (unsigned)DRM_IOCTL_{name} & 0xff); return 0; }}\n'
    )
    subprocess.run(["gcc", "-I", include, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    assert int(subprocess.check_output([tmp_path / "main"])) == BY_NAME[name].number
