// SPDX-License-Identifier: GPL-2.0-only
/*
 * Command stream instructions.
 *
 * Opcodes and operand positions: Mesa, src/panfrost/genxml/v10.xml ("CS Opcode" and the CS
 * structs). Executed are those that decide what memory the driver or the program sees afterwards:
 * moves, arithmetic, loads and stores, control flow, sync objects. Whatever runs a shader, flushes
 * a cache or waits does nothing: there is no shader core, no cache, and nothing to wait for.
 */
#include <clocksource/arm_arch_timer.h>

#include "stub.h"

enum cs_opcode {
	CS_MOVE48 = 1,
	CS_MOVE32 = 2,
	CS_ADD_IMMEDIATE32 = 16,
	CS_ADD_IMMEDIATE64 = 17,
	CS_LOAD_MULTIPLE = 20,
	CS_STORE_MULTIPLE = 21,
	CS_BRANCH = 22,
	CS_CALL = 32,
	CS_JUMP = 33,
	CS_SYNC_ADD32 = 37,
	CS_SYNC_SET32 = 38,
	CS_STORE_STATE = 40,
	CS_ERROR_BARRIER = 47,
	CS_HEAP_SET = 48,
	CS_SYNC_ADD64 = 51,
	CS_SYNC_SET64 = 52,
};

#define CALL_DEPTH 8 /* the hardware's call stack */

static enum cs_opcode opcode(u64 instruction)
{
	return instruction >> 56;
}

/* Operand fields, by bit position: destination or base register, address, data or length */
#define FIELD_DEST(i)     (((i) >> 48) & 0xff)
#define FIELD_ADDR(i)     (((i) >> 40) & 0xff)
#define FIELD_DATA(i)     (((i) >> 32) & 0xff)
#define FIELD_OFFSET(i)   ((s16)(i))
#define FIELD_MASK(i)     (((i) >> 16) & 0xffff)
#define FIELD_IMM32(i)    ((s32)(i))
#define FIELD_COND(i)     (((i) >> 28) & 7)
#define FIELD_STATE(i)    (((i) >> 32) & 3)
#define SYNC_PROPAGATE(i) ((i) & BIT(0))
#define SYNC_SCOPE(i)     (((i) >> 1) & 3)
#define SYNC_SCOPE_SYSTEM 0

static u32 get32(const struct stream *s, unsigned int reg)
{
	return reg < CS_REGS ? s->cs->regs[reg] : 0;
}

static u64 get64(const struct stream *s, unsigned int reg)
{
	return get32(s, reg) | (u64)get32(s, reg + 1) << 32;
}

static void set32(struct stream *s, unsigned int reg, u32 value)
{
	if (reg < CS_REGS)
		s->cs->regs[reg] = value;
}

static void set64(struct stream *s, unsigned int reg, u64 value)
{
	set32(s, reg, value);
	set32(s, reg + 1, value >> 32);
}

/* A GPU address as a pointer, translated once a page. NULL if nothing is mapped there. */
static void *stream_pointer(struct stream *s, u64 va)
{
	u64 page_va = va & ~(u64)(SZ_4K - 1);

	if (page_va != s->page_va) {
		s->page = mmu_translate(s->as, page_va);
		s->page_va = s->page ? page_va : U64_MAX;
	}
	return s->page ? s->page + (va - page_va) : NULL;
}

bool stream_fetch(struct stream *s, u64 va, u64 *instruction)
{
	u64 *at = stream_pointer(s, va & ~7ULL);

	if (!at)
		return false;
	*instruction = READ_ONCE(*at);
	return true;
}

bool stream_is_call(u64 instruction)
{
	return opcode(instruction) == CS_CALL;
}

/* LOAD_MULTIPLE and STORE_MULTIPLE: one word a bit of the mask, at 4 bytes times the bit's number.
 */
static void multiple(struct stream *s, u64 i, bool store)
{
	u64 va = get64(s, FIELD_ADDR(i)) + FIELD_OFFSET(i);
	unsigned int bit;

	for (bit = 0; bit < 16; bit++) {
		unsigned int reg = FIELD_DEST(i) + bit;
		u32 *at;

		if (!(FIELD_MASK(i) & BIT(bit)))
			continue;
		at = stream_pointer(s, (va + 4 * bit) & ~3ULL);
		if (!at)
			return;
		if (store)
			WRITE_ONCE(*at, get32(s, reg));
		else
			set32(s, reg, READ_ONCE(*at));
	}
}

static bool condition(u64 i, s32 value)
{
	switch (FIELD_COND(i)) {
	case 0:
		return value <= 0;
	case 1:
		return value > 0;
	case 2:
		return value == 0;
	case 3:
		return value != 0;
	case 4:
		return value < 0;
	case 5:
		return value >= 0;
	default:
		return true;
	}
}

