# SPDX-License-Identifier: MIT
"""The Vulkan functions that are probed, as one table; and VkResult by name.

Source: the Vulkan registry (vulkan_core.h 1.3). Of vkCmdPipelineBarrier, the arguments beyond those
listed are not recorded. ``pointee`` copies the head of the struct one argument points to.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Pointee:
    """Bytes to copy from where argument ``argument`` points, and the members to decode from them.

    ``count`` is the argument that counts the elements of ``stride`` bytes, where it points to an array: no
    more than these are copied, and no more than ``size`` bytes.
    """

    argument: int
    size: int
    #: (column, offset, NumPy type)
    members: tuple[tuple[str, int, str], ...] = ()
    count: int = 0
    stride: int = 0


@dataclass(frozen=True)
class Function:
    """One probed function: its arguments in order, each a name and a width in bits.

    ``submit`` is 1 or 2 where pSubmits points to VkSubmitInfo or VkSubmitInfo2: the command buffers are then
    recorded too. A call that answers ``quiet`` is not recorded: it said nothing, and programs spin on it.
    """

    name: str
    arguments: tuple[tuple[str, int], ...]
    has_result: bool
    pointee: Pointee | None = None
    submit: int = 0
    quiet: int = 0

    @property
    def command_buffer(self) -> int | None:
        """Index of the argument that is the command buffer being recorded, if there is one."""
        for index, (name, _) in enumerate(self.arguments):
            if name == "commandBuffer":
                return index
        return None


_CB = ("commandBuffer", 64)
_DEVICE = ("device", 64)
_CREATE_PIPELINES = (
    _DEVICE,
    ("pipelineCache", 64),
    ("createInfoCount", 32),
    ("pCreateInfos", 64),
    ("pAllocator", 64),
    ("pPipelines", 64),
)
_QUEUE = ("queue", 64)

FUNCTIONS: tuple[Function, ...] = (
    Function("vkCreateInstance", (("pCreateInfo", 64), ("pAllocator", 64), ("pInstance", 64)), True),
    Function(
        "vkCreateDevice",
        (("physicalDevice", 64), ("pCreateInfo", 64), ("pAllocator", 64), ("pDevice", 64)),
        True,
    ),
    Function("vkDestroyDevice", (_DEVICE, ("pAllocator", 64)), False),
    Function(
        "vkAllocateMemory",
        (_DEVICE, ("pAllocateInfo", 64), ("pAllocator", 64), ("pMemory", 64)),
        True,
        Pointee(1, 32, (("allocation_size", 16, "u8"), ("memory_type", 24, "u4"))),
    ),
    Function("vkFreeMemory", (_DEVICE, ("memory", 64), ("pAllocator", 64)), False),
    Function(
        "vkCreateBuffer",
        (_DEVICE, ("pCreateInfo", 64), ("pAllocator", 64), ("pBuffer", 64)),
        True,
        Pointee(1, 56, (("buffer_size", 24, "u8"), ("buffer_usage", 32, "u4"))),
    ),
    Function("vkBindBufferMemory", (_DEVICE, ("buffer", 64), ("memory", 64), ("memoryOffset", 64)), True),
    Function("vkBindBufferMemory2", (_DEVICE, ("bindInfoCount", 32), ("pBindInfos", 64)), True),
    Function(
        "vkMapMemory",
        (_DEVICE, ("memory", 64), ("offset", 64), ("size", 64), ("flags", 32), ("ppData", 64)),
        True,
    ),
    Function("vkCreateComputePipelines", _CREATE_PIPELINES, True),
    Function("vkCreateGraphicsPipelines", _CREATE_PIPELINES, True),
    Function(
        "vkCreateDescriptorPool",
        (_DEVICE, ("pCreateInfo", 64), ("pAllocator", 64), ("pDescriptorPool", 64)),
        True,
    ),
    Function("vkAllocateDescriptorSets", (_DEVICE, ("pAllocateInfo", 64), ("pSets", 64)), True),
    Function(
        "vkCreateCommandPool",
        (_DEVICE, ("pCreateInfo", 64), ("pAllocator", 64), ("pCommandPool", 64)),
        True,
    ),
    Function("vkResetCommandPool", (_DEVICE, ("commandPool", 64), ("flags", 32)), True),
    Function("vkAllocateCommandBuffers", (_DEVICE, ("pAllocateInfo", 64), ("pBuffers", 64)), True),
    Function("vkBeginCommandBuffer", (_CB, ("pBeginInfo", 64)), True),
    Function("vkEndCommandBuffer", (_CB,), True),
    Function("vkResetCommandBuffer", (_CB, ("flags", 32)), True),
    Function("vkCmdDispatch", (_CB, ("groupCountX", 32), ("groupCountY", 32), ("groupCountZ", 32)), False),
    Function(
        "vkCmdDispatchBase",
        (
            _CB,
            ("baseGroupX", 32),
            ("baseGroupY", 32),
            ("baseGroupZ", 32),
            ("groupCountX", 32),
            ("groupCountY", 32),
            ("groupCountZ", 32),
        ),
        False,
    ),
    Function("vkCmdDispatchIndirect", (_CB, ("buffer", 64), ("offset", 64)), False),
    Function(
        "vkCmdPipelineBarrier",
        (
            _CB,
            ("srcStageMask", 32),
            ("dstStageMask", 32),
            ("dependencyFlags", 32),
            ("memoryBarrierCount", 32),
            ("pMemoryBarriers", 64),
        ),
        False,
    ),
    Function(
        "vkCmdCopyBuffer",
        (_CB, ("srcBuffer", 64), ("dstBuffer", 64), ("regionCount", 32), ("pRegions", 64)),
        False,
    ),
    Function(
        "vkQueueSubmit",
        (_QUEUE, ("submitCount", 32), ("pSubmits", 64), ("fence", 64)),
        True,
        submit=1,
    ),
    Function(
        "vkQueueSubmit2", (_QUEUE, ("submitCount", 32), ("pSubmits", 64), ("fence", 64)), True, submit=2
    ),
    Function("vkQueueWaitIdle", (_QUEUE,), True),
    Function("vkDeviceWaitIdle", (_DEVICE,), True),
    Function(
        "vkWaitForFences",
        (_DEVICE, ("fenceCount", 32), ("pFences", 64), ("waitAll", 32), ("timeout", 64)),
        True,
        Pointee(2, 64, count=1, stride=8),
    ),
    # VK_NOT_READY while the GPU is at work: ggml asks in a loop.
    Function("vkGetFenceStatus", (_DEVICE, ("fence", 64)), True, quiet=1),
    Function("vkWaitSemaphores", (_DEVICE, ("pWaitInfo", 64), ("timeout", 64)), True),
)

BY_NAME = MappingProxyType({function.name: function for function in FUNCTIONS})

#: Where the handle is in what pCommandBuffers and pCommandBufferInfos point to, by Function.submit.
COMMAND_BUFFERS = MappingProxyType({1: (8, 0), 2: (32, 16)})

#: Functions that record a dispatch.
DISPATCHES = ("vkCmdDispatch", "vkCmdDispatchBase", "vkCmdDispatchIndirect")

#: ``VkResult``; below zero is an error.
RESULTS = MappingProxyType(
    {
        0: "VK_SUCCESS",
        1: "VK_NOT_READY",
        2: "VK_TIMEOUT",
        3: "VK_EVENT_SET",
        4: "VK_EVENT_RESET",
        5: "VK_INCOMPLETE",
        -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
        -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
        -3: "VK_ERROR_INITIALIZATION_FAILED",
        -4: "VK_ERROR_DEVICE_LOST",
        -5: "VK_ERROR_MEMORY_MAP_FAILED",
        -6: "VK_ERROR_LAYER_NOT_PRESENT",
        -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
        -8: "VK_ERROR_FEATURE_NOT_PRESENT",
        -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
        -10: "VK_ERROR_TOO_MANY_OBJECTS",
        -11: "VK_ERROR_FORMAT_NOT_SUPPORTED",
        -12: "VK_ERROR_FRAGMENTED_POOL",
        -13: "VK_ERROR_UNKNOWN",
        -1000069000: "VK_ERROR_OUT_OF_POOL_MEMORY",
        -1000072003: "VK_ERROR_INVALID_EXTERNAL_HANDLE",
        -1000161000: "VK_ERROR_FRAGMENTATION",
        -1000257000: "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
        1000297000: "VK_PIPELINE_COMPILE_REQUIRED",
    }
)


def result_name(result: int) -> str:
    """A VkResult by name; an unknown one as its number."""
    return RESULTS.get(result, f"VkResult {result}")
