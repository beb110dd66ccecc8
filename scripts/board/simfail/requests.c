// SPDX-License-Identifier: MIT
/* Requests the kernel rejects for what they say, not for a limit or for want of memory. */
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "groups.h"
#include "work.h"

#define UNKNOWN_BO_FLAG 0x80u
#define FAILING_OP      7u
#define ASYNC_OPS       96u

/* A device with one VM, the least most requests need. */
static bool open_with_vm(struct gpu *gpu, uint32_t *vm)
{
	return !gpu_open(gpu) && !vm_create(gpu, 0, vm, NULL);
}

void run_bo_flags(void)
{
	struct gpu gpu;
	uint32_t bo;

	if (!gpu_open(&gpu))
		bo_create(&gpu, 64 * KIB, UNKNOWN_BO_FLAG, 0, &bo);
	gpu_close(&gpu);
}

void run_bo_size_zero(void)
{
	struct gpu gpu;
	uint32_t bo;

	if (!gpu_open(&gpu))
		bo_create(&gpu, 0, 0, 0, &bo);
	gpu_close(&gpu);
}

void run_bo_mmap_refused(void)
{
	struct gpu gpu;
	uint32_t bo;
	void *address;

	if (!gpu_open(&gpu) && !bo_create(&gpu, 64 * KIB, DRM_PANTHOR_BO_NO_MMAP, 0, &bo))
		bo_mmap(&gpu, bo, 64 * KIB, &address);
	gpu_close(&gpu);
}

void run_bo_export_exclusive(void)
{
	struct gpu gpu;
	uint32_t vm, bo;
	int fd;

	if (open_with_vm(&gpu, &vm) && !bo_create(&gpu, 64 * KIB, 0, vm, &bo))
		bo_export(&gpu, bo, &fd);
	gpu_close(&gpu);
}

void run_bind_misaligned(void)
{
	struct gpu gpu;
	uint32_t vm, bo;

	if (open_with_vm(&gpu, &vm) && !bo_create(&gpu, 64 * KIB, 0, vm, &bo))
		vm_map(&gpu, vm, bo, BASE_VA + 0x123, 64 * KIB);
	gpu_close(&gpu);
}

void run_bind_exclusive(void)
{
	struct gpu gpu;
	uint32_t owner, other, bo;

	if (open_with_vm(&gpu, &owner) && !vm_create(&gpu, 0, &other, NULL) &&
	    !bo_create(&gpu, 64 * KIB, 0, owner, &bo))
		vm_map(&gpu, other, bo, BASE_VA, 64 * KIB);
	gpu_close(&gpu);
}

void run_bind_closed_bo(void)
{
	struct gpu gpu;
	uint32_t vm, bo;

	if (open_with_vm(&gpu, &vm) && !bo_create(&gpu, 64 * KIB, 0, vm, &bo) &&
	    !bo_close(&gpu, bo))
		vm_map(&gpu, vm, bo, BASE_VA, 64 * KIB);
	gpu_close(&gpu);
}

void run_bind_destroyed_vm(void)
{
	struct gpu gpu;
	uint32_t vm, bo;

	if (open_with_vm(&gpu, &vm) && !bo_create(&gpu, 64 * KIB, 0, 0, &bo) &&
	    !vm_destroy(&gpu, vm))
		vm_map(&gpu, vm, bo, BASE_VA, 64 * KIB);
	gpu_close(&gpu);
}

/* Operations that map one BO page after page, of which one asks for an unaligned address. */
static void bind_array(uint32_t flags, uint32_t count, uint32_t expected_count)
{
	struct drm_panthor_vm_bind_op ops[ASYNC_OPS];
	struct gpu gpu;
	uint32_t vm, bo, state, failing = count - FAILING_OP;

	memset(ops, 0, sizeof(ops));
	if (open_with_vm(&gpu, &vm) && !bo_create(&gpu, 64 * KIB, 0, vm, &bo)) {
		for (uint32_t i = 0; i < count; i++) {
			ops[i].bo_handle = bo;
			ops[i].va = BASE_VA + i * 4 * KIB + (i == failing ? 8 : 0);
			ops[i].size = 4 * KIB;
		}
		vm_bind(&gpu, vm, flags, ops, &count);
		expect(count == expected_count, "ops.count came back as %u, not %u", count,
		       expected_count);
		/* A rejected array leaves the VM usable, in either mode. */
		if (!vm_state(&gpu, vm, &state))
			expect(state == DRM_PANTHOR_VM_STATE_USABLE, "the VM is unusable");
	}
	gpu_close(&gpu);
}

void run_bind_array_sync(void)
{
	/* Synchronous: those before it are done, and the failing one's index comes back. */
	bind_array(0, ASYNC_OPS, ASYNC_OPS - FAILING_OP);
}

void run_bind_array_async(void)
{
	/* Asynchronous: all or nothing, and nobody says which. */
	bind_array(DRM_PANTHOR_VM_BIND_ASYNC, ASYNC_OPS, ASYNC_OPS);
}

void run_heap_initial(void)
{
	struct gpu gpu;
	uint32_t vm, heap;

	if (open_with_vm(&gpu, &vm))
		heap_create(&gpu, vm, 5, 2 * MIB, 4, &heap, NULL);
	gpu_close(&gpu);
}

void run_group_core_mask(void)
{
	struct group_request request;
	struct gpu gpu;
	uint32_t vm, group;

	if (open_with_vm(&gpu, &vm)) {
		group_request(&request, &gpu, vm, 1);
		request.create.compute_core_mask |= ~gpu.shader_present;
		group_create(&gpu, &request, &group);
	}
	gpu_close(&gpu);
}

void run_group_ring_size(void)
{
	struct group_request request;
	struct gpu gpu;
	uint32_t vm, group;

	if (open_with_vm(&gpu, &vm)) {
		group_request(&request, &gpu, vm, 1);
		request.queues[0].ringbuf_size = 12345;
		group_create(&gpu, &request, &group);
	}
	gpu_close(&gpu);
}

/* Take CAP_SYS_NICE from the effective set, or give it back: the one thing that makes root differ.
 */
static bool may_nice(bool may)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
	struct __user_cap_data_struct *set = &sets[CAP_TO_INDEX(CAP_SYS_NICE)];

	if (syscall(SYS_capget, &header, sets))
		return false;
	if (may && set->permitted & CAP_TO_MASK(CAP_SYS_NICE))
		set->effective |= CAP_TO_MASK(CAP_SYS_NICE);
	else if (!may)
		set->effective &= ~CAP_TO_MASK(CAP_SYS_NICE);
	return !syscall(SYS_capset, &header, sets);
}

void run_group_priority(void)
{
	struct group_request request;
	struct gpu gpu;
	uint32_t vm, group;

	if (open_with_vm(&gpu, &vm)) {
		group_request(&request, &gpu, vm, 1);
		request.create.priority = PANTHOR_GROUP_PRIORITY_HIGH;
		if (expect(may_nice(false), "CAP_SYS_NICE cannot be given up"))
			group_create(&gpu, &request, &group);
		may_nice(true);
	}
	gpu_close(&gpu);
}

void run_submit_queue(void)
{
	struct work work;

	if (work_begin(&work, 1))
		group_submit(&work.gpu, work.group, 5, BASE_VA, STREAM_STRIDE, 0);
	work_end(&work);
}

void run_submit_alignment(void)
{
	struct work work;

	if (work_begin(&work, 1))
		group_submit(&work.gpu, work.group, 0, BASE_VA + 8, STREAM_STRIDE, 0);
	work_end(&work);
}
