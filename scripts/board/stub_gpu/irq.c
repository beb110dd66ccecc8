// SPDX-License-Identifier: GPL-2.0-only
/* Interrupt lines: the four registers of each, and raising it at the interrupt controller. */
#include <linux/interrupt.h>
#include <linux/irq.h>

#include "stub.h"

static const u32 int_base[IRQ_LINES] = {
    [IRQ_JOB] = JOB_INT_BASE,
    [IRQ_MMU] = MMU_INT_BASE,
    [IRQ_GPU] = GPU_INT_BASE,
};

/* Part of the snapshot that must come before irq_take_clears(): see main.c. */
void irq_snapshot_masks(void)
{
	enum irq_line line;

	for (line = 0; line < IRQ_LINES; line++) {
		stub.irq_mask[line] = reg_read(int_base[line] + INT_MASK);
		if (stub.irq_mask[line])
			stub.irq_wanted[line] = stub.irq_mask[line];
	}
}

bool irq_take_clears(void)
{
	bool any = false;
	enum irq_line line;

	for (line = 0; line < IRQ_LINES; line++) {
		u32 clear = reg_take(int_base[line] + INT_CLEAR);

		stub.irq_raw[line] &= ~clear;
		any |= clear;
	}
	return any;
}

void irq_raise(enum irq_line line, u32 bits)
{
	stub.irq_raw[line] |= bits;
}

void irq_reset(void)
{
	memset(stub.irq_raw, 0, sizeof(stub.irq_raw));
}

/*
 * Publish RAWSTAT and STAT, raise the lines that are up. Returns true while the driver still has
 * something to look at.
 *
 * Memory cannot clear RAWSTAT at the moment INT_CLEAR is written, so panthor's threaded handler,
 * which loops until RAWSTAT is clear, goes round until our next poll: each interrupt shows up
 * several times in the trace event panthor:gpu_job_irq.
 */
bool irq_update(void)
{
	u64 *const raised[IRQ_LINES] = {
	    [IRQ_JOB] = &stub.count.irqs_job,
	    [IRQ_MMU] = &stub.count.irqs_mmu,
	    [IRQ_GPU] = &stub.count.irqs_gpu,
	};
	bool busy = false;
	enum irq_line line;

	for (line = 0; line < IRQ_LINES; line++) {
		u32 status = stub.irq_raw[line] & stub.irq_mask[line];

		reg_write(int_base[line] + INT_RAWSTAT, stub.irq_raw[line]);
		reg_write(int_base[line] + INT_STAT, status);
		busy |= (stub.irq_raw[line] & stub.irq_wanted[line]) != 0;
		if (!status)
			continue;
		/* The handler must not see the line before the registers above. */
		smp_wmb();
		(*raised[line])++;
		stub.irq_raised = stub.now;
		irq_set_irqchip_state(stub.virq[line], IRQCHIP_STATE_PENDING, true);
	}
	return busy;
}

/*
 * True while a threaded handler is likely to be looping (it masks its line first): poll quickly
 * then, to take its INT_CLEAR. Bounded, because a line may also stay masked with a bit up: the
 * MMU's does after a fault, until the address space is given to another VM.
 */
bool irq_handler_busy(void)
{
	enum irq_line line;

	if (ktime_us_delta(stub.now, stub.irq_raised) > 2000)
		return false;
	for (line = 0; line < IRQ_LINES; line++)
		if (!stub.irq_mask[line] && (stub.irq_raw[line] & stub.irq_wanted[line]))
			return true;
	return false;
}
