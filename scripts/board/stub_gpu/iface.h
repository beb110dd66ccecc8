/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The firmware interface's input and output blocks, by panthor's field names, and their bits.
 *
 * Source: drivers/gpu/drm/panthor/panthor_fw.h (Linux 6.12 to 7.3). The driver writes *_input and
 * reads *_output. A request is a bit of input.req that differs from output.ack, and is answered by
 * making them equal; an event of the firmware is the same thing the other way round.
 *
 * Where these blocks lie is fw_layout.h, written by board/firmware.py, which also fills the control
 * blocks that tell the driver.
 */
#ifndef STUB_GPU_IFACE_H
#define STUB_GPU_IFACE_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

struct glb_input {
	u32 req;
	u32 ack_irq_mask;
	u32 doorbell_req;
};

struct glb_output {
	u32 ack;
	u32 reserved1;
	u32 doorbell_ack;
	u32 reserved2;
	u32 halt_status;
};

#define GLB_HALT BIT(0)
/* Requests answered by acknowledging them: everything up to GLB_IDLE_EN but GLB_HALT */
#define GLB_ACKED GENMASK(10, 1)

struct csg_input {
	u32 req;
	u32 ack_irq_mask;
	u32 doorbell_req;
	u32 cs_irq_ack;
	u32 reserved1[4];
	u64 allow_compute;
	u64 allow_fragment;
	u32 allow_other;
	u32 endpoint_req;
	u32 reserved2[2];
	u64 suspend_buf;
	u64 protm_suspend_buf;
	u32 config;
};

struct csg_output {
	u32 ack;
	u32 reserved1;
	u32 doorbell_ack;
	u32 cs_irq_req;
	u32 status_endpoint_current;
	u32 status_endpoint_req;
	u32 status_state;
	u32 resource_dep;
};

#define CSG_STATE_MASK           GENMASK(2, 0)
#define CSG_STATE_TERMINATE      0
#define CSG_STATE_START          1
#define CSG_STATE_SUSPEND        2
#define CSG_STATE_RESUME         3
#define CSG_STATES               4
#define CSG_ENDPOINT_CONFIG      BIT(4)
#define CSG_STATUS_UPDATE        BIT(5)
#define CSG_REQ_MASK             (CSG_STATE_MASK | CSG_ENDPOINT_CONFIG | CSG_STATUS_UPDATE)
#define CSG_SYNC_UPDATE          BIT(28)
#define CSG_IDLE                 BIT(29)
#define CSG_PROGRESS_TIMER_EVENT BIT(31)
#define CSG_EVT_MASK             (CSG_SYNC_UPDATE | CSG_IDLE | CSG_PROGRESS_TIMER_EVENT)
#define CSG_STATUS_STATE_IS_IDLE BIT(0)
#define CSG_CONFIG_AS(config)    ((config) & 0xf)

struct cs_input {
	u32 req;
	u32 config;
	u32 reserved1;
	u32 ack_irq_mask;
	u64 ringbuf_base;
	u32 ringbuf_size;
	u32 reserved2;
	u64 heap_start;
	u64 heap_end;
	u64 ringbuf_input;
	u64 ringbuf_output;
};

struct cs_output {
	u32 ack;
	u32 reserved1[15];
	u64 status_cmd_ptr;
	u32 status_wait;
	u32 status_req_resource;
	u64 status_wait_sync_ptr;
	u32 status_wait_sync_value;
	u32 status_scoreboards;
	u32 status_blocked_reason;
	u32 status_wait_sync_value_hi;
	u32 reserved2[6];
	u32 fault;
	u32 fatal;
	u64 fault_info;
	u64 fatal_info;
	u32 reserved3[10];
	u32 heap_vt_start;
	u32 heap_vt_end;
	u32 reserved4;
	u32 heap_frag_end;
	u64 heap_address;
};

#define CS_STATE_MASK  GENMASK(2, 0)
#define CS_STATE_START 1
#define CS_REQ_MASK    (CS_STATE_MASK | BIT(4) | GENMASK(11, 8))
#define CS_TILER_OOM   BIT(26)
#define CS_FATAL       BIT(30)
#define CS_FAULT       BIT(31)
#define CS_EVT_MASK    (CS_TILER_OOM | BIT(27) | CS_FATAL | CS_FAULT)

/* A ring buffer's own pages: what the driver inserted, what the firmware extracted (bytes) */
struct ringbuf_input {
	u64 insert;
	u64 extract;
};

struct ringbuf_output {
	u64 extract;
	u32 active;
};

static_assert(offsetof(struct csg_input, suspend_buf) == 0x40);
static_assert(offsetof(struct csg_input, config) == 0x50);
static_assert(offsetof(struct csg_output, status_state) == 0x18);
static_assert(offsetof(struct cs_input, ringbuf_output) == 0x38);
static_assert(offsetof(struct cs_output, status_blocked_reason) == 0x60);
static_assert(offsetof(struct cs_output, fault) == 0x80);
static_assert(offsetof(struct cs_output, heap_vt_start) == 0xc0);
static_assert(offsetof(struct cs_output, heap_address) == 0xd0);

#endif
