/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of MAS, see Documentation/gpu/mxcd/tracing.rst. A request is named by
 * the number of its context and its own number there in all of them.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mxcd_mas

#if !defined(_MAS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MAS_TRACE_H

#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/tracepoint.h>

#include "mas.h"
#include "mas_io.h"

TRACE_DEFINE_ENUM(MXCD_MAS_OP_READ);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_WRITE);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_QUERY);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_ALLOC);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_FREE);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_REGISTER);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_UNREGISTER);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_FSYNC);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_FDATASYNC);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_FLUSH);
TRACE_DEFINE_ENUM(MXCD_MAS_OP_CANCEL);
TRACE_DEFINE_ENUM(MAS_PIECE_DIRECT);
TRACE_DEFINE_ENUM(MAS_PIECE_PROOF);
TRACE_DEFINE_ENUM(MAS_PIECE_EDGE);
TRACE_DEFINE_ENUM(MAS_PIECE_CACHED);
TRACE_DEFINE_ENUM(MAS_PIECE_STAGED);

#define mas_show_op(op)						\
	__print_symbolic(op,					\
			 { MXCD_MAS_OP_READ, "read" },		\
			 { MXCD_MAS_OP_WRITE, "write" },	\
			 { MXCD_MAS_OP_QUERY, "query" },	\
			 { MXCD_MAS_OP_ALLOC, "alloc" },	\
			 { MXCD_MAS_OP_FREE, "free" },		\
			 { MXCD_MAS_OP_REGISTER, "register" },	\
			 { MXCD_MAS_OP_UNREGISTER, "unregister" }, \
			 { MXCD_MAS_OP_FSYNC, "fsync" },	\
			 { MXCD_MAS_OP_FDATASYNC, "fdatasync" }, \
			 { MXCD_MAS_OP_FLUSH, "flush" },	\
			 { MXCD_MAS_OP_CANCEL, "cancel" })

#define mas_show_piece(piece)					\
	__print_symbolic(piece,					\
			 { MAS_PIECE_DIRECT, "direct" },	\
			 { MAS_PIECE_PROOF, "proof" },		\
			 { MAS_PIECE_EDGE, "edge" },		\
			 { MAS_PIECE_CACHED, "cached" },	\
			 { MAS_PIECE_STAGED, "staged" })

#define mas_show_route(route)					\
	__print_symbolic(route, { 0, "none" }, { 1, "p2p" }, { 2, "bounce" }, { 3, "both" })

/* A request was let into the queue of its context. */
TRACE_EVENT(mas_submit,
	    TP_PROTO(const struct mas_req *req, const struct mxcd_mas_req *args),
	    TP_ARGS(req, args),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
			     __field(u64, user_data)
			     __field(u64, pos)
			     __field(u64, len)
			     __field(u64, mem_offset)
			     __field(u32, file)
			     __field(u32, handle)
			     __field(u32, flags)
			     __field(u16, op)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
			   __entry->user_data = args->user_data;
			   __entry->pos = args->file_offset;
			   __entry->len = args->length;
			   __entry->mem_offset = args->mem_offset;
			   __entry->file = args->file;
			   __entry->handle = args->handle;
			   __entry->flags = args->flags;
			   __entry->op = args->op;
	    ),
	    TP_printk("ctx=%u req=%llu op=%s flags=0x%x file=%u pos=%llu len=%llu handle=%u mem_offset=%llu user_data=0x%llx",
		      __entry->ctx, __entry->seq, mas_show_op(__entry->op), __entry->flags,
		      __entry->file, __entry->pos, __entry->len, __entry->handle,
		      __entry->mem_offset, __entry->user_data)
);

/* A transfer asked which way it may go. */
TRACE_EVENT(mas_route,
	    TP_PROTO(const struct mas_req *req, unsigned int route, unsigned int reason),
	    TP_ARGS(req, route, reason),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
			     __field(u32, gpu)
			     __field(u32, route)
			     __field(u32, reason)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
			   __entry->gpu = req->gpu->index;
			   __entry->route = route;
			   __entry->reason = reason;
	    ),
	    TP_printk("ctx=%u req=%llu gpu=%u route=%s reason=%u",
		      __entry->ctx, __entry->seq, __entry->gpu,
		      mas_show_route(__entry->route), __entry->reason)
);

