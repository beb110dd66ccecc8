# SPDX-License-Identifier: MIT
"""What has happened so far, in a few figures, from the records that pass by.

They are for the eye while a command runs; the report counts anew, and exactly.
"""

from __future__ import annotations

import errno
import struct
from collections import defaultdict
from collections.abc import Callable

from ..trace.schema import MappingKind, ProcessEvent, RecordType
from ..uapi import ioctls, vulkan
from ..uapi.ioc import number_of

#: So many records of a type at once are too many to look at: recording comes first.
_TOO_MANY = 5000
_IOCTL = struct.Struct("<8xI4xQ8xq8xI12x64s64sQ")  # tid, enter, ret, cmd, before, after, file
_VULKAN = struct.Struct("<32xiI")  # result, function
_ARRAY = struct.Struct("<8xI4xQII")  # tid, enter, offset, length
_PROCESS = struct.Struct("<4xI16xI")  # pid, event
_MAPPING = struct.Struct("<32xq24xI")  # ret, kind
_OPERATION = struct.Struct("<IIQQQ")  # of a VM_BIND: flags, handle, offset, va, size
_OPERATION_BYTES = 48
_MAPPINGS = (MappingKind.NODE, MappingKind.NODE_UNMAP, MappingKind.OPEN)  # of the GPU's nodes
_TGID = struct.Struct("<4xI")
_NUMBERS = {name: ioctls.BY_NAME[name].number for name in ("BO_CREATE", "GEM_CLOSE", "VM_BIND", "VM_DESTROY")}
_NUMBERS |= {name: ioctls.BY_NAME[name].number for name in ("TILER_HEAP_CREATE", "TILER_HEAP_DESTROY")}
_DISPATCHES = frozenset(
    number for number, function in enumerate(vulkan.FUNCTIONS) if function.name.startswith("vkCmdDispatch")
)


