// SPDX-License-Identifier: MIT
/*
 * Every scenario. Errnos are what Linux 6.12.117 and 7.3.4 answer; where they differ there are two
 * outcomes. Limits: panthor_mmu.c, panthor_heap.c, panthor_sched.c.
 */
#include <errno.h>
#include <string.h>

#include "groups.h"
#include "scenario.h"
#include "outcome.h"

#define MIB (1ull << 20)

#ifdef TABLE_ONLY
#define RUN(function) .run = NULL
#else
#define RUN(function) .run = function
#endif

/* Kernels differ in when they take a BO's pages. */
#define PAGES_RUN_OUT                                                                              \
	EITHER(OUTCOME("pages are taken at creation", (BO_CREATE, ENOMEM, 1)),                     \
	       OUTCOME("pages are taken at bind", (VM_BIND, ENOMEM, 1)))

const struct scenario scenarios[] = {
    /* Nothing fails, or nothing of the kernel's. */
    {"all-well", "nothing: VM, BO, bind, mmap, group, heap, jobs that count, clean-up", CAUSE_CLEAN,
     NOTHING_FAILS, RUN(run_all_well)},
    {"burst", "nothing: 1009 BOs, to find lost records by their count", CAUSE_CLEAN, NOTHING_FAILS,
     .exact = {CALL_BO_CREATE, 1009}, RUN(run_burst)},
    {"heap-grows", "nothing: the firmware asks for heap chunks and gets them", CAUSE_CLEAN,
     NOTHING_FAILS, .exact = {CALL_HEAP_GROW, 3}, .needs = NEED_INJECT, RUN(run_heap_grows)},
    {"retry-smaller", "a BO larger than memory, then a smaller one that works", CAUSE_RECOVERED,
     PAGES_RUN_OUT, .limit = {"memory", 0}, RUN(run_retry_smaller)},
    {"retry-other-vm", "a bind past one VM's user range, then the same in a VM with room",
     CAUSE_RECOVERED, FAILS(VM_BIND, EINVAL), .limit = {"user_va_range", 0},
     RUN(run_retry_other_vm)},
    {"bo-never-bound", "user space has no GPU address left: a BO made, mapped, closed, never bound",
     CAUSE_DRIVER_VA, NOTHING_FAILS, RUN(run_bo_never_bound)},
    {"gives-up", "nothing that the kernel sees: the program ends by itself", CAUSE_APPLICATION,
     NOTHING_FAILS, RUN(run_gives_up)},

    /* Fixed limits of the driver. */
    {"vm-33rd", "one VM more than a file may have", CAUSE_KERNEL_CAP, FAILS(VM_CREATE, EBUSY),
     .limit = {"vms", 32}, .exact = {CALL_VM_CREATE, 33}, RUN(run_vm_33rd)},
    {"vm-range", "a user VA range that leaves the kernel less than 256 MiB", CAUSE_KERNEL_CAP,
     FAILS(VM_CREATE, EINVAL), .limit = {"min_kernel_va", 256 * MIB}, RUN(run_vm_range)},
    {"bind-past-range", "a bind that ends beyond the VM's user range", CAUSE_KERNEL_CAP,
     FAILS(VM_BIND, EINVAL), .limit = {"user_va_range", 0}, RUN(run_bind_past_range)},
    {"heap-129th", "one tiler heap more than a VM may have", CAUSE_KERNEL_CAP,
     FAILS(TILER_HEAP_CREATE, EBUSY), .limit = {"heaps", 128},
     .exact = {CALL_TILER_HEAP_CREATE, 129}, RUN(run_heap_129th)},
    {"group-129th", "one group more than a file may have", CAUSE_KERNEL_CAP,
     FAILS(GROUP_CREATE, EBUSY), .limit = {"groups", 128}, .exact = {CALL_GROUP_CREATE, 129},
     RUN(run_group_129th)},
    {"heap-chunk-size", "a tiler heap with chunks larger than 8 MiB", CAUSE_KERNEL_CAP,
     FAILS(TILER_HEAP_CREATE, EINVAL), .limit = {"heap_chunk_size", 8 * MIB},
     RUN(run_heap_chunk_size)},
    {"heap-max-chunks", "the firmware asks for a chunk beyond the heap's max_chunks",
     CAUSE_KERNEL_CAP, FAILS(HEAP_GROW, ENOMEM), .limit = {"heap_max_chunks", 4},
     .exact = {CALL_HEAP_GROW, 3}, .needs = NEED_INJECT, RUN(run_heap_max_chunks)},
    {"heap-in-flight",
     "the firmware asks for a chunk with more render passes in flight than agreed",
     CAUSE_KERNEL_CAP, FAILS(HEAP_GROW, ENOMEM), .limit = {"heap_target_in_flight", 16},
     .exact = {CALL_HEAP_GROW, 1}, .needs = NEED_INJECT, RUN(run_heap_in_flight)},
    {"kernel-va", "the kernel's part of the VA space is full of heap chunks", CAUSE_KERNEL_CAP,
     FAILS(TILER_HEAP_CREATE, ENOSPC), .limit = {"kernel_va_range", 256 * MIB}, RUN(run_kernel_va)},

    /* Memory. */
    {"bo-larger-than-memory", "a BO larger than the machine's memory", CAUSE_KERNEL_MEMORY,
     PAGES_RUN_OUT, .limit = {"memory", 0}, RUN(run_bo_larger_than_memory)},
    {"cgroup-bind", "a BO larger than the memory cgroup's limit, without the OOM killer",
     CAUSE_KERNEL_MEMORY, PAGES_RUN_OUT, .limit = {"memory.max", 64 * MIB},
     .needs = NEED_CGROUP | NEED_ROOT, RUN(run_cgroup_bind)},
    {"cgroup-heap", "a tiler heap larger than the memory cgroup's limit", CAUSE_KERNEL_MEMORY,
     FAILS(TILER_HEAP_CREATE, ENOMEM), .limit = {"memory.max", 64 * MIB},
     .needs = NEED_CGROUP | NEED_ROOT, RUN(run_cgroup_heap)},
    {"cgroup-oom-kill", "a child outgrows its memory cgroup and is killed", CAUSE_KERNEL_MEMORY,
     FAILS(OOM_KILL, ENOMEM), .limit = {"memory.max", 64 * MIB}, .needs = NEED_CGROUP | NEED_ROOT,
     RUN(run_cgroup_oom_kill)},

    /* Limits of the process. */
    {"mmap-map-count", "mapping a BO with vm.max_map_count mappings in use", CAUSE_PROCESS_LIMIT,
     FAILS(MMAP, ENOMEM), .limit = {"vm.max_map_count", 0}, RUN(run_mmap_map_count)},
    {"mmap-address-space", "mapping a BO beyond RLIMIT_AS", CAUSE_PROCESS_LIMIT,
     FAILS(MMAP, ENOMEM), .limit = {"RLIMIT_AS", 0}, RUN(run_mmap_address_space)},
    {"export-nofile", "exporting a BO with RLIMIT_NOFILE descriptors open", CAUSE_PROCESS_LIMIT,
     FAILS(PRIME_HANDLE_TO_FD, EMFILE), .limit = {"RLIMIT_NOFILE", 0}, RUN(run_export_nofile)},
    {"open-nofile", "opening the device with RLIMIT_NOFILE descriptors open", CAUSE_PROCESS_LIMIT,
     FAILS(OPEN, EMFILE), .limit = {"RLIMIT_NOFILE", 0}, RUN(run_open_nofile)},

    /* Requests the kernel rejects. */
    {"bo-flags", "BO_CREATE with a flag nobody knows", CAUSE_KERNEL_REJECTED,
     FAILS(BO_CREATE, EINVAL), RUN(run_bo_flags)},
    {"bo-size-zero", "BO_CREATE of no bytes", CAUSE_KERNEL_REJECTED, FAILS(BO_CREATE, EINVAL),
     RUN(run_bo_size_zero)},
    {"bo-mmap-refused", "mapping a BO made with NO_MMAP into the process", CAUSE_KERNEL_REJECTED,
     EITHER(OUTCOME("asking for the offset", (BO_MMAP_OFFSET, EPERM, 1)),
            OUTCOME("mapping it", (MMAP, EINVAL, 1))),
     RUN(run_bo_mmap_refused)},
    {"bo-export-exclusive", "exporting a BO that is exclusive to a VM", CAUSE_KERNEL_REJECTED,
     FAILS(PRIME_HANDLE_TO_FD, EINVAL), RUN(run_bo_export_exclusive)},
    {"bind-misaligned", "a bind at an address that is not page-aligned", CAUSE_KERNEL_REJECTED,
     FAILS(VM_BIND, EINVAL), RUN(run_bind_misaligned)},
    {"bind-exclusive", "binding a BO that is exclusive to another VM", CAUSE_KERNEL_REJECTED,
     FAILS(VM_BIND, EINVAL), RUN(run_bind_exclusive)},
    {"bind-closed-bo", "binding a handle that has been closed", CAUSE_KERNEL_REJECTED,
     FAILS(VM_BIND, EINVAL), RUN(run_bind_closed_bo)},
    {"bind-destroyed-vm", "binding into a VM that has been destroyed", CAUSE_KERNEL_REJECTED,
     FAILS(VM_BIND, EINVAL), RUN(run_bind_destroyed_vm)},
    {"bind-array-sync",
     "one of 96 operations of a synchronous bind is misaligned: its index comes back",
     CAUSE_KERNEL_REJECTED, FAILS(VM_BIND, EINVAL), RUN(run_bind_array_sync)},
    {"bind-array-async", "one of 96 operations of an asynchronous bind is misaligned",
     CAUSE_KERNEL_REJECTED, FAILS(VM_BIND, EINVAL), RUN(run_bind_array_async)},
    {"heap-initial", "a tiler heap with more initial chunks than its own max_chunks",
     CAUSE_KERNEL_REJECTED, FAILS(TILER_HEAP_CREATE, EINVAL), RUN(run_heap_initial)},
    {"group-core-mask", "a group on shader cores the GPU does not have", CAUSE_KERNEL_REJECTED,
     FAILS(GROUP_CREATE, EINVAL), RUN(run_group_core_mask)},
    {"group-ring-size", "a queue whose ring buffer's size is no power of two",
     CAUSE_KERNEL_REJECTED, FAILS(GROUP_CREATE, EINVAL), RUN(run_group_ring_size)},
    {"group-priority", "a high-priority group without CAP_SYS_NICE", CAUSE_KERNEL_REJECTED,
     FAILS(GROUP_CREATE, EACCES), RUN(run_group_priority)},
    {"submit-queue", "a job for a queue the group does not have", CAUSE_KERNEL_REJECTED,
     FAILS(GROUP_SUBMIT, EINVAL), RUN(run_submit_queue)},
    {"submit-alignment", "a job whose stream is not aligned to 64 bytes", CAUSE_KERNEL_REJECTED,
     FAILS(GROUP_SUBMIT, EINVAL), RUN(run_submit_alignment)},

    /* Several threads and processes. */
    {"processes-one-fails", "four processes at work, the third asks for one VM too many",
     CAUSE_KERNEL_CAP, FAILS(VM_CREATE, EBUSY), .limit = {"vms", 32}, RUN(run_processes_one_fails)},
    {"threads-one-fails", "four threads at work, the third binds past the VM's user range",
     CAUSE_KERNEL_CAP, FAILS(VM_BIND, EINVAL), .limit = {"user_va_range", 0},
     RUN(run_threads_one_fails)},
    {"child-fails", "a child process asks for one VM too many, its parent is well",
     CAUSE_KERNEL_CAP, FAILS(VM_CREATE, EBUSY), .limit = {"vms", 32}, RUN(run_child_fails)},

    /* Faults of the GPU. The device is lost in the last one, and probed anew after it. */
    /* Linux 6.12 puts a job in error only for a fault that it inherited (panthor_sched.c). */
    {"cs-fault", "an instruction of the job faults; the queue goes on", CAUSE_GPU_FAULT,
     EITHER(OUTCOME("the job is put in error", (JOB, EINVAL, 1)),
            {.when = "only the kernel log tells"}),
     .needs = NEED_INJECT, RUN(run_cs_fault)},
    {"cs-inherited-fault", "the job inherits the fault of an earlier one", CAUSE_GPU_FAULT,
     FAILS(JOB, EINVAL), .needs = NEED_INJECT, RUN(run_cs_inherited_fault)},
    {"cs-fatal", "the job's command stream stops for good", CAUSE_GPU_FAULT, FAILS(JOB, EINVAL),
     .needs = NEED_INJECT, RUN(run_cs_fatal)},
    {"submit-after-fatal", "a job for a group that a fatal fault has made unusable",
     CAUSE_GPU_FAULT, FAILS_THEN((JOB, EINVAL, 1), (GROUP_SUBMIT, EINVAL, 1)), .needs = NEED_INJECT,
     RUN(run_submit_after_fatal)},
    {"mmu-fault", "a page fault of the GPU: the group is lost, the VM is not", CAUSE_GPU_FAULT,
     FAILS_THEN((JOB, EINVAL, 1), (GROUP_SUBMIT, EINVAL, 1)), .needs = NEED_INJECT,
     RUN(run_mmu_fault)},
    {"job-hang", "a job that never ends: the driver gives it 5 s", CAUSE_GPU_FAULT,
     FAILS_THEN((JOB, ETIMEDOUT, 1), (GROUP_SUBMIT, EINVAL, 1)), .limit = {"job_timeout_ms", 5000},
     .needs = NEED_INJECT, RUN(run_job_hang)},
    {"progress-timeout", "the firmware's progress timer for the group runs out", CAUSE_GPU_FAULT,
     FAILS(JOB, ETIMEDOUT), .needs = NEED_INJECT, RUN(run_progress_timeout)},
    {"firmware-restarts", "the firmware stops answering; the driver resets the GPU and goes on",
     CAUSE_GPU_FAULT, FAILS(JOB, ETIMEDOUT), .needs = NEED_INJECT, RUN(run_firmware_restarts)},
    {"firmware-dead", "the firmware stops answering and does not boot again: the device is gone",
     CAUSE_GPU_FAULT, FAILS(BO_CREATE, ENODEV), .needs = NEED_INJECT | NEED_ROOT,
     RUN(run_firmware_dead)},
};

