/* SPDX-License-Identifier: MIT */
/* The scenarios' run functions, by the file they are in. table.c says what each means. */
#ifndef SIMFAIL_GROUPS_H
#define SIMFAIL_GROUPS_H

/* clean.c: nothing fails, or the program copes, or it gives up by itself */
void run_all_well(void);
void run_burst(void);
void run_retry_smaller(void);
void run_retry_other_vm(void);
void run_bo_never_bound(void);
void run_gives_up(void);

/* caps.c: fixed limits of the driver */
void run_vm_33rd(void);
void run_vm_range(void);
void run_bind_past_range(void);
void run_heap_129th(void);
void run_group_129th(void);
void run_heap_chunk_size(void);
void run_heap_max_chunks(void);
void run_heap_in_flight(void);
void run_heap_grows(void); /* below it: nothing fails */
void run_kernel_va(void);

/* requests.c: requests that are malformed or not permitted */
void run_bo_flags(void);
void run_bo_size_zero(void);
void run_bo_mmap_refused(void);
void run_bo_export_exclusive(void);
void run_bind_misaligned(void);
void run_bind_exclusive(void);
void run_bind_closed_bo(void);
void run_bind_destroyed_vm(void);
void run_bind_array_sync(void);
void run_bind_array_async(void);
void run_heap_initial(void);
void run_group_core_mask(void);
void run_group_ring_size(void);
void run_group_priority(void);
void run_submit_queue(void);
void run_submit_alignment(void);

/* memory.c: memory, of the machine and of a cgroup */
void run_bo_larger_than_memory(void);
void run_cgroup_bind(void);
void run_cgroup_heap(void);
void run_cgroup_oom_kill(void);

/* process.c: limits of the process */
void run_mmap_map_count(void);
void run_mmap_address_space(void);
void run_export_nofile(void);
void run_open_nofile(void);

/* faults.c: the GPU's and the firmware's failures, injected */
void run_cs_fault(void);
void run_cs_inherited_fault(void);
void run_cs_fatal(void);
void run_submit_after_fatal(void);
void run_mmu_fault(void);
void run_job_hang(void);
void run_progress_timeout(void);
void run_firmware_dead(void);
void run_firmware_restarts(void);

/* several.c: more than one thread or process */
void run_processes_one_fails(void);
void run_threads_one_fails(void);
void run_child_fails(void);

#endif
