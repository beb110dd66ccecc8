// SPDX-License-Identifier: GPL-2.0-only
/* The module: finds the device-tree node panthor will bind to, and polls its register file. */
#include <clocksource/arm_arch_timer.h>
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_irq.h>

#include "stub.h"

struct stub stub;

static uint fast_us = 100;
module_param(fast_us, uint, 0644);
MODULE_PARM_DESC(fast_us, "poll interval while something goes on");

/* Well above what a poll costs (5 us of virtual time), so that the handler gets to run. */
static uint handler_us = 20;
module_param(handler_us, uint, 0644);
MODULE_PARM_DESC(handler_us, "poll interval while an interrupt handler waits for RAWSTAT to clear");

/*
 * The driver's shortest patience with a sleeping GPU is L2 power-up on 6.12: 20 ms (7.3: 100 ms);
 * polling every millisecond costs 15 % of a host core in an idle guest, every 20 ms 3 %.
 */
#define IDLE_US_MAX 5000
static uint idle_us = 2000;

static int idle_us_set(const char *text, const struct kernel_param *param)
{
	return param_set_uint_minmax(text, param, 1, IDLE_US_MAX);
}

static const struct kernel_param_ops idle_us_ops = {.set = idle_us_set, .get = param_get_uint};
module_param_cb(idle_us, &idle_us_ops, &idle_us, 0644);
MODULE_PARM_DESC(idle_us, "poll interval otherwise, at most 5000");

#define ACTIVE_FOR_US 20000
#define CLOCK_NS      5 /* the device tree's clock: 200 MHz */

static bool doorbells(const u32 *rung)
{
	bool any = false;
	unsigned int g;

	if (!mcu_alive())
		return false;
	if (rung[CSF_GLB_DOORBELL_ID]) {
		stub.count.doorbells++;
		any = true;
		mcu_global_doorbell();
	}
	for (g = 0; g < FW_CSG_COUNT && mcu_alive(); g++) {
		if (!rung[g + 1])
			continue;
		stub.count.doorbells++;
		any = true;
		csg_run(g);
	}
	return any;
}

/* One look at the registers. Returns true if there was something to do. */
static bool poll(void)
{
	u32 rung[FW_CSG_COUNT + 1] = {};
	u32 cmd, control;
	bool active = false;
	unsigned int i;

	stub.count.polls++;
	reg_write64(GPU_TIMESTAMP, arch_timer_read_counter());
	reg_write64(GPU_CYCLE_COUNT, ktime_to_ns(stub.now) / CLOCK_NS);

	/*
	 * Everything the driver commands is read before INT_CLEAR is taken. It writes INT_CLEAR,
	 * then the command: a command seen here has its clear visible below. The other way round, a
	 * clear meant for the past would be taken at the next poll and wipe the command's own
	 * interrupt: "Failed to boot MCU".
	 */
	irq_snapshot_masks();
	cmd = reg_take(GPU_CMD);
	control = reg_read(MCU_CONTROL);
	/* Firmware that is off or dead leaves its doorbells for the one that boots next. */
	for (i = 0; mcu_alive() && i <= FW_CSG_COUNT; i++)
		rung[i] = reg_take(CSF_DOORBELL(i));
	smp_rmb();
	active |= irq_take_clears();

	active |= power_command(cmd);
	if (GPU_CMD_TYPE(cmd) == GPU_CMD_RESET)
		control = MCU_CONTROL_DISABLE;
	active |= power_domains();
	active |= mmu_commands();
	active |= mcu_control(control);
	active |= doorbells(rung);
	if (mcu_alive())
		active |= csg_timers();
	active |= irq_update();
	return active;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	unsigned long flags;
	uint next;

	raw_spin_lock_irqsave(&stub.lock, flags);
	stub.now = ktime_get();
	if (poll())
		stub.last_activity = stub.now;
	if (irq_handler_busy())
		next = handler_us;
	else if (ktime_us_delta(stub.now, stub.last_activity) < ACTIVE_FOR_US)
		next = fast_us;
	else
		next = idle_us;
	raw_spin_unlock_irqrestore(&stub.lock, flags);
	if (READ_ONCE(stub.stopping))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime((u64)next * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static int find_device(struct device_node *node)
{
	static const char *const irq_names[IRQ_LINES] = {
	    [IRQ_JOB] = "job",
	    [IRQ_MMU] = "mmu",
	    [IRQ_GPU] = "gpu",
	};
	struct resource res;
	enum irq_line line;

	if (of_address_to_resource(node, 0, &res))
		return -EINVAL;
	if (resource_size(&res) < CSF_DOORBELL(FW_CSG_COUNT + 1))
		return -EINVAL;
	for (line = 0; line < IRQ_LINES; line++) {
		stub.virq[line] = of_irq_get_byname(node, irq_names[line]);
		if (stub.virq[line] <= 0)
			return stub.virq[line] ? stub.virq[line] : -EINVAL;
	}
	/* panthor maps the same pages as device memory. Emulated CPUs have no caches to disagree.
	 */
	stub.regs_size = resource_size(&res);
	stub.regs = memremap(res.start, stub.regs_size, MEMREMAP_WB);
	return stub.regs ? 0 : -ENOMEM;
}

static struct dentry *debugfs_dir;

static int __init stub_init(void)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "arm,mali-valhall-csf");
	int ret;

	if (!node)
		return -ENODEV;
	ret = find_device(node);
	of_node_put(node);
	if (ret) {
		pr_err("stub_gpu: the GPU's node is incomplete: %d\n", ret);
		return ret;
	}
	raw_spin_lock_init(&stub.lock);
	power_init();
	debugfs_dir = debugfs_create_dir("stub_gpu", NULL);
	counters_init(debugfs_dir);
	inject_init(debugfs_dir);
/* hrtimer_setup() came with 6.15, hrtimer_init() went with 6.17; Kbuild looks at the header. */
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(&stub.timer, tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(&stub.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	stub.timer.function = tick;
#endif
	hrtimer_start(&stub.timer, ns_to_ktime((u64)fast_us * NSEC_PER_USEC), HRTIMER_MODE_REL);
	pr_info("stub_gpu: gpu_id %#x, cores %#llx\n", reg_read(GPU_ID),
	        reg_read64(GPU_SHADER_PRESENT));
	return 0;
}

static void __exit stub_exit(void)
{
	debugfs_remove_recursive(debugfs_dir);
	WRITE_ONCE(stub.stopping, true);
	hrtimer_cancel(&stub.timer);
	memunmap(stub.regs);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A Mali CSF GPU for running panthor without one");
