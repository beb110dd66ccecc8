// SPDX-License-Identifier: GPL-2.0-only
/* Address spaces: AS commands, page-table walks, faults. */
#include <linux/mm.h>

#include "stub.h"

/*
 * AS commands need no work: there is no TLB, and AS_STATUS reads as idle all along. That is also
 * why one command may overwrite another before we see it; the count is of commands found, not
 * written.
 */
bool mmu_commands(void)
{
	bool found = false;
	unsigned int as;

	for (as = 0; as < MMU_AS_COUNT; as++) {
		if (reg_take(AS_COMMAND(as))) {
			stub.count.as_commands++;
			found = true;
		}
	}
	return found;
}

void mmu_reset(void)
{
	memset(stub.regs + MMU_AS(0), 0, MMU_AS(MMU_AS_COUNT) - MMU_AS(0));
}

#define PTE_PRESENT  BIT(0)
#define PTE_IS_TABLE BIT(1) /* above the last level: points to a table, not to a block */
#define PTE_ADDRESS  GENMASK_ULL(47, 12)

/*
 * Translate as panthor programs its address spaces: AArch64, 4 KiB granule, four levels for 48 bits
 * (ARM_64_LPAE_S1 of io-pgtable, 7.3 and 6.12). Returns a linear-map pointer that is good up to the
 * end of its 4 KiB page, or NULL (counted).
 */
void *mmu_translate(unsigned int as, u64 va)
{
	u64 table = reg_read64(AS_TRANSTAB(as)) & PTE_ADDRESS;
	unsigned int level;

	for (level = 0; table && level < 4; level++) {
		unsigned int shift = 39 - 9 * level;
		u64 pte, pa;

		if (!pfn_valid(PHYS_PFN(table)))
			break;
		pte = READ_ONCE(((u64 *)phys_to_virt(table))[(va >> shift) & 511]);
		if (!(pte & PTE_PRESENT))
			break;
		if (level < 3 && (pte & PTE_IS_TABLE)) {
			table = pte & PTE_ADDRESS;
			continue;
		}
		pa = (pte & PTE_ADDRESS & ~(BIT_ULL(shift) - 1)) | (va & (BIT_ULL(shift) - 1));
		if (!pfn_valid(PHYS_PFN(pa)))
			break;
		return phys_to_virt(pa);
	}
	stub.count.bad_walks++;
	return NULL;
}

void mmu_fault(unsigned int as, u64 address, u32 status)
{
	reg_write(AS_FAULTSTATUS(as), status);
	reg_write64(AS_FAULTADDRESS(as), address);
	irq_raise(IRQ_MMU, BIT(as));
}
