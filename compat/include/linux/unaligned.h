/* SPDX-License-Identifier: GPL-2.0 */
/* 6.12: moved here. */
#include <asm/unaligned.h>
