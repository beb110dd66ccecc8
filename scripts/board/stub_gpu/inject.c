// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults by name: /sys/kernel/debug/stub_gpu/inject.
 *
 *	echo "cs-fatal csg=0 cs=0 code=0x49" > inject	now, on that stream
 *	echo "tiler-oom at=5" > inject			when the fifth further job begins, on its
 *stream cat inject					names, what is armed, how the last armed one
 *went
 *
 * A write fails with EINVAL for a name or argument nobody knows, ENODEV where no group is running
 *(arm it with at=, or hold a job first), ENOENT where tiler-oom knows no heap, ENOSPC when too many
 *are armed.
 */
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "inject.h"

static const char *const arg_names[ARGS] = {
    [ARG_CSG] = "csg",   [ARG_CS] = "cs",         [ARG_HEAP] = "heap",       [ARG_CODE] = "code",
    [ARG_ADDR] = "addr", [ARG_PASSES] = "passes", [ARG_RECOVER] = "recover", [ARG_AT] = "at",
};

struct armed {
	const struct fault *fault; /* NULL: free */
	struct args args;
	u64 jobs_left;
};

static struct armed armed[8];
static const struct fault *last_armed;
static int last_armed_result;

void inject_disarm_all(void)
{
	memset(armed, 0, sizeof(armed));
}

/* Armed events, when a job begins on slot g, stream q. From the timer: nothing is printed here. */
void inject_job_begins(unsigned int g, unsigned int q)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(armed); i++) {
		struct armed *a = &armed[i];

		if (!a->fault || arg(&a->args, ARG_CSG, g) != g || arg(&a->args, ARG_CS, q) != q)
			continue;
		if (--a->jobs_left)
			continue;
		last_armed = a->fault;
		last_armed_result = a->fault->fire(&a->args, g, q);
		stub.count.injections += !last_armed_result;
		a->fault = NULL;
	}
}

/* The stream an immediate event hits: as told, else the first running one, one with work if any
 * has. */
static int pick_stream(const struct args *args, unsigned int *g, unsigned int *q)
{
	bool found = false;
	unsigned int i, j;

	if (!mcu_alive())
		return -ENODEV;
	for (i = 0; i < FW_CSG_COUNT; i++) {
		if (arg(args, ARG_CSG, i) != i || !csg_running(i))
			continue;
		for (j = 0; j < FW_CS_COUNT; j++) {
			if (arg(args, ARG_CS, j) != j || !cs_running(i, j))
				continue;
			if (found && !ring_has_work(i, j))
				continue;
			*g = i;
			*q = j;
			found = true;
			if (ring_has_work(i, j))
				return 0;
		}
	}
	return found ? 0 : -ENODEV;
}

static int arm(const struct fault *fault, const struct args *args, u64 jobs)
{
	unsigned int i;

	if (!jobs)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(armed); i++) {
		if (armed[i].fault)
			continue;
		armed[i].fault = fault;
		armed[i].args = *args;
		armed[i].jobs_left = jobs;
		return 0;
	}
	return -ENOSPC;
}

static int inject(const struct fault *fault, const struct args *args)
{
	unsigned int g = 0, q = 0;
	int ret;

	if (fault->at_job_only || (args->given & BIT(ARG_AT)))
		return arm(fault, args, arg(args, ARG_AT, 1));
	if (fault->needs_stream) {
		ret = pick_stream(args, &g, &q);
		if (ret)
			return ret;
	}
	ret = fault->fire(args, g, q);
	if (ret)
		return ret;
	stub.count.injections++;
	if (mcu_alive())
		csg_run_all(); /* release, clear: run what waited */
	return 0;
}

