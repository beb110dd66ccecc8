// SPDX-License-Identifier: GPL-2.0-only
/* The microcontroller: boot, halt, and the global firmware interface. */
#include <linux/printk.h>

#include "stub.h"

/* A block of the shared section. No block of ours crosses a page: board/firmware.py sees to it. */
void *mcu_shared(u32 offset)
{
	return stub.shared[offset / SZ_4K] + offset % SZ_4K;
}

/*
 * Find the shared section through the MCU's own address space (always 0), as the firmware would,
 * because the driver tells nobody where its pages are.
 */
static bool map_shared(void)
{
	u32 page;

	for (page = 0; page < ARRAY_SIZE(stub.shared); page++) {
		stub.shared[page] = mmu_translate(0, FW_SHARED_VA + page * SZ_4K);
		if (!stub.shared[page])
			return false;
	}
	return true;
}

static void boot(void)
{
	if (!map_shared()) {
		/* From the timer, and the serial console is slow: once is enough. */
		pr_warn_once("stub_gpu: the firmware's shared section is not mapped in AS 0\n");
		stub.count.boot_failures++;
		reg_write(MCU_STATUS, MCU_STATUS_FATAL);
		return;
	}
	csg_reset();
	stub.count.boots++;
	stub.mcu_on = true;
	reg_write(MCU_STATUS, MCU_STATUS_ENABLED);
	irq_raise(IRQ_JOB, JOB_INT_GLOBAL_IF);
}

/* MCU_CONTROL as snapshotted. Returns true if it changed. */
bool mcu_control(u32 control)
{
	if (control == stub.mcu_control)
		return false;
	stub.mcu_control = control;
	if (control == MCU_CONTROL_DISABLE) {
		stub.mcu_on = false;
		reg_write(MCU_STATUS, MCU_STATUS_DISABLED);
		return true;
	}
	if (stub.mcu_dead && stub.mcu_dead_until_boot)
		stub.mcu_dead = false;
	if (stub.mcu_dead)
		stub.count.boot_failures++;
	else
		boot();
	return true;
}

void mcu_reset(void)
{
	stub.mcu_on = false;
	stub.mcu_control = MCU_CONTROL_DISABLE;
	reg_write(MCU_CONTROL, MCU_CONTROL_DISABLE);
	reg_write(MCU_STATUS, MCU_STATUS_DISABLED);
}

static void halt(void)
{
	stub.count.halts++;
	power_cores(false);
	stub.mcu_on = false;
	reg_write(MCU_STATUS, MCU_STATUS_HALT);
}

void mcu_global_doorbell(void)
{
	struct glb_input *in = mcu_shared(FW_GLB_INPUT);
	struct glb_output *out = mcu_shared(FW_GLB_OUTPUT);
	u32 req = READ_ONCE(in->req);
	u32 asked = (req ^ out->ack) & GLB_ACKED;
	u32 doorbell_req, rung, g;

	if (req & GLB_HALT) {
		halt();
		return;
	}
	if (asked) {
		WRITE_ONCE(out->ack, out->ack ^ asked);
		if (asked & READ_ONCE(in->ack_irq_mask))
			irq_raise(IRQ_JOB, JOB_INT_GLOBAL_IF);
	}
	/*
	 * Read doorbell_req once. Reading it again for the acknowledgement would acknowledge a
	 * doorbell rung in between without serving it: "CSG update request timedout", then a reset.
	 */
	doorbell_req = READ_ONCE(in->doorbell_req);
	rung = doorbell_req ^ out->doorbell_ack;
	WRITE_ONCE(out->doorbell_ack, doorbell_req);
	for (g = 0; g < FW_CSG_COUNT; g++)
		if (rung & BIT(g))
			csg_request(g);
}
