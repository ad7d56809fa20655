/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures of user space that are rows of 64-bit words, as all of ours are.
 *
 * copy_from_user() and copy_to_user() serve any length and make sure of both sides
 * of the copy each time. That takes about a hundred instructions, which is much
 * beside the few words of a request.
 */
#ifndef _MAS_USER_H
#define _MAS_USER_H

#include <linux/build_bug.h>
#include <linux/types.h>
#include <linux/uaccess.h>

/**
 * mas_get_words - copy a structure from user space
 * @to: where to put it
 * @from: where it is
 * @size: its size, a constant, 1 to 8 words
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
static __always_inline int mas_get_words(void *to, const void __user *from, const size_t size)
{
	const u64 __user *src = from;
	u64 *dst = to;

	BUILD_BUG_ON(!size || size % sizeof(*dst) || size > 8 * sizeof(*dst));

	if (!user_read_access_begin(src, size))
		return -EFAULT;
	/* A loop would take more than what it repeats. */
	switch (size / sizeof(*dst)) {
	case 8:
		unsafe_get_user(dst[7], src + 7, fault);
		fallthrough;
	case 7:
		unsafe_get_user(dst[6], src + 6, fault);
		fallthrough;
	case 6:
		unsafe_get_user(dst[5], src + 5, fault);
		fallthrough;
	case 5:
		unsafe_get_user(dst[4], src + 4, fault);
		fallthrough;
	case 4:
		unsafe_get_user(dst[3], src + 3, fault);
		fallthrough;
	case 3:
		unsafe_get_user(dst[2], src + 2, fault);
		fallthrough;
	case 2:
		unsafe_get_user(dst[1], src + 1, fault);
		fallthrough;
	case 1:
		unsafe_get_user(dst[0], src, fault);
	}
	user_read_access_end();
	return 0;

fault:
	user_read_access_end();
	return -EFAULT;
}

/**
 * mas_put_word - copy 8 bytes to user space
 * @to: where to put them
 * @from: where they are
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
static __always_inline int mas_put_word(void __user *to, const void *from)
{
	u64 __user *dst = to;
	const u64 *src = from;

	if (!user_write_access_begin(dst, sizeof(*dst)))
		return -EFAULT;
	unsafe_put_user(*src, dst, fault);
	user_write_access_end();
	return 0;

fault:
	user_write_access_end();
	return -EFAULT;
}

#endif /* _MAS_USER_H */
