// SPDX-License-Identifier: GPL-2.0-only
/* The faults, by name: what each one puts into the interface, and what it stops. */
#include <linux/kernel.h>
#include <linux/string.h>

#include "inject.h"

/* The heap the stream itself set; else one its group set; else one set in the same address space.
 */
static u64 known_heap(unsigned int g, unsigned int q)
{
	u32 as = CSG_CONFIG_AS(csg_in(g)->config);
	unsigned int i, j;

	if (stub.csg[g].cs[q].heap)
		return stub.csg[g].cs[q].heap;
	for (j = 0; j < FW_CS_COUNT; j++)
		if (stub.csg[g].cs[j].heap)
			return stub.csg[g].cs[j].heap;
	for (i = 0; i < FW_CSG_COUNT; i++) {
		if (!csg_running(i) || CSG_CONFIG_AS(csg_in(i)->config) != as)
			continue;
		for (j = 0; j < FW_CS_COUNT; j++)
			if (stub.csg[i].cs[j].heap)
				return stub.csg[i].cs[j].heap;
	}
	return 0;
}

static int fire_tiler_oom(const struct args *args, unsigned int g, unsigned int q)
{
	struct cs_context *cs = &stub.csg[g].cs[q];

	cs->oom_heap = arg(args, ARG_HEAP, known_heap(g, q));
	cs->oom_passes = arg(args, ARG_PASSES, 1);
	if (!cs->oom_heap)
		return -ENOENT;
	if (!cs->oom_passes)
		return -EINVAL;
	cs->oom_pending = 1;
	stub.count.tiler_oom_events++;
	cs_tiler_oom(g, q);
	return 0;
}

/* Codes: enum drm_panthor_exception_type, panthor_device.h */
#define EXCEPTION_CS_INVALID_INSTRUCTION 0x49
#define EXCEPTION_DATA_INVALID_FAULT     0x58
/* TRANSLATION_FAULT at level 3, a read */
#define FAULTSTATUS_TRANSLATION_READ 0x2c3

static int fire_cs_fault(const struct args *args, unsigned int g, unsigned int q)
{
	WRITE_ONCE(cs_out(g, q)->fault, arg(args, ARG_CODE, EXCEPTION_DATA_INVALID_FAULT));
	WRITE_ONCE(cs_out(g, q)->fault_info, arg(args, ARG_ADDR, 0));
	stub.csg[g].cs[q].faulted = 1;
	cs_event(g, q, CS_FAULT);
	return 0;
}

static int fire_cs_fatal(const struct args *args, unsigned int g, unsigned int q)
{
	WRITE_ONCE(cs_out(g, q)->fatal, arg(args, ARG_CODE, EXCEPTION_CS_INVALID_INSTRUCTION));
	WRITE_ONCE(cs_out(g, q)->fatal_info, arg(args, ARG_ADDR, 0));
	stub.csg[g].cs[q].fatal = 1;
	cs_event(g, q, CS_FATAL);
	return 0;
}

static int fire_mmu_fault(const struct args *args, unsigned int g, unsigned int q)
{
	/* The stream cannot go on after a failed access. */
	stub.csg[g].cs[q].fatal = 1;
	mmu_fault(CSG_CONFIG_AS(csg_in(g)->config), arg(args, ARG_ADDR, 0xdead000),
	          arg(args, ARG_CODE, FAULTSTATUS_TRANSLATION_READ));
	return 0;
}

static int fire_hang(const struct args *args, unsigned int g, unsigned int q)
{
	stub.csg[g].cs[q].hung = 1;
	return 0;
}

static int fire_progress_timeout(const struct args *args, unsigned int g, unsigned int q)
{
	csg_event(g, CSG_PROGRESS_TIMER_EVENT);
	return 0;
}

static int fire_mcu_dead(const struct args *args, unsigned int g, unsigned int q)
{
	stub.mcu_dead = true;
	stub.mcu_dead_until_boot = arg(args, ARG_RECOVER, 0);
	return 0;
}

static int fire_hold(const struct args *args, unsigned int g, unsigned int q)
{
	stub.hold = true;
	return 0;
}

static int fire_release(const struct args *args, unsigned int g, unsigned int q)
{
	stub.hold = false;
	return 0;
}

static int fire_clear(const struct args *args, unsigned int g, unsigned int q)
{
	unsigned int i, j;

	inject_disarm_all();
	stub.hold = false;
	stub.mcu_dead = false;
	for (i = 0; i < FW_CSG_COUNT; i++)
		for (j = 0; j < FW_CS_COUNT; j++)
			stub.csg[i].cs[j].hung = 0;
	return 0;
}

const struct fault faults[] = {
    {"tiler-oom", "the tiler wants a heap chunk: panthor_heap_grow (heap=VA passes=N)",
     fire_tiler_oom, BIT(ARG_HEAP) | BIT(ARG_PASSES), true},
    {"cs-fault", "CS_FAULT, the stream goes on (code=0x58 addr=INFO)", fire_cs_fault,
     BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"cs-fatal", "CS_FATAL, the stream stops, the group is lost (code=0x49 addr=INFO)",
     fire_cs_fatal, BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"mmu-fault", "page fault in the group's address space (addr=VA code=FAULTSTATUS)",
     fire_mmu_fault, BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"hang", "the next job never ends: the driver's 5 s job timeout", fire_hang, 0, true, true},
    {"progress-timeout", "CSG_PROGRESS_TIMER_EVENT: the group made no progress",
     fire_progress_timeout, 0, true},
    {"mcu-dead",
     "the firmware answers nothing, boots neither (recover=1: boots again after a reset)",
     fire_mcu_dead, BIT(ARG_RECOVER)},
    {"hold", "leave jobs in their rings, so that groups stay resident", fire_hold},
    {"release", "end hold and run what was held", fire_release},
    {"clear", "disarm everything, end hold, hang and mcu-dead", fire_clear},
};

const unsigned int fault_count = ARRAY_SIZE(faults);
