/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * MAS: file data straight between NVMe storage and GPU VRAM.
 *
 * The one contract between the mxcd driver and user space. See
 * Documentation/gpu/mxcd/mas.rst for the concepts behind it.
 */
#ifndef _UAPI_LINUX_MXCD_MAS_H
#define _UAPI_LINUX_MXCD_MAS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: General rules
 *
 * /dev/mxcd_mas reaches every GPU, /dev/mxcd_mas<n> reaches GPU n alone. Each
 * open file is a context of its own: the memory handles, file ids and
 * completions of one context are not visible to another, and all of them go
 * when the last descriptor of the context is closed.
 *
 * The same request, &struct mxcd_mas_req, is taken by ioctl(MXCD_MAS_TRANSFER)
 * and by write(2). Its result, &struct mxcd_mas_comp, is returned in place by
 * the ioctl or by read(2). A bad request spoils itself only: it is accepted and
 * completes with a negative errno.
 *
 * Every structure has the same layout for 32-bit and 64-bit callers. Fields
 * named out_* are written by the kernel on success and ignored on input.
 * Fields named __reserved must be zero. Unknown flags are refused.
 *
 * VRAM is mapped with mmap(2): MAP_SHARED, without PROT_EXEC, not inherited by
 * fork(2). A handle is mapped at the offset that ALLOC returns. On a context that has
 * no handle yet, mmap(2) with offset 0 allocates as much VRAM as it is asked to map,
 * on the first GPU that the context reaches, and maps it; the memory is a handle as
 * any other, its number is 1 and its offset stays 0. Errors are those of ALLOC.
 *
 * Identifiers (memory handles and file ids) are numbers from 1 to
 * %MXCD_MAS_ID_MAX. Wherever one is made, 0 lets the kernel choose and any other
 * value asks for just that number.
 *
 * The ioctl numbers carry no size and no direction (_IO): the size travels in
 * the first field of each structure, so a structure that grows keeps its
 * number, and a new program meets an old kernel with a clear error. Errors:
 *
 *  - ENOTTY: the kernel does not know this ioctl.
 *  - E2BIG: the structure is longer than the kernel knows and the part that it
 *    does not know is not zero.
 *  - EINVAL: the structure is too short, a flag is unknown, a reserved field is
 *    not zero or a value is out of range.
 *  - EFAULT: a pointer does not lead to memory of the caller.
 *  - ENOENT: no such handle, file id or GPU in this context.
 *  - EEXIST: the identifier asked for is taken.
 *  - ENODEV: MAS is off for this GPU or the GPU is gone; mas_state in sysfs
 *    tells why.
 *  - ENOMEM: no host memory.
 *  - ENOSPC: ALLOC only: not enough free VRAM.
 *  - EPERM: the context was restricted, ioctl(MXCD_MAS_RESTRICT).
 *  - EDQUOT: ALLOC and IMPORT: more VRAM than the context may hold since then.
 *  - EACCES: write(2) and read(2) by a caller with more privilege than whoever
 *    opened the device.
 *
 * Further errors are documented where they belong; a transfer can also complete
 * with any error that pread(2) or pwrite(2) of the file can give.
 */

#define MXCD_MAS_VERSION	1
#define MXCD_MAS_ID_MAX		0x7fffffU

#define MXCD_MAS_IOC_TYPE	0xBC

/* One number space; append only. */
#define MXCD_MAS_QUERY		_IO(MXCD_MAS_IOC_TYPE, 0x00)
#define MXCD_MAS_QUERY_GPU	_IO(MXCD_MAS_IOC_TYPE, 0x01)
#define MXCD_MAS_QUERY_FILE	_IO(MXCD_MAS_IOC_TYPE, 0x02)
#define MXCD_MAS_ALLOC		_IO(MXCD_MAS_IOC_TYPE, 0x03)
#define MXCD_MAS_FREE		_IO(MXCD_MAS_IOC_TYPE, 0x04)
#define MXCD_MAS_REGISTER	_IO(MXCD_MAS_IOC_TYPE, 0x05)
#define MXCD_MAS_UNREGISTER	_IO(MXCD_MAS_IOC_TYPE, 0x06)
#define MXCD_MAS_TRANSFER	_IO(MXCD_MAS_IOC_TYPE, 0x07)
#define MXCD_MAS_EVENTFD	_IO(MXCD_MAS_IOC_TYPE, 0x08)
#define MXCD_MAS_RESTRICT	_IO(MXCD_MAS_IOC_TYPE, 0x09)
#define MXCD_MAS_EXPORT		_IO(MXCD_MAS_IOC_TYPE, 0x0a)
#define MXCD_MAS_IMPORT		_IO(MXCD_MAS_IOC_TYPE, 0x0b)
#define MXCD_MAS_PEEK		_IO(MXCD_MAS_IOC_TYPE, 0x0c)
#define MXCD_MAS_POKE		_IO(MXCD_MAS_IOC_TYPE, 0x0d)
/* A command of io_uring alone. */
#define MXCD_MAS_BUFFER		_IO(MXCD_MAS_IOC_TYPE, 0x0e)