class Figures:
    """Live totals over all traced processes; each record costs the same however many there were before."""

    def __init__(self) -> None:
        self.bo_bytes = 0
        #: GPU addresses mapped; a range that is unmapped otherwise than it was mapped stays counted.
        self.va_bytes = 0
        #: Chunks that tiler heaps began with: what the firmware asks for later is not in it.
        self.heap_bytes = 0
        self.dispatches = 0
        self.failures = 0
        #: Some records were not looked at.
        self.inexact = False
        #: What each opening of the node has: by kind and id, how many bytes.
        self._owned: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
        self._mapped: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        #: Who has used an opening: a child may share its parent's.
        self._users: dict[int, set[int]] = defaultdict(set)
        self._arrays: dict[tuple[int, int], bytes] = {}

    def look(self, fresh: Callable[[RecordType], list[bytes]]) -> None:
        """Count what has arrived."""
        for kind, count in _COUNTED.items():
            records = fresh(kind)
            if len(records) > _TOO_MANY:
                self.inexact = True
                continue
            for record in records:
                count(self, record)
        self._arrays.clear()  # all of a call's are in the ring before the call itself

    def _array(self, record: bytes) -> None:
        tid, enter, _, length = _ARRAY.unpack_from(record)
        start = _ARRAY.size
        key = tid, enter
        self._arrays[key] = self._arrays.get(key, b"") + record[start : start + length]

    def _ioctl(self, record: bytes) -> None:
        tid, enter, ret, command, before, after, file = _IOCTL.unpack_from(record)
        number = number_of(command)
        if ret < 0:
            self.failures += not ioctls.is_ordinary(number, -ret)
            return
        if number not in _NUMBERS.values():
            return
        owned = self._owned[file]
        self._users[file].add(_TGID.unpack_from(record)[0])
        if number == _NUMBERS["BO_CREATE"]:
            self._add(
                owned, (number, _field("BO_CREATE", "handle", after)), _field("BO_CREATE", "size", after)
            )
        elif number == _NUMBERS["GEM_CLOSE"]:
            self._take(owned, (_NUMBERS["BO_CREATE"], _field("GEM_CLOSE", "handle", before)))
        elif number == _NUMBERS["TILER_HEAP_CREATE"]:
            name = "TILER_HEAP_CREATE"
            size = _field(name, "initial_chunk_count", after) * _field(name, "chunk_size", after)
            self._add(owned, (number, _field(name, "handle", after)), size)
        elif number == _NUMBERS["TILER_HEAP_DESTROY"]:
            handle = _field("TILER_HEAP_DESTROY", "handle", before)
            self._take(owned, (_NUMBERS["TILER_HEAP_CREATE"], handle))
        elif number == _NUMBERS["VM_DESTROY"]:
            self.va_bytes -= sum(self._mapped.pop((file, _field("VM_DESTROY", "id", before)), {}).values())
        else:
            self._bind(
                self._mapped[file, _field("VM_BIND", "vm_id", before)], self._arrays.get((tid, enter), b"")
            )

    def _bind(self, mapped: dict[int, int], operations: bytes) -> None:
        for at in range(0, len(operations) - _OPERATION_BYTES + 1, _OPERATION_BYTES):
            flags, _, _, va, size = _OPERATION.unpack_from(operations, at)
            operation = ioctls.VM_BIND_OPS.get(flags >> ioctls.VM_BIND_OP_SHIFT)
            if operation == "map":
                before = mapped.get(va, 0)
                mapped[va] = max(before, size)
                self.va_bytes += mapped[va] - before
            elif operation == "unmap":
                self.va_bytes -= mapped.pop(va, 0)

    def _add(self, owned: dict[tuple[int, int], int], key: tuple[int, int], size: int) -> None:
        self._take(owned, key)
        owned[key] = size
        self._count(key[0], size)

    def _take(self, owned: dict[tuple[int, int], int], key: tuple[int, int]) -> None:
        self._count(key[0], -owned.pop(key, 0))

    def _count(self, number: int, size: int) -> None:
        if number == _NUMBERS["BO_CREATE"]:
            self.bo_bytes += size
        else:
            self.heap_bytes += size

    def _vulkan(self, record: bytes) -> None:
        result, function = _VULKAN.unpack_from(record)
        self.dispatches += function in _DISPATCHES
        self.failures += result < 0 and vulkan.FUNCTIONS[function].has_result

    def _mapping(self, record: bytes) -> None:
        ret, kind = _MAPPING.unpack_from(record)
        absent = kind == MappingKind.OPEN and ret == -errno.ENOENT
        self.failures += -4096 < ret < 0 and kind in _MAPPINGS and not absent

    def _exception(self, _record: bytes) -> None:
        self.failures += 1

    def _process(self, record: bytes) -> None:
        pid, event = _PROCESS.unpack_from(record)
        if event != ProcessEvent.EXIT:
            return
        for file in [file for file, users in self._users.items() if pid in users]:
            self._users[file].discard(pid)
            if not self._users[file]:
                self._close(file)

    def _close(self, file: int) -> None:
        """The kernel closes what the last process leaves open."""
        del self._users[file]
        owned = self._owned.pop(file, {})
        for key in list(owned):
            self._take(owned, key)
        for space in [space for space in self._mapped if space[0] == file]:
            self.va_bytes -= sum(self._mapped.pop(space).values())


#: In this order: arrays belong to ioctls that come after them, and a process ends after its calls.
_COUNTED: dict[RecordType, Callable[[Figures, bytes], None]] = {
    RecordType.ARRAY: Figures._array,
    RecordType.IOCTL: Figures._ioctl,
    RecordType.VULKAN: Figures._vulkan,
    RecordType.MAPPING: Figures._mapping,
    RecordType.EXCEPTION: Figures._exception,
    RecordType.PROCESS: Figures._process,
}


def _field(ioctl: str, name: str, argument: bytes) -> int:
    offset, end = _FIELDS[ioctl, name]
    return int.from_bytes(argument[offset:end], "little")


_FIELDS = {
    (name, field.name): (field.offset, field.end)
    for name in _NUMBERS
    for field in ioctls.BY_NAME[name].fields
}
