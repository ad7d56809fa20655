/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The version of the driver. This is the one place: modinfo, sysfs, the query ioctl
 * and "make version" take it from here.
 */
#ifndef _MXCD_VERSION_H
#define _MXCD_VERSION_H

#include <linux/stringify.h>

#define MXCD_VERSION_MAJOR	0
#define MXCD_VERSION_MINOR	1
#define MXCD_VERSION_PATCH	0

#define MXCD_VERSION	__stringify(MXCD_VERSION_MAJOR) "." \
			__stringify(MXCD_VERSION_MINOR) "." \
			__stringify(MXCD_VERSION_PATCH)

#endif /* _MXCD_VERSION_H */