static int parse_args(const struct fault *fault, char *text, struct args *args)
{
	u32 takes = fault->takes | BIT(ARG_AT);
	char *word;

	if (fault->needs_stream)
		takes |= BIT(ARG_CSG) | BIT(ARG_CS);
	while ((word = strsep(&text, " \t"))) {
		char *value = strchr(word, '=');
		unsigned int which;

		if (!*word)
			continue;
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		for (which = 0; which < ARGS && strcmp(arg_names[which], word); which++)
			;
		if (which == ARGS || !(takes & BIT(which)) ||
		    kstrtou64(value, 0, &args->value[which]))
			return -EINVAL;
		args->given |= BIT(which);
	}
	if (arg(args, ARG_CSG, 0) >= FW_CSG_COUNT || arg(args, ARG_CS, 0) >= FW_CS_COUNT)
		return -EINVAL;
	return 0;
}

static void complain(const char *line)
{
	char names[160] = "";
	unsigned int i;

	for (i = 0; i < fault_count; i++) {
		strlcat(names, " ", sizeof(names));
		strlcat(names, faults[i].name, sizeof(names));
	}
	pr_warn("stub_gpu: cannot inject \"%s\"; known:%s (arguments: read the file)\n", line,
	        names);
}

static const struct fault *find_fault(const char *name)
{
	unsigned int i;

	for (i = 0; i < fault_count; i++)
		if (!strcmp(faults[i].name, name))
			return &faults[i];
	return NULL;
}

static ssize_t inject_write(struct file *file, const char __user *from, size_t size, loff_t *pos)
{
	char line[256], original[256];
	struct args args = {};
	const struct fault *fault;
	char *rest = line;
	unsigned long flags;
	int ret;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = '\0';
	strscpy(original, strim(line), sizeof(original));
	strscpy(line, original, sizeof(line));
	fault = find_fault(strsep(&rest, " \t"));
	if (!fault || parse_args(fault, rest, &args)) {
		complain(original);
		return -EINVAL;
	}
	raw_spin_lock_irqsave(&stub.lock, flags);
	stub.now = ktime_get();
	stub.last_activity = stub.now;
	ret = inject(fault, &args);
	raw_spin_unlock_irqrestore(&stub.lock, flags);
	if (ret == -ENODEV)
		pr_warn("stub_gpu: \"%s\": no such stream is running; arm it with at=N, or hold a "
		        "job\n",
		        original);
	else if (ret == -ENOENT)
		pr_warn("stub_gpu: \"%s\": no stream has set a heap; pass heap=VA\n", original);
	return ret ? ret : size;
}

static int inject_show(struct seq_file *seq, void *unused)
{
	struct armed now[ARRAY_SIZE(armed)];
	const struct fault *last;
	unsigned long flags;
	bool hold, dead;
	int result;
	unsigned int i;

	raw_spin_lock_irqsave(&stub.lock, flags);
	memcpy(now, armed, sizeof(now));
	last = last_armed;
	result = last_armed_result;
	hold = stub.hold;
	dead = stub.mcu_dead;
	raw_spin_unlock_irqrestore(&stub.lock, flags);

	for (i = 0; i < fault_count; i++)
		seq_printf(seq, "%-17s %s\n", faults[i].name, faults[i].help);
	seq_puts(seq,
	         "arguments: at=N (when the Nth further job begins); csg= cs= (default: the first"
	         " running stream, or the one whose job begins)\n");
	seq_printf(seq, "hold: %s\nmcu-dead: %s\n", hold ? "yes" : "no", dead ? "yes" : "no");
	for (i = 0; i < ARRAY_SIZE(now); i++)
		if (now[i].fault)
			seq_printf(seq, "armed: %s in %llu jobs\n", now[i].fault->name,
			           now[i].jobs_left);
	if (last)
		seq_printf(seq, "last armed: %s %s\n", last->name,
		           result == -ENOENT ? "failed: no stream has set a heap"
		           : result          ? "failed"
		                             : "fired");
	return 0;
}

static int inject_open(struct inode *inode, struct file *file)
{
	return single_open(file, inject_show, NULL);
}

static const struct file_operations inject_fops = {
    .owner = THIS_MODULE,
    .open = inject_open,
    .read = seq_read,
    .write = inject_write,
    .llseek = seq_lseek,
    .release = single_release,
};

void inject_init(struct dentry *dir)
{
	debugfs_create_file("inject", 0600, dir, NULL, &inject_fops);
}