/**
 * enum mxcd_mas_op - what a request does
 * @MXCD_MAS_OP_READ: file to VRAM. Result: bytes moved, 0 at or past the end of
 *	the file.
 * @MXCD_MAS_OP_WRITE: VRAM to file. Result: bytes moved.
 * @MXCD_MAS_OP_QUERY: ask for one number, see &enum mxcd_mas_key. Result: the
 *	number.
 * @MXCD_MAS_OP_ALLOC: as ioctl(MXCD_MAS_ALLOC). Result: the handle.
 * @MXCD_MAS_OP_FREE: as ioctl(MXCD_MAS_FREE). Result: 0.
 * @MXCD_MAS_OP_REGISTER: as ioctl(MXCD_MAS_REGISTER). Result: the file id.
 * @MXCD_MAS_OP_UNREGISTER: as ioctl(MXCD_MAS_UNREGISTER). Result: 0.
 * @MXCD_MAS_OP_FSYNC: as fsync(2) on the file. Result: 0.
 * @MXCD_MAS_OP_FDATASYNC: as fdatasync(2) on the file. Result: 0.
 * @MXCD_MAS_OP_FLUSH: wait until what disks have written to the VRAM of @handle
 *	has arrived there. Needed only by who moves data past this interface or
 *	with %MXCD_MAS_REQ_NOFLUSH. Result: 0.
 * @MXCD_MAS_OP_CANCEL: cancel the transfers of this context whose user_data is
 *	@mem_offset. Result: the number of transfers that were told; -ENOENT:
 *	none is in flight. A piece of a transfer that is with the storage is not
 *	called back; pieces that are not, do not start. A cancelled transfer
 *	completes with the bytes it had moved, or with -ECANCELED.
 * @MXCD_MAS_OP_PEEK: read @length bytes, 1 to 4, at @mem_offset of @handle. Result:
 *	the number that they are, the first byte the lowest.
 * @MXCD_MAS_OP_POKE: write the lower @length bytes, 1 to 4, of @arg there. Result:
 *	@length.
 * @MXCD_MAS_OP_EXPORT: no request: names ioctl(MXCD_MAS_EXPORT) for
 *	ioctl(MXCD_MAS_RESTRICT)
 * @MXCD_MAS_OP_IMPORT: likewise ioctl(MXCD_MAS_IMPORT)
 *
 * Any other operation completes with -EOPNOTSUPP. READ, WRITE, FSYNC, FDATASYNC
 * and FLUSH are I/O operations: they may complete later, and in any order. The
 * others are control operations: they are carried out while they are submitted,
 * in the order of submission, and have completed when the next request is looked
 * at.
 */
enum mxcd_mas_op {
	MXCD_MAS_OP_READ	= 1,
	MXCD_MAS_OP_WRITE	= 2,
	MXCD_MAS_OP_QUERY	= 3,
	MXCD_MAS_OP_ALLOC	= 4,
	MXCD_MAS_OP_FREE	= 5,
	MXCD_MAS_OP_REGISTER	= 6,
	MXCD_MAS_OP_UNREGISTER	= 7,
	MXCD_MAS_OP_FSYNC	= 8,
	MXCD_MAS_OP_FDATASYNC	= 9,
	MXCD_MAS_OP_FLUSH	= 10,
	MXCD_MAS_OP_CANCEL	= 11,
	MXCD_MAS_OP_PEEK	= 12,
	MXCD_MAS_OP_POKE	= 13,
	MXCD_MAS_OP_EXPORT	= 14,
	MXCD_MAS_OP_IMPORT	= 15,
};

/**
 * enum mxcd_mas_key - what a QUERY request asks for
 * @MXCD_MAS_KEY_VERSION: version of this interface, %MXCD_MAS_VERSION
 * @MXCD_MAS_KEY_FEATURES: bits, &enum mxcd_mas_feature
 * @MXCD_MAS_KEY_GPUS: bit n is set when this context reaches GPU n
 * @MXCD_MAS_KEY_GRANULE: VRAM is allocated in multiples of this, in bytes
 * @MXCD_MAS_KEY_MAX_QUEUE: requests a context may have submitted and not yet
 *	collected
 * @MXCD_MAS_KEY_MAX_FILES: files this context may register (RLIMIT_NOFILE of
 *	the caller, or what the context was restricted to)
 * @MXCD_MAS_KEY_VRAM_SIZE: bytes of VRAM that MAS serves on GPU @arg
 * @MXCD_MAS_KEY_VRAM_FREE: of these, bytes that are free for this context
 * @MXCD_MAS_KEY_HANDLE_SIZE: size of @handle in bytes
 * @MXCD_MAS_KEY_HANDLE_MMAP: offset to pass to mmap(2) to map @handle
 * @MXCD_MAS_KEY_FILE_READ_ALIGN: unit of a direct read from @file, in bytes; 0:
 *	the file has no direct I/O
 * @MXCD_MAS_KEY_FILE_WRITE_ALIGN: the same for a write
 * @MXCD_MAS_KEY_FILE_MEM_ALIGN: alignment that the storage controller of @file
 *	asks of memory, in bytes
 * @MXCD_MAS_KEY_ROUTE_READ: route of an aligned read from @file to GPU @arg,
 *	&enum mxcd_mas_route. The completion carries the reason as well.
 * @MXCD_MAS_KEY_ROUTE_WRITE: the same for a write
 * @MXCD_MAS_KEY_MAX_SEGS: segments that one request may have
 * @MXCD_MAS_KEY_DRIVER_VERSION: version of the driver, major << 16 | minor << 8 |
 *	patch
 * @MXCD_MAS_KEY_GUP: 1 if VRAM of GPU @arg that is mapped now can be the buffer of
 *	direct I/O of any program, else 0 and the completion carries the reason
 */
