// SPDX-License-Identifier: MIT
/*
 * What the GPU and its firmware do to a program: injected into the stub. A job is held in its ring
 * while the fault strikes, so that it strikes that job.
 */
#include "groups.h"
#include "stub.h"
#include "work.h"

/* Long enough for the scheduler to have given the group a slot, well below every timeout. */
#define JOB_STARTED_MS 100u
/* Above the driver's JOB_TIMEOUT_MS (5000, panthor_sched.c). */
#define HANG_WAIT_MS  20000u
#define FAULT_WAIT_MS 5000u
#define STATE_USABLE  0u

/* A held job; its syncobj, or 0. */
static uint32_t hold_job(struct work *work)
{
	uint32_t syncobj;

	if (!stub_inject("hold") || work_submit(work, 0, &syncobj))
		return 0;
	sleep_ms(JOB_STARTED_MS);
	return syncobj;
}

/* Wait for a job; its error is counted as a failure of the call "job". */
static void end_job(struct work *work, uint32_t syncobj, unsigned int milliseconds)
{
	if (!syncobj_wait(&work->gpu, syncobj, milliseconds))
		job_result(&work->gpu, syncobj);
	syncobj_destroy(&work->gpu, syncobj);
}

static void expect_group(struct work *work, uint32_t expected)
{
	uint32_t state;

	if (!group_state(&work->gpu, work->group, &state))
		expect(state == expected, "the group's state is 0x%x, not 0x%x", state, expected);
}

/* One job, held, hit by `fault`. */
static bool fault_job(struct work *work, const char *fault)
{
	uint32_t syncobj;

	if (!stub_begin() || !work_begin(work, 1) || !work_job(work, 0))
		return false;
	syncobj = hold_job(work);
	if (!syncobj || !stub_inject("%s", fault))
		return false;
	sleep_ms(JOB_STARTED_MS);
	if (!stub_inject("release"))
		return false;
	end_job(work, syncobj, FAULT_WAIT_MS);
	return true;
}

void run_cs_fault(void)
{
	struct work work = {.gpu.fd = -1};

	/* The queue goes on after CS_FAULT, and the group stays usable. */
	if (fault_job(&work, "cs-fault"))
		expect_group(&work, STATE_USABLE);
	work_end(&work);
}

void run_cs_inherited_fault(void)
{
	struct work work = {.gpu.fd = -1};

	/* DRM_PANTHOR_EXCEPTION_CS_INHERIT_FAULT, panthor_device.h: what an older job left behind.
	 */
	if (fault_job(&work, "cs-fault code=0x4b"))
		expect_group(&work, STATE_USABLE);
	work_end(&work);
}

void run_cs_fatal(void)
{
	struct work work = {.gpu.fd = -1};

	if (fault_job(&work, "cs-fatal"))
		expect_group(&work, DRM_PANTHOR_GROUP_STATE_FATAL_FAULT);
	work_end(&work);
}

void run_submit_after_fatal(void)
{
	struct work work = {.gpu.fd = -1};

	if (fault_job(&work, "cs-fatal")) {
		expect_group(&work, DRM_PANTHOR_GROUP_STATE_FATAL_FAULT);
		group_submit(&work.gpu, work.group, 0, BASE_VA, STREAM_STRIDE, 0);
	}
	work_end(&work);
}

void run_mmu_fault(void)
{
	struct work work = {.gpu.fd = -1};
	uint32_t state;

	if (fault_job(&work, "mmu-fault addr=0xdead0000")) {
		expect_group(&work, DRM_PANTHOR_GROUP_STATE_FATAL_FAULT);
		/* The group is lost. The VM is not: it still takes a bind (panthor_mmu.c, both). */
		if (!vm_state(&work.gpu, work.vm, &state))
			expect(state == DRM_PANTHOR_VM_STATE_USABLE, "the VM is unusable");
		vm_unmap(&work.gpu, work.vm, BASE_VA, STREAM_BO_SIZE);
		vm_map(&work.gpu, work.vm, work.stream_bo, BASE_VA, STREAM_BO_SIZE);
		group_submit(&work.gpu, work.group, 0, BASE_VA, STREAM_STRIDE, 0);
	}
	work_end(&work);
}

void run_job_hang(void)
{
	struct work work;
	uint32_t syncobj;

	if (work_begin(&work, 1) && stub_begin() && work_job(&work, 0) && stub_inject("hang") &&
	    !work_submit(&work, 0, &syncobj)) {
		end_job(&work, syncobj, HANG_WAIT_MS);
		expect_group(&work, DRM_PANTHOR_GROUP_STATE_TIMEDOUT);
		group_submit(&work.gpu, work.group, 0, BASE_VA, STREAM_STRIDE, 0);
	}
	work_end(&work);
}

void run_progress_timeout(void)
{
	struct work work = {.gpu.fd = -1};

	if (fault_job(&work, "progress-timeout"))
		expect_group(&work, DRM_PANTHOR_GROUP_STATE_TIMEDOUT);
	work_end(&work);
}

/* The firmware stops while a job is in its slot. `injection`: for good, or until the driver boots
 * it. */
static uint32_t lose_firmware(struct work *work, const char *injection)
{
	uint32_t syncobj = 0;

	if (stub_begin() && work_begin(work, 1) && work_job(work, 0))
		syncobj = hold_job(work);
	if (syncobj && stub_inject("%s", injection))
		return syncobj;
	return 0;
}

void run_firmware_restarts(void)
{
	struct work work = {.gpu.fd = -1};
	struct group_request request;
	uint32_t syncobj = lose_firmware(&work, "mcu-dead recover=1"), state;

	if (syncobj) {
		unsigned long long boots = stub_counter("boots");

		end_job(&work, syncobj, HANG_WAIT_MS);
		/* The job is given up before the reset; until that the firmware has to stay dead.
		 */
		for (unsigned int waited = 0;
		     waited < HANG_WAIT_MS && stub_counter("boots") == boots;
		     waited += JOB_STARTED_MS)
			sleep_ms(JOB_STARTED_MS);
		if (!group_state(&work.gpu, work.group, &state))
			expect(state & DRM_PANTHOR_GROUP_STATE_TIMEDOUT,
			       "the group's state is 0x%x", state);
		stub_inject("clear");
		group_destroy(&work.gpu, work.group);
		/* The driver has reset the GPU: a new group works. */
		if (!group_create(&work.gpu, group_request(&request, &work.gpu, work.vm, 1),
		                  &work.group))
			work_job(&work, 0);
	}
	work_end(&work);
}

static void wait_while(bool alive, unsigned int milliseconds)
{
	for (unsigned int waited = 0; waited < milliseconds && gpu_alive() == alive;
	     waited += JOB_STARTED_MS)
		sleep_ms(JOB_STARTED_MS);
}

void run_firmware_dead(void)
{
	struct work work = {.gpu.fd = -1};
	uint32_t bo;

	if (stub_begin_rebind() && lose_firmware(&work, "mcu-dead")) {
		/* Job timeout, a reset that fails, and the driver unplugs the device. */
		wait_while(true, HANG_WAIT_MS);
		bo_create(&work.gpu, MIB, 0, work.vm, &bo);
	}
	/* No clean-up by ioctls: there is nobody to answer them. A mapping would keep the file
	 * open. */
	if (work.stream)
		bo_munmap(work.stream, STREAM_BO_SIZE);
	gpu_close(&work.gpu);
	stub_rebind();
	if (gpu_device) {
		wait_while(false, FAULT_WAIT_MS);
		expect(gpu_alive(),
		       "the driver did not take the device again (its firmware is wanted)");
	}
}
