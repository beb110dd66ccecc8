// SPDX-License-Identifier: GPL-2.0-only
/* What happened so far: /sys/kernel/debug/stub_gpu/counters, "name value" a line, one snapshot. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "stub.h"

static int counters_show(struct seq_file *seq, void *unused)
{
	struct counters now;
	unsigned long flags;

	raw_spin_lock_irqsave(&stub.lock, flags);
	now = stub.count;
	raw_spin_unlock_irqrestore(&stub.lock, flags);
#define X(name) seq_printf(seq, #name " %llu\n", now.name);
	STUB_COUNTERS(X)
#undef X
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

void counters_init(struct dentry *dir)
{
	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
}
