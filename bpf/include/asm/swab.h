/* SPDX-License-Identifier: GPL-2.0-only */
/* Empty on purpose: some BCC includes it, our programs need nothing from it. */
