/* SPDX-License-Identifier: GPL-2.0-only */
/* Generated from board/firmware.py (python3 -m board.firmware --header); change that one. */
#ifndef STUB_GPU_FW_LAYOUT_H
#define STUB_GPU_FW_LAYOUT_H

/* clang-format off */

#define FW_SHARED_VA		0x4000000
#define FW_SHARED_SIZE		0x40000
#define FW_CSG_COUNT		8
#define FW_CS_COUNT		8
#define FW_SUSPEND_SIZE		0x2000
#define FW_GLB_INPUT		0x8000
#define FW_GLB_OUTPUT		0x9000
#define FW_CSG_INPUT(g)		(0x10000 + (g) * 0x2000)
#define FW_CSG_OUTPUT(g)	(0x11000 + (g) * 0x2000)
#define FW_CS_INPUT(g, q)	(FW_CSG_INPUT(g) + ((q) + 1) * 0x100)
#define FW_CS_OUTPUT(g, q)	(FW_CSG_OUTPUT(g) + ((q) + 1) * 0x100)

#endif
