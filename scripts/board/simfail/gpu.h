/* SPDX-License-Identifier: MIT */
/* panthor's ioctls, each a logged step. All return 0 or -errno. */
#ifndef SIMFAIL_GPU_H
#define SIMFAIL_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <drm/panthor_drm.h>

#include "step.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* Where scenarios map things: anything above 4 GiB and below every user VA limit. */
#define BASE_VA 0x100000000ull

struct gpu {
	int fd;
	uint64_t shader_present;
	uint64_t tiler_present;
	unsigned int va_bits;
	int uapi_minor; /* 1.0 in 6.12; panthor_drv.c says what came with each */
};

/* The render node to use; NULL finds panthor's by asking each (--device sets it). */
extern const char *gpu_device;

/* Open the node and ask for GPU_INFO. -ENODEV: there is no panthor node (and not_possible() said
 * so). */
int gpu_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);
/* Whether the driver has not given the device up: then the node goes. */
bool gpu_alive(void);

int vm_create(const struct gpu *gpu, uint64_t user_va_range, uint32_t *vm, uint64_t *got_range);
int vm_destroy(const struct gpu *gpu, uint32_t vm);
int vm_state(const struct gpu *gpu, uint32_t vm, uint32_t *state);

int bo_create(const struct gpu *gpu, uint64_t size, uint32_t flags, uint32_t vm, uint32_t *handle);
int bo_close(const struct gpu *gpu, uint32_t handle);
int bo_mmap_offset(const struct gpu *gpu, uint32_t handle, uint64_t *offset);
int bo_mmap(const struct gpu *gpu, uint32_t handle, size_t size, void **address);
int bo_munmap(void *address, size_t size);
int bo_export(const struct gpu *gpu, uint32_t handle, int *fd);
/* Since uAPI 1.4 (6.16); nothing is called where the driver says that it is older. */
void bo_label(const struct gpu *gpu, uint32_t handle, const char *label);

int vm_map(const struct gpu *gpu, uint32_t vm, uint32_t handle, uint64_t va, uint64_t size);
int vm_unmap(const struct gpu *gpu, uint32_t vm, uint64_t va, uint64_t size);
/* The ioctl itself. `count` is read back: the index of the failing operation in synchronous mode.
 */
int vm_bind(const struct gpu *gpu, uint32_t vm, uint32_t flags, struct drm_panthor_vm_bind_op *ops,
            uint32_t *count);

int heap_create(const struct gpu *gpu, uint32_t vm, uint32_t initial, uint32_t chunk_size,
                uint32_t max_chunks, uint32_t *handle, uint64_t *context_va);
/* Render passes in flight at which the driver gives no more chunks (target_in_flight). */
#define HEAP_TARGET_IN_FLIGHT 16u
int heap_destroy(const struct gpu *gpu, uint32_t handle);

/* A request for a group like panvk's: every core, one or more queues, medium priority. */
struct group_request {
	struct drm_panthor_queue_create queues[4];
	struct drm_panthor_group_create create;
};
struct group_request *group_request(struct group_request *request, const struct gpu *gpu,
                                    uint32_t vm, uint32_t queue_count);
int group_create(const struct gpu *gpu, struct group_request *request, uint32_t *group);
int group_destroy(const struct gpu *gpu, uint32_t group);
int group_state(const struct gpu *gpu, uint32_t group, uint32_t *state);
/* Submit `stream_size` bytes of commands; `syncobj` (0: none) signals when they are done. */
int group_submit(const struct gpu *gpu, uint32_t group, uint32_t queue, uint64_t stream_va,
                 uint32_t stream_size, uint32_t syncobj);

int syncobj_create(const struct gpu *gpu, uint32_t *handle);
int syncobj_destroy(const struct gpu *gpu, uint32_t handle);
int syncobj_wait(const struct gpu *gpu, uint32_t handle, unsigned int milliseconds);
/* The error the fence in the syncobj signalled with: 0 or -errno, counted as the call "job". */
int job_result(const struct gpu *gpu, uint32_t syncobj);

#endif