/* A piece of a transfer goes to the file system. */
TRACE_EVENT(mas_issue,
	    TP_PROTO(const struct mas_req *req),
	    TP_ARGS(req),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
			     __field(dev_t, dev)
			     __field(u64, ino)
			     __field(u64, pos)
			     __field(u64, len)
			     __field(u32, gpu)
			     __field(u16, op)
			     __field(u16, piece)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
			   __entry->dev = file_inode(req->file->file)->i_sb->s_dev;
			   __entry->ino = file_inode(req->file->file)->i_ino;
			   __entry->pos = req->pos + req->done;
			   __entry->len = req->piece_len;
			   __entry->gpu = req->gpu->index;
			   __entry->op = req->op;
			   __entry->piece = req->piece;
	    ),
	    TP_printk("ctx=%u req=%llu op=%s piece=%s dev=%d:%d ino=%llu pos=%llu len=%llu gpu=%u",
		      __entry->ctx, __entry->seq, mas_show_op(__entry->op),
		      mas_show_piece(__entry->piece), MAJOR(__entry->dev), MINOR(__entry->dev),
		      __entry->ino, __entry->pos, __entry->len, __entry->gpu)
);

/* Bytes of a transfer have gone through host memory. */
TRACE_EVENT(mas_bounce,
	    TP_PROTO(const struct mas_req *req, u64 bytes, unsigned int reason),
	    TP_ARGS(req, bytes, reason),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
			     __field(u64, bytes)
			     __field(u32, reason)
			     __field(u16, piece)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
			   __entry->bytes = bytes;
			   __entry->reason = reason;
			   __entry->piece = req->piece;
	    ),
	    TP_printk("ctx=%u req=%llu piece=%s bytes=%llu reason=%u",
		      __entry->ctx, __entry->seq, mas_show_piece(__entry->piece),
		      __entry->bytes, __entry->reason)
);

/* A request has its result. */
TRACE_EVENT(mas_complete,
	    TP_PROTO(const struct mas_req *req),
	    TP_ARGS(req),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
			     __field(u64, user_data)
			     __field(s64, result)
			     __field(u64, p2p_bytes)
			     __field(u16, op)
			     __field(u16, route)
			     __field(u16, reason)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
			   __entry->user_data = req->user_data;
			   __entry->result = req->result;
			   __entry->p2p_bytes = req->p2p_bytes;
			   __entry->op = req->op;
			   __entry->route = req->route;
			   __entry->reason = req->reason;
	    ),
	    TP_printk("ctx=%u req=%llu op=%s result=%lld p2p_bytes=%llu route=%s reason=%u user_data=0x%llx",
		      __entry->ctx, __entry->seq, mas_show_op(__entry->op), __entry->result,
		      __entry->p2p_bytes, mas_show_route(__entry->route), __entry->reason,
		      __entry->user_data)
);

/* The result of a request was handed out. */
TRACE_EVENT(mas_collect,
	    TP_PROTO(const struct mas_req *req),
	    TP_ARGS(req),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u64, seq)
	    ),
	    TP_fast_assign(__entry->ctx = req->ctx->id;
			   __entry->seq = req->seq;
	    ),
	    TP_printk("ctx=%u req=%llu", __entry->ctx, __entry->seq)
);

/* A file got an id. */
TRACE_EVENT(mas_register,
	    TP_PROTO(const struct mas_ctx *ctx, u32 id, const struct mas_file *file),
	    TP_ARGS(ctx, id, file),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u32, file)
			     __field(dev_t, dev)
			     __field(u64, ino)
			     __field(u32, read_align)
			     __field(u32, write_align)
			     __field(u32, reason)
	    ),
	    TP_fast_assign(__entry->ctx = ctx->id;
			   __entry->file = id;
			   __entry->dev = file_inode(file->file)->i_sb->s_dev;
			   __entry->ino = file_inode(file->file)->i_ino;
			   __entry->read_align = file->read_align;
			   __entry->write_align = file->write_align;
			   __entry->reason = file->reason;
	    ),
	    TP_printk("ctx=%u file=%u dev=%d:%d ino=%llu read_align=%u write_align=%u reason=%u",
		      __entry->ctx, __entry->file, MAJOR(__entry->dev), MINOR(__entry->dev),
		      __entry->ino, __entry->read_align, __entry->write_align, __entry->reason)
);

