// SPDX-License-Identifier: MIT
/* The device and its VMs, groups and syncobjs; buffers are in bo.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sync_file.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "ioctl.h"

#define FIRST_RENDER_NODE 128
#define LAST_RENDER_NODE  191

const char *gpu_device;

int drm_call(int fd, unsigned long request, void *argument)
{
	int result;

	/* As libdrm does: a signal is no answer. */
	do
		result = ioctl(fd, request, argument);
	while (result < 0 && (errno == EINTR || errno == EAGAIN));
	return result < 0 ? -errno : 0;
}

static int ask_version(int fd, int *minor)
{
	char name[16] = "";
	struct drm_version version = {.name = name, .name_len = sizeof(name) - 1};
	int result = drm_call(fd, DRM_IOCTL_VERSION, &version);

	*minor = version.version_minor;
	return result ? result : strcmp(name, "panthor") ? -ENODEV : 0;
}

/* Open one node; -ENODEV, and no step, if it is another driver's. */
static int open_node(struct gpu *gpu, const char *path)
{
	int result;

	gpu->fd = open(path, O_RDWR | O_CLOEXEC);
	if (gpu->fd < 0)
		return gpu_device ? step(CALL_OPEN, -errno, "%s", path) : -ENODEV;
	result = ask_version(gpu->fd, &gpu->uapi_minor);
	if (result == -ENODEV) {
		gpu_close(gpu);
		return result;
	}
	step(CALL_OPEN, 0, "%s", path);
	return step(CALL_VERSION, result, "panthor 1.%d", gpu->uapi_minor);
}

static int open_device(struct gpu *gpu)
{
	static char path[32];

	if (gpu_device)
		return open_node(gpu, gpu_device);
	for (int node = FIRST_RENDER_NODE; node <= LAST_RENDER_NODE; node++) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", node);
		if (open_node(gpu, path) != -ENODEV) {
			gpu_device = path;
			return 0;
		}
	}
	return -ENODEV;
}

int gpu_open(struct gpu *gpu)
{
	struct drm_panthor_gpu_info info = {0};
	struct drm_panthor_dev_query query = {
	    .type = DRM_PANTHOR_DEV_QUERY_GPU_INFO,
	    .size = sizeof(info),
	    .pointer = (uintptr_t)&info,
	};
	int result;

	gpu->fd = -1;
	result = open_device(gpu);
	if (result == -ENODEV)
		not_possible("no panthor render node in /dev/dri that may be opened");
	if (result)
		return result;
	result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_DEV_QUERY, &query);
	step(CALL_DEV_QUERY, result, "GPU_INFO gpu_id=0x%x shader_present=0x%" PRIx64, info.gpu_id,
	     (uint64_t)info.shader_present);
	if (result) {
		gpu_close(gpu);
		return result;
	}
	gpu->shader_present = info.shader_present;
	gpu->tiler_present = info.tiler_present;
	gpu->va_bits = DRM_PANTHOR_MMU_VA_BITS(info.mmu_features);
	return 0;
}

void gpu_close(struct gpu *gpu)
{
	if (gpu->fd >= 0)
		close(gpu->fd);
	gpu->fd = -1;
}

bool gpu_alive(void)
{
	return !access(gpu_device, F_OK);
}

int vm_create(const struct gpu *gpu, uint64_t user_va_range, uint32_t *vm, uint64_t *got_range)
{
	struct drm_panthor_vm_create create = {.user_va_range = user_va_range};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_VM_CREATE, &create);

	*vm = result ? 0 : create.id;
	if (got_range)
		*got_range = create.user_va_range;
	return step(CALL_VM_CREATE, result, "user_va_range=0x%" PRIx64 " id=%u", user_va_range,
	            *vm);
}

int vm_destroy(const struct gpu *gpu, uint32_t vm)
{
	struct drm_panthor_vm_destroy destroy = {.id = vm};

	return step(CALL_VM_DESTROY, drm_call(gpu->fd, DRM_IOCTL_PANTHOR_VM_DESTROY, &destroy),
	            "id=%u", vm);
}

int vm_state(const struct gpu *gpu, uint32_t vm, uint32_t *state)
{
	struct drm_panthor_vm_get_state get = {.vm_id = vm};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_VM_GET_STATE, &get);

	*state = get.state;
	return step(CALL_VM_GET_STATE, result, "id=%u state=%u", vm, get.state);
}

struct group_request *group_request(struct group_request *request, const struct gpu *gpu,
                                    uint32_t vm, uint32_t queue_count)
{
	memset(request, 0, sizeof(*request));
	for (uint32_t i = 0; i < queue_count; i++) {
		request->queues[i].priority = 1;
		request->queues[i].ringbuf_size = 64 * KIB;
	}
	request->create = (struct drm_panthor_group_create){
	    .queues = DRM_PANTHOR_OBJ_ARRAY(queue_count, request->queues),
	    .max_compute_cores = (uint8_t)__builtin_popcountll(gpu->shader_present),
	    .max_fragment_cores = (uint8_t)__builtin_popcountll(gpu->shader_present),
	    .max_tiler_cores = 1,
	    .priority = PANTHOR_GROUP_PRIORITY_MEDIUM,
	    .compute_core_mask = gpu->shader_present,
	    .fragment_core_mask = gpu->shader_present,
	    .tiler_core_mask = gpu->tiler_present,
	    .vm_id = vm,
	};
	return request;
}