enum mxcd_mas_key {
	MXCD_MAS_KEY_VERSION		= 1,
	MXCD_MAS_KEY_FEATURES		= 2,
	MXCD_MAS_KEY_GPUS		= 3,
	MXCD_MAS_KEY_GRANULE		= 4,
	MXCD_MAS_KEY_MAX_QUEUE		= 5,
	MXCD_MAS_KEY_MAX_FILES		= 6,
	MXCD_MAS_KEY_VRAM_SIZE		= 7,
	MXCD_MAS_KEY_VRAM_FREE		= 8,
	MXCD_MAS_KEY_HANDLE_SIZE	= 9,
	MXCD_MAS_KEY_HANDLE_MMAP	= 10,
	MXCD_MAS_KEY_FILE_READ_ALIGN	= 11,
	MXCD_MAS_KEY_FILE_WRITE_ALIGN	= 12,
	MXCD_MAS_KEY_FILE_MEM_ALIGN	= 13,
	MXCD_MAS_KEY_ROUTE_READ		= 14,
	MXCD_MAS_KEY_ROUTE_WRITE	= 15,
	MXCD_MAS_KEY_MAX_SEGS		= 16,
	MXCD_MAS_KEY_DRIVER_VERSION	= 17,
	MXCD_MAS_KEY_GUP		= 18,
};

/**
 * enum mxcd_mas_feature - what this kernel can do beyond the base
 * @MXCD_MAS_FEATURE_SEGS: requests with a segment list are served
 * @MXCD_MAS_FEATURE_URING: requests are taken from io_uring
 * @MXCD_MAS_FEATURE_BUFFER: VRAM can be a registered buffer, &struct mxcd_mas_buffer
 */
enum mxcd_mas_feature {
	MXCD_MAS_FEATURE_SEGS	= 1 << 0,
	MXCD_MAS_FEATURE_URING	= 1 << 1,
	MXCD_MAS_FEATURE_BUFFER	= 1 << 2,
};

/**
 * enum mxcd_mas_req_flags - flags of a request
 * @MXCD_MAS_REQ_FD: READ, WRITE, FSYNC, FDATASYNC, QUERY: @file is a file descriptor of the
 *	caller, not a file id. Not with write(2), which takes -EINVAL for it.
 * @MXCD_MAS_REQ_P2P_ONLY: READ, WRITE: move nothing and complete with -EXDEV
 *	if any byte would have to go by bounce. The reason is in the completion.
 *	What only the first WRITE of a way finds out comes later: what was lost then is
 *	written again by bounce, and the count is short.
 * @MXCD_MAS_REQ_BOUNCE: READ, WRITE: go by bounce even where p2p is possible.
 * @MXCD_MAS_REQ_NOFLUSH: READ: collecting the completion need not order the
 *	data before later accesses to the GPU (no read of the BAR).
 * @MXCD_MAS_REQ_LINK: the next I/O operation of the same call starts only when
 *	this request has completed in full. If it fails or falls short, all that
 *	are linked behind it complete with -ECANCELED. A control operation in
 *	between takes part: it is carried out at submission, unless a control
 *	operation that it is linked to has failed.
 * @MXCD_MAS_REQ_DRAIN: I/O operations: start only when all I/O operations that
 *	were submitted to this context before have completed.
 */
enum mxcd_mas_req_flags {
	MXCD_MAS_REQ_FD		= 1 << 0,
	MXCD_MAS_REQ_P2P_ONLY	= 1 << 1,
	MXCD_MAS_REQ_BOUNCE	= 1 << 2,
	MXCD_MAS_REQ_NOFLUSH	= 1 << 3,
	MXCD_MAS_REQ_LINK	= 1 << 4,
	MXCD_MAS_REQ_DRAIN	= 1 << 5,
};

/**
 * struct mxcd_mas_seg - one piece of VRAM in a segment list
 * @handle: memory handle
 * @__reserved: must be zero
 * @offset: first byte within the handle
 * @length: bytes, at least 1
 *
 * A request with a segment list moves one range of a file to or from many pieces
 * of VRAM, in the order of the list. The pieces may belong to several handles,
 * all on one GPU, and may overlap. Their lengths add up to the length of the
 * request.
 */
