/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registers of a Mali CSF GPU that panthor touches, by panthor's names.
 *
 * Source: drivers/gpu/drm/panthor/panthor_regs.h (Linux 6.12), split in later releases into
 * panthor_gpu_regs.h, panthor_mmu_regs.h and panthor_fw_regs.h. Architectures 10 to 13.
 */
#ifndef STUB_GPU_REGS_H
#define STUB_GPU_REGS_H

#include <linux/bits.h>

/* Identification: constant, filled from the model parameters */
#define GPU_ID                        0x000
#define GPU_L2_FEATURES               0x004
#define GPU_CORE_FEATURES             0x008
#define GPU_TILER_FEATURES            0x00c
#define GPU_MEM_FEATURES              0x010
#define GPU_MMU_FEATURES              0x014
#define GPU_AS_PRESENT                0x018
#define GPU_CSF_ID                    0x01c
#define GPU_FEATURES                  0x060
#define GPU_THREAD_MAX_THREADS        0x0a0
#define GPU_THREAD_MAX_WORKGROUP_SIZE 0x0a4
#define GPU_THREAD_MAX_BARRIER_SIZE   0x0a8
#define GPU_THREAD_FEATURES           0x0ac
#define GPU_TEXTURE_FEATURES(n)       (0x0b0 + (n) * 4)
#define GPU_SHADER_PRESENT            0x100
#define GPU_TILER_PRESENT             0x110
#define GPU_L2_PRESENT                0x120
#define GPU_REVID                     0x280
#define GPU_COHERENCY_FEATURES        0x300

/* Interrupts: one block of four registers a line */
#define GPU_INT_BASE                   0x0020
#define JOB_INT_BASE                   0x1000
#define MMU_INT_BASE                   0x2000
#define INT_RAWSTAT                    0x0
#define INT_CLEAR                      0x4
#define INT_MASK                       0x8
#define INT_STAT                       0xc
#define GPU_IRQ_RESET_COMPLETED        BIT(8)
#define GPU_IRQ_POWER_CHANGED          BIT(9)
#define GPU_IRQ_POWER_CHANGED_ALL      BIT(10)
#define GPU_IRQ_CLEAN_CACHES_COMPLETED BIT(17)
#define JOB_INT_CSG_IF(g)              BIT(g)
#define JOB_INT_GLOBAL_IF              BIT(31)

/* Commands */
#define GPU_CMD              0x030
#define GPU_CMD_TYPE(cmd)    ((cmd) & 0xff)
#define GPU_CMD_RESET        1
#define GPU_CMD_FLUSH_CACHES 4

/* Time */
#define GPU_CYCLE_COUNT 0x090
#define GPU_TIMESTAMP   0x098

/* Power: READY, PWRON and PWROFF of the shader, tiler and L2 domains, 0x10 apart */
#define SHADER_READY        0x140
#define TILER_READY         0x150
#define L2_READY            0x160
#define SHADER_PWRON        0x180
#define SHADER_PWROFF       0x1c0
#define POWER_DOMAIN_STRIDE 0x10

/* Microcontroller */
#define MCU_CONTROL         0x700
#define MCU_CONTROL_DISABLE 0
#define MCU_STATUS          0x704
#define MCU_STATUS_DISABLED 0
#define MCU_STATUS_ENABLED  1
#define MCU_STATUS_HALT     2
#define MCU_STATUS_FATAL    3

/* Address spaces */
#define MMU_AS_COUNT        8
#define MMU_AS(as)          (0x2400 + (as) * 64)
#define AS_TRANSTAB(as)     (MMU_AS(as) + 0x00)
#define AS_COMMAND(as)      (MMU_AS(as) + 0x18)
#define AS_FAULTSTATUS(as)  (MMU_AS(as) + 0x1c)
#define AS_FAULTADDRESS(as) (MMU_AS(as) + 0x20)

/* The page panthor maps into user space */
#define CSF_GPU_LATEST_FLUSH_ID 0x10000

/* Doorbell 0 is the global interface's, doorbell g + 1 that of CSG slot g (panthor_sched.c) */
#define CSF_DOORBELL(i)     (0x80000 + (i) * 0x10000)
#define CSF_GLB_DOORBELL_ID 0

#endif