int group_create(const struct gpu *gpu, struct group_request *request, uint32_t *group)
{
	struct drm_panthor_group_create *create = &request->create;
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_GROUP_CREATE, create);

	*group = result ? 0 : create->group_handle;
	return step(CALL_GROUP_CREATE, result,
	            "vm=%u queues=%u ring=%u priority=%u compute_core_mask=0x%" PRIx64 " handle=%u",
	            create->vm_id, create->queues.count, request->queues[0].ringbuf_size,
	            create->priority, (uint64_t)create->compute_core_mask, *group);
}

int group_destroy(const struct gpu *gpu, uint32_t group)
{
	struct drm_panthor_group_destroy destroy = {.group_handle = group};

	return step(CALL_GROUP_DESTROY,
	            drm_call(gpu->fd, DRM_IOCTL_PANTHOR_GROUP_DESTROY, &destroy), "handle=%u",
	            group);
}

int group_state(const struct gpu *gpu, uint32_t group, uint32_t *state)
{
	struct drm_panthor_group_get_state get = {.group_handle = group};
	int result = drm_call(gpu->fd, DRM_IOCTL_PANTHOR_GROUP_GET_STATE, &get);

	*state = get.state;
	return step(CALL_GROUP_GET_STATE, result, "handle=%u state=0x%x fatal_queues=0x%x", group,
	            get.state, get.fatal_queues);
}

int group_submit(const struct gpu *gpu, uint32_t group, uint32_t queue, uint64_t stream_va,
                 uint32_t stream_size, uint32_t syncobj)
{
	struct drm_panthor_sync_op sync = {
	    .flags = (uint32_t)DRM_PANTHOR_SYNC_OP_SIGNAL | DRM_PANTHOR_SYNC_OP_HANDLE_TYPE_SYNCOBJ,
	    .handle = syncobj,
	};
	struct drm_panthor_queue_submit job = {
	    .queue_index = queue,
	    .stream_size = stream_size,
	    .stream_addr = stream_va,
	    .syncs = DRM_PANTHOR_OBJ_ARRAY(syncobj ? 1 : 0, &sync),
	};
	struct drm_panthor_group_submit submit = {
	    .group_handle = group,
	    .queue_submits = DRM_PANTHOR_OBJ_ARRAY(1, &job),
	};

	return step(CALL_GROUP_SUBMIT, drm_call(gpu->fd, DRM_IOCTL_PANTHOR_GROUP_SUBMIT, &submit),
	            "handle=%u queue=%u stream=0x%" PRIx64 "+%u", group, queue, stream_va,
	            stream_size);
}

int syncobj_create(const struct gpu *gpu, uint32_t *handle)
{
	struct drm_syncobj_create create = {0};
	int result = drm_call(gpu->fd, DRM_IOCTL_SYNCOBJ_CREATE, &create);

	*handle = create.handle;
	return step(CALL_SYNCOBJ_CREATE, result, "handle=%u", create.handle);
}

int syncobj_destroy(const struct gpu *gpu, uint32_t handle)
{
	struct drm_syncobj_destroy destroy = {.handle = handle};

	return step(CALL_SYNCOBJ_DESTROY, drm_call(gpu->fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy),
	            "handle=%u", handle);
}

int syncobj_wait(const struct gpu *gpu, uint32_t handle, unsigned int milliseconds)
{
	struct drm_syncobj_wait wait = {
	    .handles = (uintptr_t)&handle,
	    .count_handles = 1,
	    .flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	wait.timeout_nsec =
	    (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + milliseconds * 1000000ll;
	return step(CALL_SYNCOBJ_WAIT, drm_call(gpu->fd, DRM_IOCTL_SYNCOBJ_WAIT, &wait),
	            "handle=%u %u ms", handle, milliseconds);
}

int job_result(const struct gpu *gpu, uint32_t syncobj)
{
	struct drm_syncobj_handle export = {
	    .handle = syncobj,
	    .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
	    .fd = -1,
	};
	struct sync_file_info info = {0};
	int result = drm_call(gpu->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &export);

	/* SYNCOBJ_WAIT says 0 also for a fence in error; only a sync file tells the two apart. */
	step(CALL_SYNCOBJ_HANDLE_TO_FD, result, "handle=%u EXPORT_SYNC_FILE", syncobj);
	if (result)
		return result;
	result = drm_call(export.fd, SYNC_IOC_FILE_INFO, &info);
	close(export.fd);
	if (!expect(!result, "SYNC_IOC_FILE_INFO: %s", error_name(-result)))
		return result;
	return step(CALL_JOB, info.status < 0 ? info.status : 0, "status=%d", info.status);
}