struct mxcd_mas_seg {
	__u32 handle;
	__u32 __reserved;
	__aligned_u64 offset;
	__aligned_u64 length;
};

/**
 * struct mxcd_mas_req - a request, 64 bytes
 * @op: &enum mxcd_mas_op
 * @key: QUERY: &enum mxcd_mas_key; otherwise zero
 * @flags: &enum mxcd_mas_req_flags
 * @file: READ, WRITE, FSYNC, FDATASYNC, QUERY, UNREGISTER: file id, or descriptor
 *	with %MXCD_MAS_REQ_FD (not UNREGISTER). REGISTER: file id wanted, 0: any.
 * @handle: READ, WRITE, FLUSH, QUERY, FREE, PEEK, POKE: memory handle. ALLOC: handle wanted,
 *	0: any.
 * @file_offset: READ, WRITE: first byte in the file; any value from 0 to
 *	2^63 - 1
 * @length: READ, WRITE: bytes to move; @file_offset + @length must not pass
 *	2^63 - 1. ALLOC: bytes wanted. PEEK, POKE: 1 to 4.
 * @mem_offset: READ, WRITE: first byte within the handle; @mem_offset + @length
 *	must not pass its size. PEEK, POKE: likewise. CANCEL: the user_data to look for.
 * @user_data: returned in the completion, never looked at
 * @segs: address of an array of @nr_segs &struct mxcd_mas_seg that replaces
 *	@handle and @mem_offset; only with %MXCD_MAS_FEATURE_SEGS, otherwise zero
 * @nr_segs: number of segments; zero without a list
 * @arg: ALLOC and the QUERY keys that name a GPU: index of the GPU. REGISTER: the
 *	file descriptor. POKE: the number.
 *
 * A field that an operation does not use must be zero. The request is copied
 * when it is submitted; its memory may be reused as soon as the call returns.
 */
struct mxcd_mas_req {
	__u16 op;
	__u16 key;
	__u32 flags;
	__u32 file;
	__u32 handle;
	__aligned_u64 file_offset;
	__aligned_u64 length;
	__aligned_u64 mem_offset;
	__aligned_u64 user_data;
	__aligned_u64 segs;
	__u32 nr_segs;
	__u32 arg;
};

/**
 * enum mxcd_mas_route - the way the data went; bits
 * @MXCD_MAS_ROUTE_P2P: the storage controller moved data straight to or from
 *	VRAM
 * @MXCD_MAS_ROUTE_BOUNCE: data went through host RAM and was copied by the CPU
 *
 * Both bits are set where one part went either way. Neither is set where no
 * byte was moved.
 */
enum mxcd_mas_route {
	MXCD_MAS_ROUTE_P2P	= 1 << 0,
	MXCD_MAS_ROUTE_BOUNCE	= 1 << 1,
};

/**
 * enum mxcd_mas_reason - why data did not go p2p
 * @MXCD_MAS_REASON_NONE: it did
 * @MXCD_MAS_REASON_EDGE: start or end of the range is not a multiple of the
 *	file's direct I/O unit, or the range meets the end of the file; only these
 *	edges bounced
 * @MXCD_MAS_REASON_MEM_ALIGN: file offset and memory offset do not agree modulo
 *	the alignment that the disk asks of memory
 * @MXCD_MAS_REASON_REQUESTED: %MXCD_MAS_REQ_BOUNCE
 * @MXCD_MAS_REASON_APPEND: the file is open with O_APPEND
 * @MXCD_MAS_REASON_NO_DIO: the file has no direct I/O here
 * @MXCD_MAS_REASON_FS: the file system is none that is known to hand VRAM to the
 *	disk unchanged, or not for this file (encrypted; ext4 without extents)
 * @MXCD_MAS_REASON_STACKED: the block device is not an NVMe namespace or a
 *	partition of one (md, loop, multipath head, other kinds of disk)
 * @MXCD_MAS_REASON_REALTIME: the data is on an xfs realtime device
 * @MXCD_MAS_REASON_IOMMU: an IOMMU translates for the storage controller and no
 *	host bridge known to route peer traffic is between it and the GPU
 * @MXCD_MAS_REASON_HOST_BRIDGE: no common switch, and the host bridge is not
 *	known to route peer traffic
 * @MXCD_MAS_REASON_DMA_MASK: the storage controller cannot address the VRAM
 * @MXCD_MAS_REASON_SWIOTLB: the kernel bounces all DMA of the controller
 * @MXCD_MAS_REASON_ENCRYPTED: memory of this machine is encrypted
 * @MXCD_MAS_REASON_FELL_BACK: the file system gave up direct I/O by itself, or the
 *	disk or the quota is full: the page cache then finds out what still fits
 * @MXCD_MAS_REASON_INTEGRITY: the kernel makes and checks block integrity data
 * @MXCD_MAS_REASON_NOT_READY: a storage controller has no driver, or its driver
 *	is just coming or going
 * @MXCD_MAS_REASON_EXCLUDED: the administrator has excluded the controller
 *	(parameter exclude)
 * @MXCD_MAS_REASON_DISTANCE: the controller is too far away (parameter
 *	max_distance)
 * @MXCD_MAS_REASON_ACS: there is a common switch, but ACS makes it send peer
 *	traffic to the host bridge, which is not known to route it
 * @MXCD_MAS_REASON_NOT_PROVED: it was not possible to try out whether data
 *	arrives: no disk of the controller can be read, or the caller was killed
 * @MXCD_MAS_REASON_PROOF_FAILED: it was tried out, and data does not arrive
 * @MXCD_MAS_REASON_DM: a device-mapper device that the administrator has not
 *	listed (parameter dm_p2p)
 * @MXCD_MAS_REASON_NOT_PCI: the NVMe controller is not on PCI
 * @MXCD_MAS_REASON_P2PDMA: the kernel's P2PDMA, which provides the page structs,
 *	refuses the way although the rules of this driver do not
 * @MXCD_MAS_REASON_GUP: for %MXCD_MAS_KEY_GUP only: the parameter gup is 0
 */
