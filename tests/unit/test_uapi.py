# SPDX-License-Identifier: MIT
"""The ioctl and Vulkan tables hold together, and agree with the C they stand for."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from panthor_trace.capture import source
from panthor_trace.limits import LIMITS, limit_reached
from panthor_trace.model.arguments import decode
from panthor_trace.trace.schema import ARGUMENT_BYTES, POINTEE_BYTES, VULKAN_ARGS
from panthor_trace.uapi import ioctls, vulkan
from panthor_trace.uapi.errnos import errno_name
from panthor_trace.uapi.ioc import ioc, number_of, size_of


@pytest.mark.parametrize("ioctl", ioctls.PANTHOR + ioctls.CORE, ids=lambda ioctl: ioctl.name)
def test_members_do_not_overlap_and_fit_the_record(ioctl: ioctls.Ioctl) -> None:
    covered: set[int] = set()
    for field in ioctl.fields:
        own = set(range(field.offset, field.end))
        assert not own & covered, field.name
        assert field.offset % int(field.type[1:]) == 0, field.name
        covered |= own
    assert max(covered, default=0) < ARGUMENT_BYTES


def test_numbers_and_names_are_unique() -> None:
    everything = ioctls.PANTHOR + ioctls.CORE
    assert len({ioctl.number for ioctl in everything}) == len(everything)
    assert len({ioctl.name for ioctl in everything}) == len(everything)
    assert [ioctl.number for ioctl in ioctls.PANTHOR] == list(range(0x40, 0x40 + len(ioctls.PANTHOR)))


def test_array_offsets_are_those_of_the_members() -> None:
    for ioctl in ioctls.PANTHOR:
        strides = [field.offset for field in ioctl.fields if field.name.endswith("_stride")]
        assert strides == ([] if ioctl.array is None else [ioctl.array])


def test_number_and_size_come_out_of_the_command() -> None:
    command = ioc(3, "d", 0x45, 24)  # DRM_IOCTL_PANTHOR_BO_CREATE as strace prints it
    assert command == 0xC0186445
    assert (number_of(command), size_of(command)) == (0x45, 24)


@pytest.mark.parametrize(
    ("name", "code", "ordinary"),
    [
        ("SYNCOBJ_WAIT", errno.ETIME, True),
        ("SYNCOBJ_WAIT", errno.ENOMEM, False),
        ("VM_BIND", errno.ETIME, False),
        ("VM_BIND", errno.EINTR, True),
        ("VM_BIND", errno.EINVAL, False),
        ("DEV_QUERY", errno.EINVAL, True),
    ],
)
def test_ordinary_errnos(name: str, code: int, ordinary: bool) -> None:
    assert ioctls.is_ordinary(ioctls.BY_NAME[name].number, code) is ordinary


def test_unknown_things_keep_their_number() -> None:
    assert ioctls.name_of(0x9F) == "0x9f"
    assert vulkan.result_name(-77) == "VkResult -77"
    assert (errno_name(12), errno_name(0), errno_name(524), errno_name(9999)) == (
        "ENOMEM",
        "",
        "ENOTSUPP",
        "9999",
    )


def test_arguments_are_decoded_by_the_size_the_caller_knew() -> None:
    raw = np.zeros((2, ARGUMENT_BYTES), np.uint8)
    raw[:, :8] = np.frombuffer((1 << 33).to_bytes(8, "little"), np.uint8)
    raw[:, 16] = 9
    frame = decode(ioctls.BY_NAME["BO_CREATE"], raw, np.array([16, 24]))
    assert frame["size"].tolist() == [1 << 33] * 2
    assert frame["handle"].isna().tolist() == [True, False]
    assert frame["handle"].tolist()[1] == 9


@pytest.mark.parametrize("function", vulkan.FUNCTIONS, ids=lambda function: function.name)
def test_vulkan_rows_fit_the_record(function: vulkan.Function) -> None:
    assert len(function.arguments) <= VULKAN_ARGS
    pointee = function.pointee
    if pointee:
        assert pointee.size <= POINTEE_BYTES
        assert pointee.argument < len(function.arguments)
        assert all(offset + int(kind[1:]) <= pointee.size for _, offset, kind in pointee.members)
    assert (function.command_buffer is not None) == (
        function.name.startswith("vkCmd") or function.name.endswith("CommandBuffer")
    )


def test_source_has_the_layers_asked_for() -> None:
    assert len(source.vulkan_table()) == len(vulkan.FUNCTIONS)
    whole = source.program_source(dict.fromkeys(("TASK_FILES", "FILES_FDT"), 8))
    assert "sys_enter_ioctl" in whole
    assert "mark_victim" in whole
    bare = source.program_source(None, oom=False)
    assert "sys_enter_ioctl" not in bare
    assert "mark_victim" not in bare


def test_caps_are_reached_by_their_own_refusal_only() -> None:
    for limit in LIMITS:
        assert limit_reached(limit.ioctl, limit.errno) is limit
        assert limit_reached(limit.ioctl, "ENOMEM") is None
        assert limit.source
    assert limit_reached("VM_BIND", "EBUSY") is None
