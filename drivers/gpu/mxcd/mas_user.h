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

#include <linux/types.h>
#include <linux/uaccess.h>

/**
 * mas_get_words - copy a structure from user space
 * @to: where to put it
 * @from: where it is
 * @size: its size, a multiple of 8
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
static __always_inline int mas_get_words(void *to, const void __user *from, unsigned int size)
{
	const u64 __user *src = from;
	u64 *dst = to;

	if (!user_read_access_begin(src, size))
		return -EFAULT;
	for (; size; size -= sizeof(*dst), src++, dst++)
		unsafe_get_user(*dst, src, fault);
	user_read_access_end();
	return 0;

fault:
	user_read_access_end();
	return -EFAULT;
}

/**
 * mas_put_words - copy a structure to user space
 * @to: where to put it
 * @from: where it is
 * @size: its size, a multiple of 8
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
static __always_inline int mas_put_words(void __user *to, const void *from, unsigned int size)
{
	u64 __user *dst = to;
	const u64 *src = from;

	if (!user_write_access_begin(dst, size))
		return -EFAULT;
	for (; size; size -= sizeof(*src), src++, dst++)
		unsafe_put_user(*src, dst, fault);
	user_write_access_end();
	return 0;

fault:
	user_write_access_end();
	return -EFAULT;
}

#endif /* _MAS_USER_H */