enum mxcd_mas_reason {
	MXCD_MAS_REASON_NONE		= 0,
	MXCD_MAS_REASON_EDGE		= 1,
	MXCD_MAS_REASON_MEM_ALIGN	= 2,
	MXCD_MAS_REASON_REQUESTED	= 3,
	MXCD_MAS_REASON_APPEND		= 4,
	MXCD_MAS_REASON_NO_DIO		= 5,
	MXCD_MAS_REASON_FS		= 6,
	MXCD_MAS_REASON_STACKED		= 7,
	MXCD_MAS_REASON_REALTIME	= 8,
	MXCD_MAS_REASON_IOMMU		= 9,
	MXCD_MAS_REASON_HOST_BRIDGE	= 10,
	MXCD_MAS_REASON_DMA_MASK	= 11,
	MXCD_MAS_REASON_SWIOTLB		= 12,
	MXCD_MAS_REASON_ENCRYPTED	= 13,
	MXCD_MAS_REASON_FELL_BACK	= 14,
	MXCD_MAS_REASON_INTEGRITY	= 15,
	MXCD_MAS_REASON_NOT_READY	= 16,
	MXCD_MAS_REASON_EXCLUDED	= 17,
	MXCD_MAS_REASON_DISTANCE	= 18,
	MXCD_MAS_REASON_ACS		= 19,
	MXCD_MAS_REASON_NOT_PROVED	= 20,
	MXCD_MAS_REASON_PROOF_FAILED	= 21,
	MXCD_MAS_REASON_DM		= 22,
	MXCD_MAS_REASON_NOT_PCI		= 23,
	MXCD_MAS_REASON_P2PDMA		= 24,
	MXCD_MAS_REASON_GUP		= 25,
};

/**
 * struct mxcd_mas_comp - the result of a request, 32 bytes
 * @user_data: as in the request
 * @result: bytes moved, number asked for or identifier made; negative errno on
 *	failure. A transfer that fails after some bytes returns the bytes: like
 *	pread(2), the next one meets the error.
 * @p2p_bytes: of the bytes moved, those that went p2p
 * @route: &enum mxcd_mas_route
 * @reason: &enum mxcd_mas_reason of the first byte that did not go p2p
 * @__reserved: zero
 */