/* A sync object: the value, then a word that says whether the stream was in error. */
static void sync(struct stream *s, u64 i, bool wide, bool add)
{
	u64 address = get64(s, FIELD_ADDR(i)) & ~7ULL;
	void *at = stream_pointer(s, address);
	unsigned int reg = FIELD_DATA(i);
	u32 *status;

	if (!at)
		return;
	if (wide)
		WRITE_ONCE(*(u64 *)at, get64(s, reg) + (add ? READ_ONCE(*(u64 *)at) : 0));
	else
		WRITE_ONCE(*(u32 *)at, get32(s, reg) + (add ? READ_ONCE(*(u32 *)at) : 0));
	if (SYNC_PROPAGATE(i) && s->cs->faulted) {
		status = stream_pointer(s, address + (wide ? 8 : 4));
		if (status)
			WRITE_ONCE(*status, 1);
	}
	stub.count.sync_writes++;
	if (SYNC_SCOPE(i) == SYNC_SCOPE_SYSTEM)
		s->sync_update = true;
}

static void store_state(struct stream *s, u64 i)
{
	u64 *at = stream_pointer(s, (get64(s, FIELD_ADDR(i)) + FIELD_OFFSET(i)) & ~7ULL);
	u64 value = 0;

	if (!at)
		return;
	if (FIELD_STATE(i) == 0)
		value = arch_timer_read_counter();
	else if (FIELD_STATE(i) == 1)
		value = reg_read64(GPU_CYCLE_COUNT);
	WRITE_ONCE(*at, value);
}

void stream_step(struct stream *s, u64 i)
{
	stub.count.instructions++;
	switch (opcode(i)) {
	case CS_MOVE48:
		set64(s, FIELD_DEST(i), i & GENMASK_ULL(47, 0));
		break;
	case CS_MOVE32:
		set32(s, FIELD_DEST(i), i);
		break;
	case CS_ADD_IMMEDIATE32:
		set32(s, FIELD_DEST(i), get32(s, FIELD_ADDR(i)) + FIELD_IMM32(i));
		break;
	case CS_ADD_IMMEDIATE64:
		set64(s, FIELD_DEST(i), get64(s, FIELD_ADDR(i)) + (s64)FIELD_IMM32(i));
		break;
	case CS_LOAD_MULTIPLE:
		multiple(s, i, false);
		break;
	case CS_STORE_MULTIPLE:
		multiple(s, i, true);
		break;
	case CS_SYNC_ADD32:
		sync(s, i, false, true);
		break;
	case CS_SYNC_SET32:
		sync(s, i, false, false);
		break;
	case CS_SYNC_ADD64:
		sync(s, i, true, true);
		break;
	case CS_SYNC_SET64:
		sync(s, i, true, false);
		break;
	case CS_STORE_STATE:
		store_state(s, i);
		break;
	case CS_ERROR_BARRIER:
		s->cs->faulted = 0;
		break;
	case CS_HEAP_SET:
		/* Remembered for tiler-oom, which needs a heap the program really uses. */
		s->cs->heap = get64(s, FIELD_ADDR(i));
		stub.count.heap_sets++;
		break;
	default:
		break;
	}
}

/* Run the buffer a CALL names, with the calls, jumps and branches inside it. */
void stream_call(struct stream *s, u64 call)
{
	struct {
		u64 pc, end;
	} stack[CALL_DEPTH];
	unsigned int depth = 0;
	u64 pc, end, i;

	stub.count.instructions++;
	pc = get64(s, FIELD_ADDR(call));
	end = pc + get32(s, FIELD_DATA(call));
	for (;;) {
		if (pc >= end) {
			if (!depth)
				return;
			depth--;
			pc = stack[depth].pc;
			end = stack[depth].end;
			continue;
		}
		if (!s->budget || !stream_fetch(s, pc, &i)) {
			stub.count.runaway_streams += !s->budget;
			return;
		}
		s->budget--;
		pc += sizeof(i);
		switch (opcode(i)) {
		case CS_CALL:
			if (depth == CALL_DEPTH)
				return;
			stack[depth].pc = pc;
			stack[depth].end = end;
			depth++;
			fallthrough;
		case CS_JUMP:
			stub.count.instructions++;
			pc = get64(s, FIELD_ADDR(i));
			end = pc + get32(s, FIELD_DATA(i));
			break;
		case CS_BRANCH:
			stub.count.instructions++;
			if (condition(i, get32(s, FIELD_ADDR(i))))
				pc += (s64)FIELD_OFFSET(i) * sizeof(i);
			break;
		default:
			stream_step(s, i);
			break;
		}
	}
}
