# SPDX-License-Identifier: MIT
"""Which driver functions are probed on a kernel, and where their arguments are."""

from __future__ import annotations

import struct

import pytest

from panthor_trace.capture import driver
from panthor_trace.capture.btf import Btf, BtfError
from panthor_trace.capture.driver_table import FUNCTIONS
from panthor_trace.trace.schema import DRIVER_VALUES

from .test_btf import BtfFile

#: Parts of /proc/kallsyms and of panthor's BTF as both kernels of the lab have them (Debian, arm64).
CORE = b"""ffff800080010000 T _stext
ffff8000801a2c40 T oom_kill_process
ffff8000801a2d40 t oom_kill_process_notes
ffff800081000000 D _edata
"""
V6_12 = (
    CORE
    + b"""ffff80007b2e1000 t panthor_ioctl_vm_bind_async.isra.0\t[panthor]
ffff80007b2e2000 t panthor_ioctl_bo_create\t[panthor]
ffff80007b2e3000 t panthor_alloc_heap_chunk\t[panthor]
ffff80007b2e4000 t panthor_heap_grow\t[panthor]
ffff80007b2e4800 r panthor_heap_create\t[panthor]
ffff80007b2e5000 t panthor_kernel_bo_create\t[panthor]
ffff80007b2e6000 t panthor_vm_prepare_unmap_op_ctx.isra.0\t[panthor]
ffff80007b2e7000 t group_term_work\t[panthor]
ffff80007b1e7000 T drm_gem_shmem_get_pages\t[drm_shmem_helper]
ffff80007b1e8000 T drm_ioctl\t[drm]
ffff80007b1e9000 T drm_gem_handle_create\t[another]
"""
)
PARAMETERS_6_12 = {
    "panthor_alloc_heap_chunk": ("ptdev", "vm", "heap", "initial_chunk"),
    "panthor_heap_grow": (
        "pool",
        "heap_gpu_va",
        "renderpasses_in_flight",
        "pending_frag_count",
        "new_chunk_gpu_va",
    ),
    "panthor_kernel_bo_create": ("ptdev", "vm", "size", "bo_flags", "vm_map_flags", "gpu_va"),
}
PARAMETERS_7_3 = {
    **PARAMETERS_6_12,
    "panthor_alloc_heap_chunk": ("pool", "heap", "initial_chunk"),
    "panthor_kernel_bo_create": ("ptdev", "vm", "size", "bo_flags", "vm_map_flags", "gpu_va", "name"),
}
OFFSETS = {
    ("panthor_heap_pool", "vm"): 16,
    ("panthor_heap", "chunk_size"): 48,
    ("panthor_heap", "chunk_count"): 60,
    ("panthor_heap", "max_chunks"): 52,
    ("panthor_heap", "target_in_flight"): 56,
    ("panthor_group", "vm"): 16,
    ("panthor_group", "term_work"): 440,
    ("panthor_group", "fatal_queues"): 64,
    ("panthor_vm", "unhandled_fault"): 1243,
    ("panthor_kernel_bo", "va_node"): 16,
    ("drm_mm_node", "start"): 8,
}


def offset(struct_name: str, member: str) -> int:
    try:
        return OFFSETS[struct_name, member]
    except KeyError:
        raise BtfError(f"{struct_name}.{member}") from None


def chosen(parameters: dict[str, tuple[str, ...]], kallsyms: bytes = V6_12) -> dict[str, driver.Probe]:
    probes, _ = driver.choose(driver.symbols(kallsyms), parameters, offset)
    return {probe.function.name: probe for probe in probes}


def paths(probe: driver.Probe) -> dict[str, driver.Path | None]:
    return dict(zip((value.name for value in probe.function.values), probe.values, strict=True))


def test_symbols_are_functions_of_the_right_modules() -> None:
    found = {symbol.name: symbol for symbol in driver.symbols(V6_12)}
    assert found["oom_kill_process"] == driver.Symbol("oom_kill_process", 0xFFFF8000801A2C40)
    assert found["panthor_ioctl_bo_create"].module == "panthor"
    assert "panthor_ioctl_vm_bind_async.isra.0" in found
    assert "drm_gem_handle_create" not in found  # of a module that is not DRM's
    assert "panthor_heap_create" not in found  # data
    assert "oom_kill_process_notes" not in found


def test_symbols_of_a_driver_that_is_built_in() -> None:
    built_in = V6_12.replace(b"\t[panthor]", b"").replace(b"\t[drm]", b"")
    found = {symbol.name: symbol.module for symbol in driver.symbols(built_in)}
    assert found["panthor_ioctl_bo_create"] is None
    assert found["oom_kill_process"] is None


def test_what_a_kernel_lacks_is_missing_not_an_error() -> None:
    probes, missing = driver.choose(driver.symbols(V6_12), PARAMETERS_6_12, offset)
    assert "panthor_gem_pin" in missing
    assert "drm_gem_shmem_get_pages" not in missing
    assert len(probes) + len(missing) == len(FUNCTIONS)
    assert [FUNCTIONS[probe.index] for probe in probes] == [probe.function for probe in probes]


@pytest.mark.parametrize(
    ("parameters", "vm", "heap"),
    [
        (PARAMETERS_6_12, driver.Path(1), 2),
        (PARAMETERS_7_3, driver.Path(0, (16,)), 1),
    ],
)
def test_arguments_are_found_by_name(
    parameters: dict[str, tuple[str, ...]], vm: driver.Path, heap: int
) -> None:
    """The parameters of panthor_alloc_heap_chunk differ between the kernels."""
    probe = chosen(parameters)["panthor_alloc_heap_chunk"]
    found = paths(probe)
    assert probe.vm == vm
    assert found["vm"] == vm
    assert found["heap"] == driver.Path(heap)
    assert found["chunk_count"] == driver.Path(heap, (60,), 4)
    assert probe.unknown == ()