struct mxcd_mas_comp {
	__aligned_u64 user_data;
	__s64 result;
	__aligned_u64 p2p_bytes;
	__u16 route;
	__u16 reason;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_query - ioctl(MXCD_MAS_QUERY)
 * @size: sizeof(struct mxcd_mas_query)
 * @flags: must be zero
 * @out_version: %MXCD_MAS_VERSION
 * @out_granule: VRAM is allocated in multiples of this, in bytes
 * @out_features: bits, &enum mxcd_mas_feature
 * @out_gpus: bit n is set when this context reaches GPU n
 * @out_max_queue: requests a context may have submitted and not yet collected
 * @out_max_files: files this context may register (RLIMIT_NOFILE of the caller)
 * @out_driver_version: version of the driver, major << 16 | minor << 8 | patch; for
 *	people: what it can do is told by @out_version and @out_features
 * @__reserved: zero
 *
 * What this kernel and this context offer.
 */
struct mxcd_mas_query {
	__u32 size;
	__u32 flags;
	__u32 out_version;
	__u32 out_granule;
	__aligned_u64 out_features;
	__aligned_u64 out_gpus;
	__u32 out_max_queue;
	__u32 out_max_files;
	__u32 out_driver_version;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_query_gpu - ioctl(MXCD_MAS_QUERY_GPU)
 * @size: sizeof(struct mxcd_mas_query_gpu)
 * @flags: must be zero
 * @gpu: index of the GPU (mgpu_id in sysfs)
 * @__reserved: must be zero
 * @out_vram_size: bytes of VRAM that MAS serves
 * @out_vram_free: of these, bytes that are free for this context
 * @out_domain: PCI domain
 * @out_bdf: PCI bus << 8 | device << 3 | function
 * @out_vendor: PCI vendor id
 * @out_device: PCI device id
 *
 * One GPU.
 */
struct mxcd_mas_query_gpu {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 __reserved;
	__aligned_u64 out_vram_size;
	__aligned_u64 out_vram_free;
	__u32 out_domain;
	__u32 out_bdf;
	__u32 out_vendor;
	__u32 out_device;
};

/* No storage controller, no GPU in particular */
#define MXCD_MAS_NO_STORAGE	0xffffffff
#define MXCD_MAS_NO_GPU		0xffffffff

/**
 * struct mxcd_mas_query_file - ioctl(MXCD_MAS_QUERY_FILE)
 * @size: sizeof(struct mxcd_mas_query_file)
 * @flags: 0, or %MXCD_MAS_REQ_FD: @file is a file descriptor
 * @file: file id
 * @gpu: index of the GPU
 * @out_route_read: route of an aligned read, &enum mxcd_mas_route
 * @out_reason_read: &enum mxcd_mas_reason
 * @out_route_write: the same for a write
 * @out_reason_write: &enum mxcd_mas_reason
 * @out_read_align: unit of a direct read, in bytes; 0: no direct I/O
 * @out_write_align: unit of a direct write, in bytes; 0: no direct I/O
 * @out_mem_align: alignment that the disk asks of memory, in bytes
 * @__reserved: must be zero
 * @out_storage_domain: PCI domain of the storage controller that decides, or
 *	%MXCD_MAS_NO_STORAGE
 * @out_storage_bdf: its PCI bus << 8 | device << 3 | function, likewise
 *
 * What to expect of transfers between a file and a GPU. Requests that do not
 * keep to the alignments are served as well; parts of them bounce. A write counts
 * as p2p where it will be tried: the first writes between a controller and a GPU are
 * read back, see Documentation/gpu/mxcd/mas.rst.
 */
struct mxcd_mas_query_file {
	__u32 size;
	__u32 flags;
	__u32 file;
	__u32 gpu;
	__u32 out_route_read;
	__u32 out_reason_read;
	__u32 out_route_write;
	__u32 out_reason_write;
	__u32 out_read_align;
	__u32 out_write_align;
	__u32 out_mem_align;
	__u32 __reserved;
	__u32 out_storage_domain;
	__u32 out_storage_bdf;
};

/**
 * struct mxcd_mas_alloc - ioctl(MXCD_MAS_ALLOC)
 * @size: sizeof(struct mxcd_mas_alloc)
 * @flags: must be zero
 * @gpu: index of the GPU
 * @handle: in: handle wanted, 0: any; out: the handle
 * @length: in: bytes wanted, at least 1; out: bytes allocated, a multiple of the
 *	granule
 * @out_mmap_offset: offset to pass to mmap(2) on the same descriptor
 * @out_extents: physically contiguous pieces that the memory is made of
 * @__reserved: must be zero
 *
 * Allocate VRAM. It reads as zeros. -ENOSPC: not enough free VRAM; nothing was
 * allocated. -EINTR: the caller was killed meanwhile.
 */
struct mxcd_mas_alloc {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 handle;
	__aligned_u64 length;
	__aligned_u64 out_mmap_offset;
	__u32 out_extents;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_free - ioctl(MXCD_MAS_FREE)
 * @size: sizeof(struct mxcd_mas_free)
 * @handle: the handle
 *
 * Give a handle up; its number is free at once. The VRAM behind it is reused
 * when the last transfer in flight and the last mapping of it are gone.
 */
struct mxcd_mas_free {
	__u32 size;
	__u32 handle;
};

/**
 * struct mxcd_mas_register - ioctl(MXCD_MAS_REGISTER)
 * @size: sizeof(struct mxcd_mas_register)
 * @flags: must be zero
 * @fd: descriptor of a regular file or block device
 * @file: in: file id wanted, 0: any; out: the file id
 * @out_gpu: of the GPUs that this context reaches, the one with the worst verdicts
 *	for this file, or %MXCD_MAS_NO_GPU; what follows is about it
 * @out_route_read: as in &struct mxcd_mas_query_file, like the next five
 * @out_reason_read: &enum mxcd_mas_reason
 * @out_route_write: &enum mxcd_mas_route
 * @out_reason_write: &enum mxcd_mas_reason
 * @out_storage_domain: PCI domain of the controller that decides
 * @out_storage_bdf: PCI bus << 8 | device << 3 | function of it
 * @__reserved: must be zero
 *
 * Make a file known to this context. The descriptor may be closed afterwards.
 * -EBADF: no such descriptor, or one opened with O_PATH. -EINVAL: neither a
 * regular file nor a block device, or a file of proc, sysfs or cgroups.
 * -EOPNOTSUPP: the file is on a DAX file system or cannot be read by iterator.
 * -EMFILE: as many files are registered as the caller may have open
 * (RLIMIT_NOFILE), or as the context may have.
 */
struct mxcd_mas_register {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 file;
	__u32 out_gpu;
	__u32 out_route_read;
	__u32 out_reason_read;
	__u32 out_route_write;
	__u32 out_reason_write;
	__u32 out_storage_domain;
	__u32 out_storage_bdf;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_unregister - ioctl(MXCD_MAS_UNREGISTER)
 * @size: sizeof(struct mxcd_mas_unregister)
 * @file: the file id
 *
 * Forget a file; its number is free at once. Transfers in flight go on.
 */
struct mxcd_mas_unregister {
	__u32 size;
	__u32 file;
};

/**
 * struct mxcd_mas_transfer - ioctl(MXCD_MAS_TRANSFER)
 * @size: sizeof(struct mxcd_mas_transfer)
 * @flags: must be zero
 * @reqs: address of an array of @nr &struct mxcd_mas_req
 * @comps: address of an array of @nr &struct mxcd_mas_comp, or 0: results come
 *	by read(2)
 * @nr: number of requests, at least 1
 * @min_nr: return when so many have completed, at most @nr; with @comps only
 * @timeout_ns: wait no longer than this, in nanoseconds; 0: no limit
 * @out_submitted: requests taken, from the first; the rest was not looked at
 * @out_completed: of these, requests whose result is in @comps
 *
 * Submit requests and, if asked, wait for their results. The call returns 0 as
 * soon as one request was taken. Entry i of @comps belongs to request i. A
 * request that had not completed when the call returned, because fewer were
 * waited for or the time was over, has the result -EINPROGRESS there and its
 * other fields as they were; its completion comes by read(2). As pread(2) on a
 * file, the wait ends early only when the caller is killed. The queue holds at
 * most out_max_queue requests (&struct mxcd_mas_query): when it is full, fewer
 * are taken, and when not even one fits the call waits until one does or, with
 * O_NONBLOCK, fails with -EAGAIN. With O_NONBLOCK submission does not wait for a
 * disk. Submission ends early where a request cannot be read or its entry of
 * @comps not be written (-EFAULT if it is the first); a chain of links that is
 * cut thereby completes with -ECANCELED.
 */
struct mxcd_mas_transfer {
	__u32 size;
	__u32 flags;
	__aligned_u64 reqs;
	__aligned_u64 comps;
	__u32 nr;
	__u32 min_nr;
	__aligned_u64 timeout_ns;
	__u32 out_submitted;
	__u32 out_completed;
};

/**
 * struct mxcd_mas_uring - the command of an IORING_OP_URING_CMD
 * @req: address of a &struct mxcd_mas_req
 * @comp: address of a &struct mxcd_mas_comp to fill in, or 0
 *
 * Lies in the 16 bytes of the SQE's command; cmd_op is %MXCD_MAS_TRANSFER. The
 * request is copied when the SQE is issued. The result of the CQE is that of the
 * request, at most 2^31 - 1; @comp has all of it, before the CQE is posted.
 * %MXCD_MAS_REQ_LINK and %MXCD_MAS_REQ_DRAIN are refused with -EINVAL: rings have
 * flags of their own for that. -ENOTTY: another cmd_op. On a ring with
 * IORING_SETUP_IOPOLL, p2p is polled for where the disk has queues for that.
 */
struct mxcd_mas_uring {
	__aligned_u64 req;
	__aligned_u64 comp;
};

/* Empty the slot; only @slot counts. */
#define MXCD_MAS_BUFFER_REMOVE	(1 << 0)

/**
 * struct mxcd_mas_buffer - VRAM as a registered buffer of a ring
 * @size: sizeof(struct mxcd_mas_buffer)
 * @flags: 0 or %MXCD_MAS_BUFFER_REMOVE
 * @handle: the handle
 * @slot: of the ring's table of buffers, empty
 * @offset: first byte within the handle, a multiple of the page size
 * @length: bytes, a multiple of the page size, at least one and less than 4 GiB
 *
 * The argument of an IORING_OP_URING_CMD with cmd_op %MXCD_MAS_BUFFER: its address is
 * @req of the &struct mxcd_mas_uring in the command. READ_FIXED and WRITE_FIXED find the
 * memory at address 0 of the slot. The VRAM is not reused, and unbind waits, until
 * the slot is empty and no request uses it.
 *
 * -EACCES: the parameter gup is 0, or a storage controller is not proved, see
 * %MXCD_MAS_KEY_GUP. -EOPNOTSUPP: no %MXCD_MAS_FEATURE_BUFFER. -EBUSY: the slot is
 * taken, or to be removed and not of this kind. -EINVAL: a bad range, no such slot, or
 * an empty one to be removed. -EPERM: the context may not map memory.
 */
struct mxcd_mas_buffer {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 slot;
	__aligned_u64 offset;
	__aligned_u64 length;
};

/**
 * struct mxcd_mas_eventfd - ioctl(MXCD_MAS_EVENTFD)
 * @size: sizeof(struct mxcd_mas_eventfd)
 * @flags: must be zero
 * @fd: an eventfd, or -1 for none
 * @__reserved: must be zero
 *
 * Raise an eventfd by one for each completion that read(2) can collect. Replaces
 * the one set before. -EBADF: no such descriptor. -EINVAL: not an eventfd.
 */
struct mxcd_mas_eventfd {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_restrict - ioctl(MXCD_MAS_RESTRICT)
 * @size: sizeof(struct mxcd_mas_restrict)
 * @flags: must be zero
 * @gpus: bit n: GPU n can still be named
 * @ops: bit n: operation n (&enum mxcd_mas_op) stays allowed, by a request or by an
 *	ioctl. Bit 0: mmap(2) of the descriptor stays allowed; what EXPORT makes can
 *	always be mapped.
 * @req_flags: &enum mxcd_mas_req_flags that stay allowed
 * @max_files: files that may be registered at a time
 * @max_vram: bytes of VRAM that the context may hold, on all GPUs together; what is
 *	freed counts as long as a transfer or a mapping uses it
 * @max_queue: requests that may be submitted and not yet collected, at least 1
 * @__reserved: must be zero
 *
 * Narrow what a context may do, for whoever has its descriptor. A broker does that
 * before it hands the descriptor on. There is no way back: what held before goes on
 * to hold, and of both the stricter counts. A value with all bits set changes
 * nothing. What the context has already, it keeps: handles, files and requests
 * beyond a new limit stay, and no more are made. ioctl(MXCD_MAS_QUERY), read(2),
 * poll(2) and this ioctl are always allowed.
 */
struct mxcd_mas_restrict {
	__u32 size;
	__u32 flags;
	__aligned_u64 gpus;
	__aligned_u64 ops;
	__u32 req_flags;
	__u32 max_files;
	__aligned_u64 max_vram;
	__u32 max_queue;
	__u32 __reserved;
};

/**
 * struct mxcd_mas_export - ioctl(MXCD_MAS_EXPORT)
 * @size: sizeof(struct mxcd_mas_export)
 * @flags: must be zero
 * @handle: the handle
 * @out_fd: descriptor of the dma-buf, closed by execve(2)
 * @offset: first byte within the handle, a multiple of the page size
 * @length: bytes, a multiple of the page size, at least one
 *
 * Make a dma-buf of a handle or of a range of it. The memory lives until the last of
 * them is gone. The buffer can be mapped, passed to another process, imported there,
 * and attached to by drivers that can address a peer and let themselves be revoked:
 * that happens when the GPU is unbound. -EINVAL: the range is not within the handle.
 * -EMFILE: too many descriptors. -ENODEV: the GPU is gone or was reset since.
 */
struct mxcd_mas_export {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__s32 out_fd;
	__aligned_u64 offset;
	__aligned_u64 length;
};

/**
 * struct mxcd_mas_import - ioctl(MXCD_MAS_IMPORT)
 * @size: sizeof(struct mxcd_mas_import)
 * @flags: must be zero
 * @fd: descriptor of a dma-buf that ioctl(MXCD_MAS_EXPORT) has made
 * @handle: in: handle wanted, 0: any; out: the handle
 * @out_length: bytes
 * @out_mmap_offset: offset to pass to mmap(2)
 * @out_gpu: index of the GPU
 * @out_extents: physically contiguous pieces that the memory is made of
 *
 * Make a handle of memory that another context has exported. It is a handle as any
 * other, and counts as VRAM of this context too. The descriptor may be closed
 * afterwards. -EBADF: no such descriptor. -EINVAL: no dma-buf. -EOPNOTSUPP: a dma-buf
 * of another driver: the kernel has no page structs for that, or does not let them be
 * used. -ENOENT: this context does not reach that GPU.
 */
struct mxcd_mas_import {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 handle;
	__aligned_u64 out_length;
	__aligned_u64 out_mmap_offset;
	__u32 out_gpu;
	__u32 out_extents;
};

/**
 * struct mxcd_mas_peek - ioctl(MXCD_MAS_PEEK) and ioctl(MXCD_MAS_POKE)
 * @size: sizeof(struct mxcd_mas_peek)
 * @flags: must be zero
 * @handle: the handle
 * @__reserved: must be zero
 * @offset: first byte within the handle
 * @length: bytes
 * @buf: address in the memory of the caller
 *
 * Copy from VRAM to the caller (PEEK), or from the caller to VRAM (POKE), by the CPU.
 * Any offset and length. -EINVAL: the range is not within the handle; nothing was
 * copied. -EFAULT, -ENODEV (the GPU is gone): a part may have been copied. -ENOMEM. -EINTR:
 * the caller was killed.
 */
struct mxcd_mas_peek {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 __reserved;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 buf;
};

#endif /* _UAPI_LINUX_MXCD_MAS_H */
