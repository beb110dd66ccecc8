# SPDX-License-Identifier: MIT
"""bpf/record.h and the Python side say the same."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from enum import IntEnum, IntFlag
from pathlib import Path

import numpy as np
import pytest

from panthor_trace.capture import driver_layer, program
from panthor_trace.trace import records, schema

HEADER = Path(__file__).parents[2] / "bpf" / "record.h"
STRUCTS = {
    "record_head": records.HEAD,
    "ioctl_record": records.IOCTL,
    "array_record": records.ARRAY,
    "vulkan_record": records.VULKAN,
    "exception_record": records.EXCEPTION,
    "process_record": records.PROCESS,
    "counters_record": records.COUNTERS,
    "driver_record": records.DRIVER,
    "kernel_stack_record": records.KERNEL_STACK,
    "message_record": records.MESSAGE,
    "stack_frame": records.FRAME,
    "stack_record": records.STACK,
    "mapping_record": records.MAPPING,
    "failure_record": records.FAILURE,
}
ENUMS: dict[str, type[IntEnum] | type[IntFlag]] = {
    "RECORD_": schema.RecordType,
    "FLAG_": schema.Flag,
    "PROCESS_": schema.ProcessEvent,
    "COUNTER_": schema.Counter,
    "MAPPING_": schema.MappingKind,
    "HOLD_": schema.Hold,
    "FRAME_": schema.FrameStatus,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Sizes, offsets and enumerators as a C compiler has them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed: install gcc"
    names = re.findall(r"^\t([A-Z]+_[A-Z_]+) = ", HEADER.read_text(), re.M)
    lines = [f'printf(",\\"{name}\\": %d", (int){name});' for name in names]
    fields = []
    for struct_name, dtype in STRUCTS.items():
        fields.append(f'printf(",\\"{struct_name}\\": %zu", sizeof(struct {struct_name}));')
        for member in dtype.names or ():
            fields.append(
                f'printf(",\\"{struct_name}.{member}\\": %zu", offsetof(struct {struct_name}, {member}));'
            )
    work = tmp_path_factory.mktemp("record")
    (work / "main.c").write_text(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
        "typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;\n"
        "typedef int32_t s32; typedef int64_t s64;\n"
        f'#include "{HEADER}"\nint main(void) {{ printf("{{\\"enums\\": {{\\"_\\": 0");'
        + "".join(lines)
        + 'printf("}, \\"layout\\": {\\"_\\": 0");'
        + "".join(fields)
        + 'printf("}}"); return 0; }\n'
    )
    subprocess.run([compiler, "-o", work / "main", work / "main.c"], check=True)
    answer: dict[str, dict[str, int]] = json.loads(subprocess.check_output([work / "main"]))
    return answer


@pytest.mark.parametrize("name", STRUCTS)
def test_layout(name: str, measured: dict[str, dict[str, int]]) -> None:
    dtype = STRUCTS[name]
    assert measured["layout"][name] == dtype.itemsize
    for member in dtype.names or ():
        assert dtype.fields is not None
        assert measured["layout"][f"{name}.{member}"] == dtype.fields[member][1], member


@pytest.mark.parametrize("prefix", ENUMS)
def test_enumerators(prefix: str, measured: dict[str, dict[str, int]]) -> None:
    in_c = {
        name.removeprefix(prefix): value
        for name, value in measured["enums"].items()
        if name.startswith(prefix) and name != "COUNTER_COUNT"
    }
    assert in_c == {member.name: int(member) for member in ENUMS[prefix]}


def test_every_struct_is_compared() -> None:
    assert set(re.findall(r"^struct (\w+) \{", HEADER.read_text(), re.M)) == set(STRUCTS)


@pytest.mark.parametrize(
    ("packing", "dtype"),
    [
        (program._VULKAN_RECORD, records.VULKAN),
        (program._IOCTL_RECORD, records.IOCTL),
        (driver_layer._STACK_RECORD, records.KERNEL_STACK),
    ],
)
def test_records_made_by_user_space_have_the_layout(packing: struct.Struct, dtype: np.dtype[np.void]) -> None:
    """Distinct values in every member come back where they belong."""
    assert packing.size == dtype.itemsize
    values = []
    for code in re.findall(r"(\d*)([a-zA-Z])", packing.format.lstrip("<")):
        count, kind = int(code[0] or 1), code[1]
        if kind == "s":
            values.append(bytes([len(values)]) * count)
        else:
            values += range(len(values) + 1, len(values) + 1 + count)
    record = np.frombuffer(packing.pack(*values), dtype)[0]
    flat: list[object] = []
    for name in dtype.names or ():
        member = record[name]
        if name == "head":
            flat += [int(member[part]) for part in records.HEAD.names or ()]
        elif isinstance(member, bytes):
            flat.append(bytes(member))
        elif member.dtype == np.uint8:
            flat.append(member.tobytes())
        else:
            flat += [int(value) for value in np.atleast_1d(member)]
    assert flat == values
