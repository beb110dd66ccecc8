# SPDX-License-Identifier: MIT
"""The kernel functions that are probed inside the driver, as one table: what each is there for.

Read in Linux 6.12.117 and 7.3.4. A kernel has some of them: presence is tested, never a version. A value is a
place to read: a parameter by name or ``return``, then members to follow, ``->`` once a pointer:

    ``pool -> panthor_heap_pool.vm``                           pool->vm
    ``work -> panthor_group.vm - panthor_group.term_work``     container_of(work, …, term_work)->vm
    ``return -> panthor_kernel_bo.va_node + drm_mm_node.size`` return->va_node.size
    ``args -> 0``                                              *args
    ``arg0 -> oom_control.memcg``                              the first parameter, whatever its name

Where a parameter or a member is called otherwise in another kernel, the next of ``places`` is tried.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """Something recorded of a call, read when the function returns (at entry where that is all there is).

    ``size`` is that of what the last member holds, in bytes.
    """

    name: str
    places: tuple[str, ...]
    size: int = 8


@dataclass(frozen=True)
class Function:
    """One probed function. Without ``always``, only its failures are recorded.

    ``returns`` is "int" (32 bits, sign-extended), "pointer" (failure is IS_ERR) or "void" (an entry probe
    is all it has). ``vm`` leads to the VM it works in: work of a kernel thread belongs to who made that.
    ``everybody``: concerns all processes. ``makes_vm``: what it returns is a new VM.
    """

    name: str
    file: str
    why: str
    returns: str = "int"
    values: tuple[Value, ...] = ()
    vm: tuple[str, ...] = ()
    always: bool = False
    makes_vm: bool = False
    everybody: bool = False
    #: In the kernel itself, never in a module.
    core: bool = False


def _refuses(file: str, why: str, *names: str, returns: str = "int") -> tuple[Function, ...]:
    return tuple(Function(name, file, why, returns) for name in names)


_POOL_VM = ("pool -> panthor_heap_pool.vm", "vm")
_KBO_SIZE = "panthor_kernel_bo.va_node + drm_mm_node.size"
#: The argument of a work function is taken by its place: their common prototype is in the kernel's own types.
_TERM = "arg0 -> panthor_group.{} - panthor_group.term_work"
_JOB_GROUP = "sched_job -> panthor_job.group - panthor_job.base -> panthor_group."

#: panthor's ioctls: the outermost functions of each chain.
_IOCTLS = (
    "dev_query",
    "vm_create",
    "vm_destroy",
    "vm_bind",
    "vm_get_state",
    "bo_create",
    "bo_mmap_offset",
    "bo_set_label",
    "bo_sync",
    "bo_query_info",
    "group_create",
    "group_destroy",
    "group_submit",
    "group_get_state",
    "tiler_heap_create",
    "tiler_heap_destroy",
    "set_user_mmio_offset",
)

FUNCTIONS: tuple[Function, ...] = (
    *_refuses(
        "panthor_drv.c",
        "an ioctl of panthor: where a chain of refusals ends",
        *(f"panthor_ioctl_{name}" for name in _IOCTLS),
        "panthor_ioctl_vm_bind_async",
    ),
    *_refuses("panthor_drv.c", "copies an array from user space: EFAULT, EINVAL, ENOMEM",
              "panthor_get_uobj_array", returns="pointer"),
    *_refuses("panthor_drv.c", "mmap of a BO or of the MMIO page", "panthor_mmap"),
    *_refuses(
        "panthor_drv.c",
        "fences and dependencies of a submission or an asynchronous bind",
        "panthor_submit_ctx_collect_jobs_signal_ops",
        "panthor_submit_ctx_add_deps_and_arm_jobs",
    ),
    Function(
        "panthor_vm_create",
        "panthor_mmu.c",
        "a VM's object, and the part of the address space the kernel keeps",
        "pointer",
        (
            Value("kernel_va_start", ("auto_kernel_va_start",)),
            Value("kernel_va_size", ("auto_kernel_va_size",)),
        ),
        always=True,
        makes_vm=True,
    ),
    Function(
        "panthor_vm_pool_create_vm",
        "panthor_mmu.c",
        "gives a VM its id: EBUSY when a file has 32, EINVAL when the kernel's part would be too small",
        values=(Value("user_va_range", ("args -> drm_panthor_vm_create.user_va_range",)),),
        always=True,
    ),
    *_refuses(
        "panthor_mmu.c",
        "a bind operation, from its check to the page tables",
        "panthor_vm_bind_exec_sync_op",
        "panthor_vm_bind_prepare_op_ctx",
        "panthor_vm_prepare_map_op_ctx",
        "panthor_vm_prepare_unmap_op_ctx",
        "panthor_vm_op_ctx_prealloc_pts",
        "panthor_vm_map_bo_range",
    ),
    *_refuses("panthor_mmu.c", "the job of an asynchronous bind", "panthor_vm_bind_job_create",
              returns="pointer"),
    *_refuses("panthor_mmu.c", "room in the kernel's part of a VM: ENOSPC when it is full",
              "panthor_vm_alloc_va"),
    Function(
        "panthor_vm_exec_op",
        "panthor_mmu.c",
        "carries out a bind, also in a worker; a failure there makes the VM unusable",
        values=(Value("vm", ("vm",)), Value("unusable", ("vm -> panthor_vm.unusable",), 1)),
        vm=("vm",),
    ),
    Function(
        "panthor_vm_declare_unusable",
        "panthor_mmu.c",
        "a VM that takes no bind any more (7.3; in 6.12 inlined)",
        "void",
        (Value("vm", ("vm",)),),
        ("vm",),
    ),
    *_refuses("panthor_gem.c", "a BO and its handle", "panthor_gem_create_with_handle"),
    *_refuses("panthor_gem.c", "a BO's object", "panthor_gem_create", returns="pointer"),
    *_refuses(
        "panthor_gem.c",
        "a BO's pages (7.3; 6.12 uses drm_gem_shmem_*)",
        "panthor_gem_pin",
        "panthor_gem_backing_get_pages_locked",
        "panthor_gem_swapin_locked",
        "panthor_gem_sync",
        "panthor_gem_mmap",
    ),
    *_refuses("panthor_gem.c", "export of a BO: EINVAL when it is exclusive to a VM",
              "panthor_gem_prime_export", returns="pointer"),
    Function(
        "panthor_kernel_bo_create",
        "panthor_gem.c",
        "a BO the driver makes for itself: heap chunks, ring buffers, sync objects",
        "pointer",
        (
            Value("vm", ("vm",)),
            Value("size", ("size",)),
            Value("bo_flags", ("bo_flags",)),
            Value("va", ("return -> panthor_kernel_bo.va_node + drm_mm_node.start",)),
        ),
        ("vm",),
        always=True,
    ),
    Function(
        "panthor_kernel_bo_destroy",
        "panthor_gem.c",
        "the end of one",
        "void",
        (
            Value("bo", ("bo",)),
            Value("vm", ("bo -> panthor_kernel_bo.vm",)),
            Value("size", (f"bo -> {_KBO_SIZE}",)),
        ),
        ("bo -> panthor_kernel_bo.vm",),
    ),
    *_refuses("panthor_heap.c", "the heaps of a VM", "panthor_heap_pool_create", "panthor_vm_get_heap_pool",
              returns="pointer"),
    Function(
        "panthor_heap_create",
        "panthor_heap.c",
        "a tiler heap: EINVAL for chunk sizes and counts, EBUSY when a VM has 128",
        values=(
            Value("vm", _POOL_VM),
            Value("initial_chunk_count", ("initial_chunk_count",)),
            Value("chunk_size", ("chunk_size",)),
            Value("max_chunks", ("max_chunks",)),
            Value("target_in_flight", ("target_in_flight",)),
            Value("heap_va", ("heap_ctx_gpu_va -> 0",)),
        ),
        always=True,
    ),
    Function(
        "panthor_alloc_heap_chunk",
        "panthor_heap.c",
        "one chunk of a heap, with the heap's own counts",
        values=(
            Value("vm", _POOL_VM),
            Value("heap", ("heap",)),
            Value("initial", ("initial_chunk",)),
            Value("chunk_size", ("heap -> panthor_heap.chunk_size",), 4),
            Value("chunk_count", ("heap -> panthor_heap.chunk_count",), 4),
            Value("max_chunks", ("heap -> panthor_heap.max_chunks",), 4),
            Value("target_in_flight", ("heap -> panthor_heap.target_in_flight",), 4),
        ),
        vm=_POOL_VM,
        always=True,
    ),
    Function(
        "panthor_heap_grow",
        "panthor_heap.c",
        "the firmware asks for a chunk: ENOMEM, silently, at max_chunks or with too many passes in flight",
        values=(
            Value("vm", _POOL_VM),
            Value("heap_va", ("heap_gpu_va",)),
            Value("renderpasses_in_flight", ("renderpasses_in_flight",)),
            Value("pending_frag_count", ("pending_frag_count",)),
            Value("chunk_va", ("new_chunk_gpu_va -> 0",)),
        ),
        vm=_POOL_VM,
        always=True,
    ),
    Function(
        "panthor_heap_return_chunk",
        "panthor_heap.c",
        "a chunk that came too late is taken back",
        values=(Value("vm", _POOL_VM), Value("heap_va", ("heap_gpu_va",))),
        vm=_POOL_VM,
        always=True,
    ),
    *_refuses("panthor_sched.c", "a scheduling group: EBUSY when a file has 128", "panthor_group_create"),
    *_refuses("panthor_sched.c", "a queue of a group, and its ring buffer", "group_create_queue",
              returns="pointer"),
    *_refuses("panthor_fw.c", "what the firmware keeps of a group", "panthor_fw_alloc_queue_iface_mem",
              "panthor_fw_alloc_suspend_buf_mem", returns="pointer"),
    *_refuses("panthor_sched.c", "a job: EINVAL for a queue or stream that is none", "panthor_job_create",
              returns="pointer"),
    Function(
        "group_term_work",
        "panthor_sched.c",
        "the end of a group, whatever ended it: destroyed, a fatal fault, a time-out, a fault of its VM",
        "void",
        (
            Value("vm", (_TERM.format("vm"),)),
            Value("fatal_queues", (_TERM.format("fatal_queues"),), 4),
            Value("timed_out", (_TERM.format("timedout"),), 1),
            Value("destroyed", (_TERM.format("destroyed"),), 1),
            Value("vm_fault", (_TERM.format("vm") + " -> panthor_vm.unhandled_fault",), 1),
            Value("vm_unusable", (_TERM.format("vm") + " -> panthor_vm.unusable",), 1),
        ),
        (_TERM.format("vm"),),
    ),
    Function(
        "queue_timedout_job",
        "panthor_sched.c",
        "a job that took longer than 5 s",
        "void",
        (
            Value("vm", (_JOB_GROUP + "vm",)),
            Value("queue", ("sched_job -> panthor_job.queue_idx - panthor_job.base",), 4),
        ),
        (_JOB_GROUP + "vm",),
    ),
    Function("panthor_sched_report_mmu_fault", "panthor_sched.c", "a page fault of the GPU, no matter whose",
             "void", everybody=True),
    Function("panthor_device_reset_work", "panthor_device.c", "a reset of the GPU", "void", everybody=True),
    Function("panthor_device_unplug", "panthor_device.c",
             "the device is given up: the firmware did not boot after a reset", "void", everybody=True),
    *_refuses(
        "drm_gem.c",
        "DRM's part of a BO: its file in shmem, handle, mmap offset",
        "drm_gem_object_init",
        "drm_gem_handle_create",
        "drm_gem_create_mmap_offset",
        "drm_gem_handle_delete",
        "drm_gem_mmap",
    ),
    *_refuses("drm_gem.c", "a BO's pages from shmem", "drm_gem_get_pages", returns="pointer"),
    *_refuses("drm_gem_shmem_helper.c", "6.12's BOs", "drm_gem_shmem_create", "drm_gem_shmem_get_pages_sgt",
              returns="pointer"),
    *_refuses("drm_gem_shmem_helper.c", "6.12's BOs: their pages", "drm_gem_shmem_get_pages",
              "drm_gem_shmem_get_pages_locked", "drm_gem_shmem_pin", "drm_gem_shmem_pin_locked",
              "drm_gem_shmem_mmap"),
    *_refuses("drm_prime.c", "export and import of a BO", "drm_gem_prime_handle_to_fd",
              "drm_gem_prime_fd_to_handle", "drm_prime_handle_to_fd_ioctl", "drm_prime_fd_to_handle_ioctl"),
    *_refuses("drm_prime.c", "export of a BO", "drm_gem_prime_handle_to_dmabuf", returns="pointer"),
    *_refuses("drm_syncobj.c", "sync objects", "drm_syncobj_find_fence", "drm_syncobj_create_ioctl",
              "drm_syncobj_handle_to_fd_ioctl", "drm_syncobj_fd_to_handle_ioctl"),
    Function(
        "oom_kill_process",
        "mm/oom_kill.c",
        "the out-of-memory killer's choice, and the memory cgroup it acts for",
        "void",
        (
            Value("memory_cgroup", ("arg0 -> oom_control.memcg",)),
            Value("victim", ("arg0 -> oom_control.chosen -> task_struct.tgid",), 4),
            Value("chosen_points", ("arg0 -> oom_control.chosen_points",)),
            Value(
                "limit_pages",
                ("arg0 -> oom_control.memcg -> mem_cgroup.memory + page_counter.max",),
            ),
        ),
        everybody=True,
        core=True,
    ),
)  # fmt: skip
