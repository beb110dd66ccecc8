// SPDX-License-Identifier: GPL-2.0-only
/* Identification, GPU commands and power domains. */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/string.h>

#include "stub.h"

/*
 * The model. Defaults are the Mali-G610 MC4 of an RK3588; its four cores are numbered 0, 2, 16 and
 * 18, which user space must size per-core memory for. board/gpus.py holds the other models.
 */
#define MODEL_U32(name, value, text)                                                               \
	static uint name = value;                                                                  \
	module_param(name, uint, 0444);                                                            \
	MODULE_PARM_DESC(name, text)

MODEL_U32(gpu_id, 0xa8670005, "GPU_ID");
MODEL_U32(l2_features, 0x07120206, "GPU_L2_FEATURES");
MODEL_U32(core_features, 0, "GPU_CORE_FEATURES (its low byte is the core variant)");
MODEL_U32(tiler_features, 0x809, "GPU_TILER_FEATURES");
MODEL_U32(mem_features, 0x301, "GPU_MEM_FEATURES");
MODEL_U32(mmu_features, 0x2830,
          "GPU_MMU_FEATURES: bits of physical << 8 | bits of virtual address");
MODEL_U32(as_present, 0xff, "GPU_AS_PRESENT");
MODEL_U32(csf_id, 0x040a0412, "GPU_CSF_ID");
MODEL_U32(thread_max_threads, 0x800, "GPU_THREAD_MAX_THREADS");
MODEL_U32(thread_max_workgroup_size, 0x400, "GPU_THREAD_MAX_WORKGROUP_SIZE");
MODEL_U32(thread_max_barrier_size, 0x400, "GPU_THREAD_MAX_BARRIER_SIZE");
MODEL_U32(thread_features, 0x04010000, "GPU_THREAD_FEATURES");
MODEL_U32(texture_features, 0xc1ffff9e, "GPU_TEXTURE_FEATURES(0)");
MODEL_U32(revid, 0, "GPU_REVID");
MODEL_U32(coherency_features, 1, "GPU_COHERENCY_FEATURES (1: ACE-Lite)");

#define MODEL_U64(name, value, text)                                                               \
	static unsigned long long name = value;                                                    \
	module_param(name, ullong, 0444);                                                          \
	MODULE_PARM_DESC(name, text)

MODEL_U64(shader_present, 0x50005, "GPU_SHADER_PRESENT");
MODEL_U64(tiler_present, 1, "GPU_TILER_PRESENT");
MODEL_U64(l2_present, 1, "GPU_L2_PRESENT");
MODEL_U64(gpu_features, 0, "GPU_FEATURES (architecture 11 on)");

void power_init(void)
{
	memset(stub.regs, 0, stub.regs_size);
	reg_write(GPU_ID, gpu_id);
	reg_write(GPU_L2_FEATURES, l2_features);
	reg_write(GPU_CORE_FEATURES, core_features);
	reg_write(GPU_TILER_FEATURES, tiler_features);
	reg_write(GPU_MEM_FEATURES, mem_features);
	reg_write(GPU_MMU_FEATURES, mmu_features);
	reg_write(GPU_AS_PRESENT, as_present);
	reg_write(GPU_CSF_ID, csf_id);
	reg_write(GPU_THREAD_MAX_THREADS, thread_max_threads);
	reg_write(GPU_THREAD_MAX_WORKGROUP_SIZE, thread_max_workgroup_size);
	reg_write(GPU_THREAD_MAX_BARRIER_SIZE, thread_max_barrier_size);
	reg_write(GPU_THREAD_FEATURES, thread_features);
	reg_write(GPU_TEXTURE_FEATURES(0), texture_features);
	reg_write(GPU_REVID, revid);
	reg_write(GPU_COHERENCY_FEATURES, coherency_features);
	reg_write64(GPU_FEATURES, gpu_features);
	reg_write64(GPU_SHADER_PRESENT, shader_present);
	reg_write64(GPU_TILER_PRESENT, tiler_present);
	reg_write64(GPU_L2_PRESENT, l2_present);
	/* panthor takes flush id 0 for "never flushed" */
	reg_write(CSF_GPU_LATEST_FLUSH_ID, 1);
}

static void power_changed(void)
{
	irq_raise(IRQ_GPU, GPU_IRQ_POWER_CHANGED | GPU_IRQ_POWER_CHANGED_ALL);
}

static void reset(void)
{
	stub.count.resets++;
	reg_write64(SHADER_READY, 0);
	reg_write64(TILER_READY, 0);
	reg_write64(L2_READY, 0);
	mcu_reset();
	mmu_reset();
	irq_reset();
	irq_raise(IRQ_GPU, GPU_IRQ_RESET_COMPLETED);
}

static void flush_caches(void)
{
	u32 id = reg_read(CSF_GPU_LATEST_FLUSH_ID) + 1;

	stub.count.cache_flushes++;
	reg_write(CSF_GPU_LATEST_FLUSH_ID, id ? id : 1);
	irq_raise(IRQ_GPU, GPU_IRQ_CLEAN_CACHES_COMPLETED);
}

/* Returns true if there was a command. */
bool power_command(u32 cmd)
{
	switch (GPU_CMD_TYPE(cmd)) {
	case GPU_CMD_RESET:
		reset();
		break;
	case GPU_CMD_FLUSH_CACHES:
		flush_caches();
		break;
	}
	return cmd != 0;
}

/* PWRON and PWROFF of the three domains. Returns true if one of them was written. */
bool power_domains(void)
{
	bool changed = false;
	u32 domain, half;

	for (domain = 0; domain < 3; domain++) {
		for (half = 0; half < 8; half += 4) {
			u32 at = domain * POWER_DOMAIN_STRIDE + half;
			u32 on = reg_take(SHADER_PWRON + at);
			u32 off = reg_take(SHADER_PWROFF + at);

			if (!on && !off)
				continue;
			reg_write(SHADER_READY + at, (reg_read(SHADER_READY + at) | on) & ~off);
			changed = true;
		}
	}
	if (changed)
		power_changed();
	return changed;
}

/* The firmware powers the cores it runs jobs on, and drops them when it halts. */
void power_cores(bool on)
{
	if (on == !!reg_read64(SHADER_READY))
		return;
	reg_write64(SHADER_READY, on ? shader_present : 0);
	reg_write64(TILER_READY, on ? tiler_present : 0);
	power_changed();
}