/* The id of a file is free again. */
TRACE_EVENT(mas_unregister,
	    TP_PROTO(const struct mas_ctx *ctx, u32 id),
	    TP_ARGS(ctx, id),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u32, file)
	    ),
	    TP_fast_assign(__entry->ctx = ctx->id;
			   __entry->file = id;
	    ),
	    TP_printk("ctx=%u file=%u", __entry->ctx, __entry->file)
);

DECLARE_EVENT_CLASS(mas_mem,
		    TP_PROTO(const struct mas_ctx *ctx, u32 handle, const struct mas_mem *mem),
		    TP_ARGS(ctx, handle, mem),
		    TP_STRUCT__entry(__field(u32, ctx)
				     __field(u32, handle)
				     __field(u32, gpu)
				     __field(u32, extents)
				     __field(u64, bytes)
		    ),
		    TP_fast_assign(__entry->ctx = ctx->id;
				   __entry->handle = handle;
				   __entry->gpu = mem->gpu->index;
				   __entry->extents = mem->nr_bvecs;
				   __entry->bytes = mem->size;
		    ),
		    TP_printk("ctx=%u handle=%u gpu=%u bytes=%llu extents=%u",
			      __entry->ctx, __entry->handle, __entry->gpu, __entry->bytes,
			      __entry->extents)
);

/* VRAM got a handle. */
DEFINE_EVENT(mas_mem, mas_alloc,
	     TP_PROTO(const struct mas_ctx *ctx, u32 handle, const struct mas_mem *mem),
	     TP_ARGS(ctx, handle, mem)
);

/* A handle was given up. */
DEFINE_EVENT(mas_mem, mas_free,
	     TP_PROTO(const struct mas_ctx *ctx, u32 handle, const struct mas_mem *mem),
	     TP_ARGS(ctx, handle, mem)
);

/* A handle was mapped; it is named by its offset for mmap(). */
TRACE_EVENT(mas_map,
	    TP_PROTO(const struct mas_ctx *ctx, const struct mas_mem *mem, u64 offset, u64 bytes),
	    TP_ARGS(ctx, mem, offset, bytes),
	    TP_STRUCT__entry(__field(u32, ctx)
			     __field(u32, gpu)
			     __field(u64, mmap_offset)
			     __field(u64, offset)
			     __field(u64, bytes)
	    ),
	    TP_fast_assign(__entry->ctx = ctx->id;
			   __entry->gpu = mem->gpu->index;
			   __entry->mmap_offset = PFN_PHYS(mem->pgoff);
			   __entry->offset = offset;
			   __entry->bytes = bytes;
	    ),
	    TP_printk("ctx=%u gpu=%u mmap_offset=%llu offset=%llu bytes=%llu",
		      __entry->ctx, __entry->gpu, __entry->mmap_offset, __entry->offset,
		      __entry->bytes)
);

/* The gate of a GPU: open; closed: nothing new starts; drained: nothing runs. */
TRACE_EVENT(mas_gate,
	    TP_PROTO(const struct mxcd_gpu *gpu, const char *state),
	    TP_ARGS(gpu, state),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, location)
			     __array(char, state, 8)
	    ),
	    TP_fast_assign(__entry->gpu = gpu->index;
			   __entry->location = pci_dev_id(gpu->pdev);
			   strscpy(__entry->state, state, 8);
	    ),
	    TP_printk("gpu=%u location=0x%x %s", __entry->gpu, __entry->location, __entry->state)
);

#endif /* _MAS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE mas_trace
#include <trace/define_trace.h>