const unsigned int scenario_count = sizeof(scenarios) / sizeof(*scenarios);

static const char *const cause_names[CAUSE_COUNT] = {
    [CAUSE_CLEAN] = "clean",
    [CAUSE_RECOVERED] = "recovered",
    [CAUSE_KERNEL_CAP] = "kernel-cap",
    [CAUSE_KERNEL_MEMORY] = "kernel-memory",
    [CAUSE_KERNEL_REJECTED] = "kernel-rejected",
    [CAUSE_GPU_FAULT] = "gpu-fault",
    [CAUSE_PROCESS_LIMIT] = "process-limit",
    [CAUSE_DRIVER_VA] = "driver-va",
    [CAUSE_APPLICATION] = "application",
};

const char *cause_name(enum cause cause)
{
	return cause_names[cause];
}

bool scenario_aborts(const struct scenario *scenario)
{
	return scenario->cause != CAUSE_CLEAN && scenario->cause != CAUSE_RECOVERED;
}

bool scenario_is_logged(const struct scenario *scenario)
{
	return scenario->cause == CAUSE_GPU_FAULT;
}

const struct scenario *scenario_named(const char *name)
{
	for (unsigned int i = 0; i < scenario_count; i++)
		if (!strcmp(scenarios[i].name, name))
			return &scenarios[i];
	return NULL;
}
