/* SPDX-License-Identifier: GPL-2.0 */
/* What tests of verdicts read and write in sysfs. Include mas_utils.h first. */
#ifndef MAS_SYSFS_H
#define MAS_SYSFS_H

#include <glob.h>

#define MAS_PARAMETERS	"/sys/module/mxcd/parameters"
#define MAS_NODES	"/sys/class/mxcd/mxcd/layout/nodes"

/* Bits of the parameter fault, in builds with CONFIG_MXCD_DEBUG */
#define FAULT_READ	1
#define FAULT_WRITE	2
#define FAULT_NO_PROOF	4
#define FAULT_REFUSE	8

static inline int mas_put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text));
	ret = ret < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* The first line of a file. */
static inline int mas_get_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -errno;
	ret = read(fd, text, size - 1);
	ret = ret < 0 ? -errno : ret;
	close(fd);
	if (ret < 0)
		return ret;
	text[ret] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

static inline int mas_set_param(const char *name, const char *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), MAS_PARAMETERS "/%s", name);
	return mas_put_text(path, value);
}

static inline int mas_set_fault(unsigned int bits)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", bits);
	return mas_set_param("fault", value);
}

/* A file of storage_links of GPU @gpu, for the controller @domain, @bdf. */
static inline int mas_link(int gpu, __u32 domain, __u32 bdf, const char *name,
			   char *text, size_t size)
{
	char path[PATH_MAX], id[32];
	glob_t nodes;
	size_t i;
	int ret = -ENOENT;

	if (glob(MAS_NODES "/*/properties", 0, NULL, &nodes))
		return ret;
	for (i = 0; i < nodes.gl_pathc && ret == -ENOENT; i++) {
		FILE *f = fopen(nodes.gl_pathv[i], "r");
		int n = -1;

		while (f && fgets(path, sizeof(path), f))
			sscanf(path, "mgpu_id %d", &n);
		if (f)
			fclose(f);
		if (n != gpu)
			continue;
		snprintf(id, sizeof(id), "%04x:%02x:%02x.%x", domain, bdf >> 8,
			 bdf >> 3 & 31, bdf & 7);
		snprintf(path, sizeof(path), "%.*s/storage_links/%s/%s",
			 (int)(strlen(nodes.gl_pathv[i]) - strlen("/properties")),
			 nodes.gl_pathv[i], id, name);
		ret = mas_get_text(path, text, size);
	}
	globfree(&nodes);
	return ret;
}

static inline const char *mas_reason_name(unsigned int reason)
{
	static const char * const names[] = {
		[MXCD_MAS_REASON_NONE] = "NONE",
		[MXCD_MAS_REASON_EDGE] = "EDGE",
		[MXCD_MAS_REASON_MEM_ALIGN] = "MEM_ALIGN",
		[MXCD_MAS_REASON_REQUESTED] = "REQUESTED",
		[MXCD_MAS_REASON_APPEND] = "APPEND",
		[MXCD_MAS_REASON_NO_DIO] = "NO_DIO",
		[MXCD_MAS_REASON_FS] = "FS",
		[MXCD_MAS_REASON_STACKED] = "STACKED",
		[MXCD_MAS_REASON_REALTIME] = "REALTIME",
		[MXCD_MAS_REASON_IOMMU] = "IOMMU",
		[MXCD_MAS_REASON_HOST_BRIDGE] = "HOST_BRIDGE",
		[MXCD_MAS_REASON_DMA_MASK] = "DMA_MASK",
		[MXCD_MAS_REASON_SWIOTLB] = "SWIOTLB",
		[MXCD_MAS_REASON_ENCRYPTED] = "ENCRYPTED",
		[MXCD_MAS_REASON_FELL_BACK] = "FELL_BACK",
		[MXCD_MAS_REASON_INTEGRITY] = "INTEGRITY",
		[MXCD_MAS_REASON_NOT_READY] = "NOT_READY",
		[MXCD_MAS_REASON_EXCLUDED] = "EXCLUDED",
		[MXCD_MAS_REASON_DISTANCE] = "DISTANCE",
		[MXCD_MAS_REASON_ACS] = "ACS",
		[MXCD_MAS_REASON_NOT_PROVED] = "NOT_PROVED",
		[MXCD_MAS_REASON_PROOF_FAILED] = "PROOF_FAILED",
		[MXCD_MAS_REASON_DM] = "DM",
		[MXCD_MAS_REASON_NOT_PCI] = "NOT_PCI",
		[MXCD_MAS_REASON_P2PDMA] = "P2PDMA",
	};

	return reason < ARRAY_SIZE(names) && names[reason] ? names[reason] : "?";
}

#endif /* MAS_SYSFS_H */
