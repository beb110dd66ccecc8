// SPDX-License-Identifier: MIT
/* Buffer objects, their mappings into VMs and into the process, and tiler heaps. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "gpu.h"
#include "ioctl.h"

/* panthor_drv.c, 7.3: "1.4 - adds DRM_IOCTL_PANTHOR_BO_SET_LABEL ioctl" */
#define BO_SET_LABEL_MINOR 4

int bo_create(const struct gpu *gpu, uint64_t size, uint32_t flags, uint32_t vm, uint32_t *handle)
{
	struct drm_panthor_bo_create create = {.size = size, .flags = flags, .exclusive_vm_id = vm};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_BO_CREATE, &create);

	*handle = result ? 0 : create.handle;
	return step(CALL_BO_CREATE, result, "size=%" PRIu64 " flags=0x%x vm=%u handle=%u", size,
	            flags, vm, *handle);
}

int bo_close(const struct gpu *gpu, uint32_t handle)
{
	struct drm_gem_close close = {.handle = handle};

	return step(CALL_GEM_CLOSE, drm_call(gpu->fd, DRM_IOCTL_GEM_CLOSE, &close), "handle=%u",
	            handle);
}

int bo_mmap_offset(const struct gpu *gpu, uint32_t handle, uint64_t *offset)
{
	struct drm_panthor_bo_mmap_offset request = {.handle = handle};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_BO_MMAP_OFFSET, &request);

	*offset = request.offset;
	return step(CALL_BO_MMAP_OFFSET, result, "handle=%u offset=0x%" PRIx64, handle, *offset);
}

int bo_mmap(const struct gpu *gpu, uint32_t handle, size_t size, void **address)
{
	uint64_t offset;
	int result = bo_mmap_offset(gpu, handle, &offset);

	*address = NULL;
	if (result)
		return result;
	*address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, gpu->fd, (off_t)offset);
	result = *address == MAP_FAILED ? -errno : 0;
	if (result)
		*address = NULL;
	return step(CALL_MMAP, result, "fd=%d offset=0x%" PRIx64 " size=%zu", gpu->fd, offset,
	            size);
}

int bo_munmap(void *address, size_t size)
{
	return step(CALL_MUNMAP, munmap(address, size) ? -errno : 0, "size=%zu", size);
}

int bo_export(const struct gpu *gpu, uint32_t handle, int *fd)
{
	struct drm_prime_handle export = {
	    .handle = handle,
	    .flags = DRM_CLOEXEC | DRM_RDWR,
	    .fd = -1,
	};
	int result = drm_call(gpu->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &export);

	*fd = export.fd;
	return step(CALL_PRIME_HANDLE_TO_FD, result, "handle=%u fd=%d", handle, export.fd);
}

void bo_label(const struct gpu *gpu, uint32_t handle, const char *label)
{
	struct drm_panthor_bo_set_label set = {.handle = handle, .label = (uintptr_t)label};

	/* Asking for what is not there would be a second thing that goes wrong. */
	if (gpu->uapi_minor >= BO_SET_LABEL_MINOR)
		step(CALL_BO_SET_LABEL, drm_call(gpu->fd, DRM_IOCTL_PANTHOR_BO_SET_LABEL, &set),
		     "handle=%u label=%s", handle, label);
}

int vm_bind(const struct gpu *gpu, uint32_t vm, uint32_t flags, struct drm_panthor_vm_bind_op *ops,
            uint32_t *count)
{
	struct drm_panthor_vm_bind bind = {
	    .vm_id = vm,
	    .flags = flags,
	    .ops = DRM_PANTHOR_OBJ_ARRAY(*count, ops),
	};
	uint32_t asked = *count;
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_VM_BIND, &bind);

	*count = bind.ops.count;
	return step(CALL_VM_BIND, result,
	            "vm=%u%s ops=%u%s bo=%u va=0x%" PRIx64 " size=%" PRIu64 " count back=%u", vm,
	            flags & DRM_PANTHOR_VM_BIND_ASYNC ? " async" : "", asked,
	            ops[0].flags & DRM_PANTHOR_VM_BIND_OP_TYPE_UNMAP ? " unmap" : "",
	            ops[0].bo_handle, (uint64_t)ops[0].va, (uint64_t)ops[0].size, *count);
}

int vm_map(const struct gpu *gpu, uint32_t vm, uint32_t handle, uint64_t va, uint64_t size)
{
	struct drm_panthor_vm_bind_op op = {
	    .flags = DRM_PANTHOR_VM_BIND_OP_TYPE_MAP,
	    .bo_handle = handle,
	    .va = va,
	    .size = size,
	};
	uint32_t count = 1;

	return vm_bind(gpu, vm, 0, &op, &count);
}

int vm_unmap(const struct gpu *gpu, uint32_t vm, uint64_t va, uint64_t size)
{
	struct drm_panthor_vm_bind_op op = {
	    .flags = DRM_PANTHOR_VM_BIND_OP_TYPE_UNMAP,
	    .va = va,
	    .size = size,
	};
	uint32_t count = 1;

	return vm_bind(gpu, vm, 0, &op, &count);
}

int heap_create(const struct gpu *gpu, uint32_t vm, uint32_t initial, uint32_t chunk_size,
                uint32_t max_chunks, uint32_t *handle, uint64_t *context_va)
{
	struct drm_panthor_tiler_heap_create create = {
	    .vm_id = vm,
	    .initial_chunk_count = initial,
	    .chunk_size = chunk_size,
	    .max_chunks = max_chunks,
	    .target_in_flight = HEAP_TARGET_IN_FLIGHT,
	};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_TILER_HEAP_CREATE, &create);

	*handle = result ? 0 : create.handle;
	if (context_va)
		*context_va = create.tiler_heap_ctx_gpu_va;
	return step(CALL_TILER_HEAP_CREATE, result,
	            "vm=%u initial=%u chunk=%u max_chunks=%u handle=0x%x", vm, initial, chunk_size,
	            max_chunks, *handle);
}

int heap_destroy(const struct gpu *gpu, uint32_t handle)
{
	struct drm_panthor_tiler_heap_destroy destroy = {.handle = handle};

	return step(CALL_TILER_HEAP_DESTROY,
	            drm_call(gpu->fd, DRM_IOCTL_PANTHOR_TILER_HEAP_DESTROY, &destroy),
	            "handle=0x%x", handle);
}