def test_members_through_pointers_containers_and_returned_pointers() -> None:
    probes = chosen(PARAMETERS_6_12)
    assert paths(probes["panthor_heap_grow"])["chunk_va"] == driver.Path(4, (0,))
    assert paths(probes["panthor_kernel_bo_create"])["va"] == driver.Path(8, (24,))
    term = probes["group_term_work"]
    assert term.vm == driver.Path(0, (16 - 440,))
    assert paths(term)["vm_fault"] == driver.Path(0, (16 - 440, 1243), 1)
    assert set(term.unknown) == {"timed_out", "destroyed", "vm_unusable"}  # not among these OFFSETS


def test_a_changed_signature_has_no_arguments() -> None:
    renamed = V6_12.replace(b" panthor_heap_grow\t", b" panthor_heap_grow.constprop.0\t")
    probe = chosen(PARAMETERS_6_12, renamed)["panthor_heap_grow"]
    assert probe.symbol.name == "panthor_heap_grow.constprop.0"
    assert probe.vm is None
    assert set(probe.unknown) == {value.name for value in probe.function.values}


def test_the_function_itself_comes_before_its_parts() -> None:
    both = V6_12 + b"ffff80007b2f0000 t panthor_heap_grow.part.0\t[panthor]\n"
    assert chosen(PARAMETERS_6_12, both)["panthor_heap_grow"].symbol.name == "panthor_heap_grow"
    changed = both.replace(b" panthor_heap_grow\t", b" panthor_heap_grow.isra.0\t")
    assert chosen(PARAMETERS_6_12, changed)["panthor_heap_grow"].symbol.name == "panthor_heap_grow.isra.0"


def test_without_types_returns_are_still_recorded() -> None:
    def none(struct_name: str, member: str) -> int:
        raise BtfError("no BTF")

    probes, _ = driver.choose(driver.symbols(V6_12), {}, none)
    grow = next(probe for probe in probes if probe.function.name == "panthor_heap_grow")
    assert grow.values == (None,) * len(grow.function.values)
    assert grow.flags & driver.ALWAYS


def test_flags_say_what_the_program_has_to_do() -> None:
    probes = chosen(PARAMETERS_6_12)
    assert probes["panthor_ioctl_bo_create"].flags == driver.RETURNS_INT
    assert probes["panthor_heap_grow"].flags == driver.RETURNS_INT | driver.ALWAYS | driver.HAS_ENTRY
    assert probes["panthor_kernel_bo_create"].flags & driver.RETURNS_POINTER
    assert probes["group_term_work"].flags == driver.ENTRY_ONLY | driver.HAS_ENTRY
    assert probes["oom_kill_process"].flags & driver.EVERYBODY


def test_row_as_the_program_reads_it() -> None:
    """struct driver_probe of bpf/driver.c: two words, then 1 + DRIVER_VALUES paths of 16 bytes."""
    packed = chosen(PARAMETERS_6_12)["group_term_work"].pack()
    assert len(packed) == 8 + 16 * (1 + DRIVER_VALUES)
    index, _, first, second, third, base, hops, size, present = struct.unpack_from("<II3i4B", packed)
    assert FUNCTIONS[index].name == "group_term_work"
    assert (first, second, third, base, hops, size, present) == (-424, 0, 0, 0, 1, 8, 1)
    assert packed[-16:] == bytes(16)


def test_every_row_fits_a_record_and_names_places_that_can_be_read() -> None:
    assert len({function.name for function in FUNCTIONS}) == len(FUNCTIONS)
    for function in FUNCTIONS:
        assert len(function.values) <= DRIVER_VALUES, function.name
        assert not (function.makes_vm and function.returns != "pointer"), function.name
        assert function.why, function.name
        assert function.file, function.name
        for value in function.values:
            for place in value.places:
                assert place.count("->") <= 3, (function.name, place)


def module(file: BtfFile, base: BtfFile, prototypes: list[tuple[str, tuple[str, ...]]], first: int) -> bytes:
    """A module's BTF whose ids and strings continue those of ``base``."""
    file.types = b""
    for number, (name, parameters) in enumerate(prototypes):
        file.types += struct.pack("<III", 0, 13 << 24 | len(parameters), 0)
        for parameter in parameters:
            found = base.strings.find(b"\0" + parameter.encode() + b"\0")
            known = found + 1 if found >= 0 else len(base.strings) + file.string(parameter)
            file.types += struct.pack("<II", known, 1)
        named = len(base.strings) + file.string(name)
        file.types += struct.pack("<III", named, 12 << 24, first + 2 * number)
    return file.bytes()


def test_parameters_of_a_module_whose_ids_continue_the_kernels() -> None:
    base = BtfFile()
    base.string("pool")  # a string the kernel has already
    for _ in range(1233):
        base.integer(base.string("int"), 32)
    functions = list(PARAMETERS_6_12.items())
    raw = module(BtfFile(), base, [("another", ("x",)), *functions], first=1234)
    found = Btf.parse(raw, Btf.parse(base.bytes())).parameters(driver.wanted_parameters())
    assert found == PARAMETERS_6_12


def test_member_offsets_of_a_module() -> None:
    base, file = BtfFile(), BtfFile()
    vm = base.string("vm")
    pool = len(base.bytes()) and len(base.strings) + file.string("panthor_heap_pool")
    file.struct(pool, 88, [(vm, 16 * 8)])
    btf = Btf.parse(file.bytes(), Btf.parse(base.bytes()))
    assert btf.offsets("panthor_heap_pool", ["vm"]) == {"vm": 16}
    with pytest.raises(BtfError):
        btf.offsets("panthor_heap_pool", ["gone"])
