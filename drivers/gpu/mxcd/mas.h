/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The MAS side of the driver: contexts, memory handles, files, requests.
 *
 * Data goes one way: mas_dev parses, mas_plan resolves {file id -> mas_file,
 * handle -> mas_mem} and asks mas_route, mas_io has mas_piece move one piece after
 * the other by the VFS, the completion goes to the caller's queue in mas_ctx.
 *
 * Who holds what while DMA runs: a request holds its file, its memory handle
 * and the gate of the GPU, and its context cannot be freed before it has
 * completed. Closing a descriptor, freeing a handle or unregistering a file only
 * drops the context's own reference.
 */
#ifndef _MAS_H
#define _MAS_H

#include <linux/bits.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <uapi/linux/mxcd_mas.h>

#include "mxcd.h"

struct bio_vec;
struct gendisk;
struct cred;
struct dma_buf;
struct eventfd_ctx;
struct io_comp_batch;
struct io_uring_cmd;
struct iov_iter;
struct mas_quota;	/* mas_restrict.c */
struct mas_req;		/* mas_io.h */
struct mas_stack;	/* mas_stack.c */
struct seq_file;
struct task_struct;
struct vm_area_struct;

/* Requests a context may have submitted and not yet collected. */
#define MAS_MAX_QUEUE	4096

/* Segments of one request; its extents are limited too, see mas_view.c. */
#define MAS_MAX_SEGS	32768

/* Numbers that are found without a walk. */
#define MAS_LOW_IDS	64

/**
 * struct mas_ids - numbers of a context and what they stand for
 * @all: number -> object
 * @low: the same for the first numbers, which is all that most contexts have;
 *	written with the lock of @all held
 */
struct mas_ids {
	struct xarray all;
	void __rcu *low[MAS_LOW_IDS];
};

/**
 * struct mas_chain - requests that are complete, oldest first
 * @first: the first, the others by mas_req::next, or NULL
 * @end: where the next one is put
 */
struct mas_chain {
	struct mas_req *first;
	struct mas_req **end;
};

static inline void mas_chain_init(struct mas_chain *chain)
{
	chain->first = NULL;
	chain->end = &chain->first;
}

/**
 * struct mas_ctx_stats - counters of a context
 * @p2p_bytes: moved p2p, by direction (1: write)
 * @bounce_bytes: moved by bounce
 * @errors: requests that failed
 * @queue_full: requests that found the queue full
 *
 * Protected by mas_ctx::lock. All zero without CONFIG_MXCD_STATS.
 */
struct mas_ctx_stats {
	u64 p2p_bytes[2];
	u64 bounce_bytes[2];
	u64 errors;
	u64 queue_full;
};

/**
 * struct mas_ctx - an open file of /dev/mxcd_mas*
 * @id: number of the context, for people; never used twice
 * @gpus: bit n is set when this context may use GPU n
 * @ops: bit n is set when it may do operation n, bit 0 when it may map memory
 * @req_flags: flags that its requests may have
 * @max_files: files that it may register, whatever RLIMIT_NOFILE is
 * @restricted: not all of @ops or @req_flags
 * @quota: VRAM that it holds, and how much it may
 * @nr_extents: of all segment lists under way
 * @holder: on the list of contexts, see mas_holders.c
 * @opener: process that opened it; may be gone, or have passed the descriptor on
 * @comm: its name
 * @mems: handle -> &struct mas_mem
 * @maps: page offset of a mapping -> &struct mas_mem
 * @files: file id -> &struct mas_file
 * @nr_files: registered files, counted against RLIMIT_NOFILE
 * @spare: requests that were used before, a chain by mas_req::next; taken and put
 *	back as a whole, by xchg()
 * @nr_queued: requests in flight and those complete but not collected
 * @max_queue: no more than this
 * @lock: protects everything below, and where a request is listed; irqsave
 * @inflight: requests submitted and not complete, newest first: the oldest is the
 *	one with none behind it
 * @done: requests complete, to be read
 * @nr_inflight: length of @inflight
 * @nr_submitted: requests ever let into the queue; numbers them
 * @stats: what became of them
 * @eventfd: raised for each request that goes to @done, or NULL
 * @closed: the descriptor is gone; the last request in flight frees the context
 * @wait: for completions and for room in the queue
 * @wq: carries what this context has submitted and what may sleep; its own, so
 *	that a stalled disk of one tenant does not stall another's work. Made when
 *	it is first needed.
 * @free_work: frees the context when that cannot be done by who is last
 */
struct mas_ctx {
	u32 id;
	u64 gpus;
	u64 ops;
	u32 req_flags;
	u32 max_files;
	bool restricted;
	struct mas_quota *quota;
	atomic_t nr_extents;
	struct list_head holder;
	pid_t opener;
	char comm[TASK_COMM_LEN];
	struct mas_ids mems;
	struct maple_tree maps;
	struct mas_ids files;
	atomic_t nr_files;
	struct mas_req *spare;
	atomic_t nr_queued;
	unsigned int max_queue;
	spinlock_t lock; /* see above */
	struct hlist_head inflight;
	struct mas_chain done;
	unsigned int nr_inflight;
	u64 nr_submitted;
	struct mas_ctx_stats stats;
	struct eventfd_ctx *eventfd;
	bool closed;
	wait_queue_head_t wait;
	struct workqueue_struct *wq;
	struct work_struct free_work;
};

/**
 * struct mas_batch - requests whose submitter waits for them
 * @done: complete
 * @nr_done: length of @done
 * @wake_at: wake the submitter when @nr_done reaches this
 * @submitter: who is woken
 *
 * Lives on the stack of the submitter. Everything is protected by
 * mas_ctx::lock. A request refers to its batch until it is complete or the
 * submitter leaves, whichever comes first.
 */
struct mas_batch {
	struct mas_chain done;
	unsigned int nr_done;
	unsigned int wake_at;
	struct task_struct *submitter;
};

/**
 * struct mas_submit - requests of one call, on their way in
 * @ctx: the context
 * @batch: the batch that they belong to, or NULL
 * @how: MAS_IO_* flags
 * @ioprio: I/O priority of the caller
 * @nr: requests taken so far
 * @last: no more come in this call
 * @spare: requests to be used before new ones are made
 * @file_id: id of @file
 * @file: the file that was named last, a reference is held, or NULL
 * @handle: number of @mem
 * @mem: the handle that was named last, a reference is held, or NULL
 * @head: first I/O operation of a chain of links that is not complete yet
 * @tail: last one
 * @broken: a control operation of this chain has failed
 * @cmd: the command of a ring that this is, or NULL
 */
struct mas_submit {
	struct mas_ctx *ctx;
	struct mas_batch *batch;
	unsigned int how;
	u16 ioprio;
	bool last;
	unsigned int nr;
	struct mas_req *spare;
	u32 file_id;
	struct mas_file *file;
	u32 handle;
	struct mas_mem *mem;
	struct mas_req *head;
	struct mas_req *tail;
	bool broken;
	struct io_uring_cmd *cmd;
};

/**
 * struct mas_view - a row of extents
 * @bvecs: the extents, each at most 1 GiB
 * @starts: offset of each
 * @nr_bvecs: number of them
 * @borders: the addresses at which extents meet, ored together: tells what all
 *	of them are multiples of
 * @generation: mxcd_gpu::generation that the VRAM was allocated in
 */
struct mas_view {
	const struct bio_vec *bvecs;
	const u64 *starts;
	unsigned int nr_bvecs;
	u64 borders;
	unsigned int generation;
};

/**
 * struct mas_mem - VRAM behind a memory handle
 * @ref: the context's handle, each request in flight, each mapping
 * @gpu: where it is; a reference is held
 * @node: on mxcd_gpu::mems while @bvecs are allocated VRAM; off it once the GPU
 *	was unbound. Protected by mxcd_gpu::lock.
 * @size: bytes, a multiple of the granule
 * @pgoff: where it is in mas_ctx::maps, in pages; low, so that 32-bit callers
 *	reach it
 * @bvecs: the extents, each at most 1 GiB; used under the GPU's gate only
 * @nr_bvecs: number of them
 * @starts: offset of each extent within the handle
 * @view: both of them, as requests use them
 * @quota: that @size is charged to
 * @whole: what this is a part of, and whose extents it has; a reference is held. Only
 *	a whole one is listed in @node. NULL if it is one.
 * @gup: was mapped so that others can pin its pages; never goes back
 * @buffers: registered buffers of rings that it is in
 * @unpinned: pages from the first that nobody has pinned, once nothing maps it;
 *	protected by mxcd_gpu::lock
 * @mapper: process that mapped it so, the last one
 * @mapper_comm: its name
 * @linger: on the list of those that wait for pins to go, see mas_gup.c
 * @free_work: frees it when the last reference goes where one may not sleep
 * @rcu: look-ups may still read @ref
 */
struct mas_mem {
	refcount_t ref;
	struct mxcd_gpu *gpu;
	struct list_head node;
	u64 size;
	unsigned long pgoff;
	struct bio_vec *bvecs;
	unsigned int nr_bvecs;
	u64 *starts;
	struct mas_view view;
	struct mas_quota *quota;
	struct mas_mem *whole;
	bool gup;
	atomic_t buffers;
	unsigned long unpinned;
	pid_t mapper;
	char mapper_comm[TASK_COMM_LEN];
	struct list_head linger;
	struct work_struct free_work;
	struct rcu_head rcu;
};

/**
 * struct mas_file - a registered file
 * @ref: the context's id and each request in flight
 * @file: the file
 * @pdev: the NVMe controller that the file's data is behind, a reference is
 *	held, or NULL
 * @stack: what to ask where there may be several, or NULL
 * @reason: where there is neither, why there is no p2p, &enum mxcd_mas_reason
 * @page_cache: I/O that is not direct goes through the page cache
 * @read_align: unit of a direct read in bytes; 0: no direct I/O
 * @write_align: unit of a direct write that shares no page with the page cache
 * @mem_align: what the disk asks of memory addresses
 * @seg_align: what the block layer asks of each but the last memory extent
 * @max_command: bytes that the disk moves by one command, at most
 * @routes: cached verdict for each GPU, see mas_route_get()
 * @free_work: frees it when the last reference goes where one may not sleep
 * @rcu: look-ups may still read @ref
 */
struct mas_file {
	refcount_t ref;
	struct file *file;
	struct pci_dev *pdev;
	struct mas_stack *stack;
	u16 reason;
	bool page_cache;
	u32 read_align;
	u32 write_align;
	u32 mem_align;
	u32 seg_align;
	u64 max_command;
	u64 routes[MXCD_MAX_GPUS];
	struct work_struct free_work;
	struct rcu_head rcu;
};

/**
 * enum mas_proof - what trying it out has shown of a way
 * @MAS_PROOF_NONE: not tried yet, or nothing
 * @MAS_PROOF_PASSED: data arrives
 * @MAS_PROOF_FAILED: data is lost, or is not what it should be
 */
enum mas_proof {
	MAS_PROOF_NONE,
	MAS_PROOF_PASSED,
	MAS_PROOF_FAILED,
};

/**
 * struct mas_route - verdict for a GPU, a storage controller and a direction
 * @route: %MXCD_MAS_ROUTE_P2P or %MXCD_MAS_ROUTE_BOUNCE
 * @reason: why not p2p, &enum mxcd_mas_reason
 */
struct mas_route {
	u16 route;
	u16 reason;
};

struct mas_segs;	/* mas_view.c */

/* What a number stands for, or NULL; under rcu_read_lock(). */
static inline void *mas_id_find(struct mas_ids *ids, u32 id)
{
	if (id < MAS_LOW_IDS)
		return rcu_dereference(ids->low[array_index_nospec(id, MAS_LOW_IDS)]);

	return xa_load(&ids->all, id);
}

/**
 * mas_mem_get - find a handle
 * @ctx: the context
 * @handle: the handle
 *
 * Context: any.
 * Return: the handle, to be given back by mas_mem_put(), or NULL.
 */
static inline struct mas_mem *mas_mem_get(struct mas_ctx *ctx, u32 handle)
{
	struct mas_mem *mem;

	rcu_read_lock();
	mem = mas_id_find(&ctx->mems, handle);
	if (mem && !refcount_inc_not_zero(&mem->ref))
		mem = NULL;
	rcu_read_unlock();

	return mem;
}

/**
 * mas_file_get - find a registered file
 * @ctx: the context
 * @id: the file's id
 *
 * Context: any.
 * Return: the file, to be given back by mas_file_put(), or NULL.
 */
static inline struct mas_file *mas_file_get(struct mas_ctx *ctx, u32 id)
{
	struct mas_file *file;

	rcu_read_lock();
	file = mas_id_find(&ctx->files, id);
	if (file && !refcount_inc_not_zero(&file->ref))
		file = NULL;
	rcu_read_unlock();

	return file;
}

/**
 * mas_batch_init - prepare a batch
 * @batch: on the stack of the submitter
 * @min_nr: how many it is going to wait for
 *
 * To be ended by mas_batch_end().
 */
static inline void mas_batch_init(struct mas_batch *batch, unsigned int min_nr)
{
	mas_chain_init(&batch->done);
	batch->nr_done = 0;
	/* Who still submits then is woken for nothing, which does no harm. */
	batch->wake_at = min_nr;
	batch->submitter = current;
}

extern struct workqueue_struct *mas_wq;

/**
 * mas_mem_put - drop a reference to a handle
 * @mem: the handle
 *
 * Context: any, hard interrupts too. If it is the last, the VRAM is given back
 * a little later.
 */
static inline void mas_mem_put(struct mas_mem *mem)
{
	if (refcount_dec_and_test(&mem->ref))
		queue_work(mas_wq, &mem->free_work);
}

/**
 * mas_file_put - drop a reference to a registered file
 * @file: the file
 *
 * Context: any, hard interrupts too. If it is the last, the file is closed a
 * little later.
 */
static inline void mas_file_put(struct mas_file *file)
{
	if (refcount_dec_and_test(&file->ref))
		queue_work(mas_wq, &file->free_work);
}

/* mas_dev.c */
int mas_dev_init(void);
void mas_dev_exit(void);
int mas_dev_add(int index);
void mas_dev_zap(void);
void mas_dev_adopt(struct file *file);

/* mas_ctx.c */
struct mas_ctx *mas_ctx_create(u64 gpus);
void mas_ctx_close(struct mas_ctx *ctx);
void mas_ctx_wait_all(void);
int mas_ctx_set_eventfd(struct mas_ctx *ctx, int fd);
int mas_id_reserve(struct mas_ids *ids, u32 *id);
void mas_id_release(struct mas_ids *ids, u32 id);
void mas_id_commit(struct mas_ids *ids, u32 id, void *object);
void *mas_id_remove(struct mas_ids *ids, u32 id);
void mas_ctx_show(struct mas_ctx *ctx, struct seq_file *m);

/* mas_restrict.c */
int mas_may_init(struct mas_ctx *ctx);
void mas_may_exit(struct mas_ctx *ctx);
bool mas_may_op(struct mas_ctx *ctx, unsigned int op);
bool mas_may_mmap(struct mas_ctx *ctx);
int mas_may_submit(struct mas_ctx *ctx, const struct mxcd_mas_req *args);
int mas_restrict(struct mas_ctx *ctx, const struct mxcd_mas_restrict *args);
u32 mas_max_files(struct mas_ctx *ctx);
int mas_quota_charge(struct mas_quota *quota, u64 bytes);
void mas_quota_uncharge(struct mas_quota *quota, u64 bytes);
u64 mas_quota_left(struct mas_ctx *ctx);

/* mas_holders.c */
int mas_holders_add(struct mas_ctx *ctx);
void mas_holders_del(struct mas_ctx *ctx);
u64 mas_holders_inflight(struct mxcd_gpu *gpu);
ssize_t mas_holders_show(struct mxcd_gpu *gpu, char *buf);
bool mas_is_draining(void);
void mas_set_draining(bool draining);

/* mas_queue.c */
ssize_t mas_ctx_read(struct mas_ctx *ctx, struct mxcd_mas_comp __user *buf,
		     unsigned int max, bool nonblock);
unsigned int mas_batch_end(struct mas_ctx *ctx, struct mas_batch *batch,
			   struct mxcd_mas_comp __user *comps, unsigned int nr, u64 timeout_ns);
__poll_t mas_ctx_poll(struct mas_ctx *ctx);

/* mas_mem.c */
struct mas_mem *mas_mem_alloc(struct mas_ctx *ctx, struct mxcd_mas_alloc *args, bool first);
int mas_mem_place(struct mas_ctx *ctx, struct mas_mem *mem, bool first);
struct mas_mem *mas_mem_part(struct mas_mem *mem, u64 offset, u64 size,
			     struct mas_quota *quota);
bool mas_mem_enter(struct mas_mem *mem);
bool mas_mem_release(struct mas_mem *mem);
void mas_mem_commit(struct mas_ctx *ctx, u32 handle, struct mas_mem *mem);
void mas_mem_abort(struct mas_ctx *ctx, u32 handle, struct mas_mem *mem);
int mas_mem_free(struct mas_ctx *ctx, u32 handle);
void mas_mem_put_sync(struct mas_mem *mem);
void mas_mem_revoke_all(struct mxcd_gpu *gpu);

/* mas_mmap.c */
int mas_mmap_mem(struct mas_mem *mem, struct vm_area_struct *vma);
int mas_mmap(struct mas_ctx *ctx, struct vm_area_struct *vma);

/* mas_dmabuf.c */
void mas_dmabuf_prepare(struct mxcd_gpu *gpu);
struct dma_buf *mas_dmabuf_export(struct mas_ctx *ctx, struct mxcd_mas_export *args);
void mas_dmabuf_end(const struct mxcd_mas_export *args, struct dma_buf *dmabuf, bool told);
struct mas_mem *mas_dmabuf_import(struct mas_ctx *ctx, struct mxcd_mas_import *args);
void mas_dmabuf_revoke(struct mxcd_gpu *gpu);

/* mas_ringbuf.c */
bool mas_ringbuf_works(void);
int mas_ringbuf_issue(struct mas_ctx *ctx, struct io_uring_cmd *cmd, unsigned int issue_flags);

/* mas_peek.c */
int mas_peek(struct mas_ctx *ctx, const struct mxcd_mas_peek *args, bool write);
s64 mas_peek_req(struct mas_ctx *ctx, const struct mxcd_mas_req *args);

/* mas_gup.c */
bool mas_gup_wanted(void);
unsigned int mas_gup_reason(struct mxcd_gpu *gpu, struct pci_dev **decider);
bool mas_gup_allowed(struct mxcd_gpu *gpu);
bool mas_gup_mapped_stays(struct mxcd_gpu *gpu);
void mas_gup_prove(struct mxcd_gpu *gpu);
void mas_gup_prove_all(u64 gpus);
void mas_gup_changed(void);
void mas_gup_stop(void);
ssize_t mas_gup_show(struct mxcd_gpu *gpu, char *buf);
void mas_gup_mapped(struct mas_mem *mem);
void mas_gup_hold(struct mas_mem *mem);
void mas_gup_drop(struct mas_mem *mem);
bool mas_gup_pinned(struct mas_mem *mem);
void mas_gup_linger(struct mas_mem *mem);
void mas_gup_wait(struct mxcd_gpu *gpu);
void mas_gup_exit(void);

/* mas_view.c */
void mas_view_iter(const struct mas_view *view, u64 offset, size_t len,
		   unsigned int dir, struct bio_vec *one, struct iov_iter *iter);
bool mas_view_fits_many(const struct mas_view *view, u64 offset, u64 len, u32 align,
			u32 seg_align);
unsigned long mas_view_page(const struct mas_view *view, u64 offset,
			    unsigned long *contig);
struct mas_segs *mas_segs_create(struct mas_ctx *ctx, const struct mxcd_mas_req *args);
struct mxcd_gpu *mas_segs_gpu(const struct mas_segs *segs);
const struct mas_view *mas_segs_view(const struct mas_segs *segs);
void mas_segs_put(struct mas_segs *segs);

/* mas_file.c */
struct mas_file *mas_file_register(struct mas_ctx *ctx, int fd, u32 *id, bool wait);
void mas_file_commit(struct mas_ctx *ctx, u32 id, struct mas_file *file);
void mas_file_abort(struct mas_ctx *ctx, u32 id, struct mas_file *file);
int mas_file_unregister(struct mas_ctx *ctx, u32 id);
struct mas_file *mas_file_get_fd(int fd);
void mas_file_prove(struct mas_file *file, unsigned int index);
void mas_file_free(struct mas_file *file);

/* mas_route.c */
extern atomic_t mas_route_generation;
u64 mas_route_work_out(struct mas_file *file, struct mxcd_gpu *gpu);
struct mas_route mas_route_eval(struct pci_dev *storage, struct mxcd_gpu *gpu, bool write);
struct mas_route mas_route_promise(struct mas_file *file, struct mxcd_gpu *gpu, bool write,
				   struct pci_dev **decider);
void mas_route_prove(struct mas_file *file, struct mxcd_gpu *gpu);
struct pci_dev *mas_route_only(struct mas_file *file);
bool mas_route_can_prove_writes(struct mas_file *file);
unsigned int mas_route_proved(struct pci_dev *storage, struct mxcd_gpu *gpu, bool write);
int mas_route_prove_storage(struct pci_dev *storage, struct mxcd_gpu *gpu);
u32 mas_route_now(void);
void mas_route_forget(void);
void mas_route_changed(void);
const char *mas_route_reason(unsigned int reason);

/* mas_pci.c */
#define MAS_DRIVER_NAME_LEN	64

unsigned int mas_pci_reason(struct pci_dev *storage, struct mxcd_gpu *gpu);
unsigned int mas_pci_peer_reason(struct pci_dev *peer, struct mxcd_gpu *gpu);
unsigned int mas_pci_distance(struct pci_dev *storage, struct mxcd_gpu *gpu);
int mas_pci_driver(struct pci_dev *storage, char *buf);
bool mas_pci_serves_disks(struct pci_dev *storage);

/* mas_stack.c */
struct pci_dev *mas_stack_controller(struct gendisk *disk);
struct mas_stack *mas_stack_create(struct gendisk *disk);
void mas_stack_free(struct mas_stack *stack);
u16 mas_stack_reason(struct mas_stack *stack);
bool mas_stack_changed(struct mas_stack *stack);
struct pci_dev *mas_stack_next(struct mas_stack *stack, struct pci_dev *storage);
struct pci_dev *mas_stack_only(struct mas_stack *stack);

/* mas_policy.c */
bool mas_policy_trusts_host_bridge(void);
bool mas_policy_trusts_writes(void);
unsigned int mas_policy_max_distance(void);
bool mas_policy_excludes(struct pci_dev *storage);
bool mas_policy_dm(const char *name);

/* mas_proof.c */
int mas_proof_init(void);
void mas_proof_exit(void);
int mas_proof_run(struct mxcd_gpu *gpu, struct pci_dev *storage);
enum mas_proof mas_proof_state(struct mxcd_gpu *gpu, struct pci_dev *storage, bool write);
void mas_proof_written(struct mxcd_gpu *gpu, struct pci_dev *storage, bool passed);
void mas_proof_drop_gpu(struct mxcd_gpu *gpu);
void mas_proof_drop_storage(struct pci_dev *storage);
void mas_proof_drop_all(void);

/* mas_query.c */
int mas_query(struct mas_ctx *ctx, struct mxcd_mas_query *args);
int mas_query_gpu(struct mas_ctx *ctx, struct mxcd_mas_query_gpu *args);
int mas_query_file(struct mas_ctx *ctx, struct mxcd_mas_query_file *args, bool wait);
void mas_query_registered(struct mas_ctx *ctx, struct mas_file *file,
			  struct mxcd_mas_register *args);
s64 mas_query_key(struct mas_ctx *ctx, const struct mxcd_mas_req *args,
		  u16 *reason, bool wait);

/* mas_uring.c */
int mas_uring_issue(struct mas_ctx *ctx, struct io_uring_cmd *cmd,
		    unsigned int issue_flags);
int mas_uring_iopoll(struct io_uring_cmd *cmd, struct io_comp_batch *iob,
		     unsigned int poll_flags);

/* mas_ioctl.c */
long mas_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

/* mas_io.c */
int mas_io_init(void);
void mas_io_exit(void);
void mas_io_free(struct mas_req *req);
void mas_io_keep(struct mas_ctx *ctx, struct mas_req *chain);

/* mas_submit.c */
int mas_check_req(const struct mxcd_mas_req *args, unsigned int how);
long mas_submit_user(struct mas_ctx *ctx, const struct mxcd_mas_req __user *reqs,
		     struct mxcd_mas_comp __user *comps, unsigned int nr,
		     struct mas_batch *batch, unsigned int how);
void mas_submit_begin(struct mas_submit *submit, struct mas_ctx *ctx,
		      struct mas_batch *batch, unsigned int how);
int mas_submit_one(struct mas_submit *submit, const struct mxcd_mas_req *args);
void mas_submit_end(struct mas_submit *submit, bool cut);

/* How to submit */
#define MAS_IO_NONBLOCK		BIT(0)	/* do not wait for a disk */
#define MAS_IO_QUEUE_NOWAIT	BIT(1)	/* do not wait for room in the queue */
#define MAS_IO_INLINE		BIT(2)	/* the submitter waits anyway: no work item */
#define MAS_IO_NO_FD		BIT(3)	/* files by id only */
#define MAS_IO_WAITS		BIT(4)	/* MAS_IO_INLINE, and it is the submitter */
#define MAS_IO_POLLED		BIT(5)	/* who waits polls the disk */

/**
 * mas_file_put_sync - drop a reference to a registered file
 * @file: the file
 *
 * Context: process context of a system call; may sleep. If it is the last, the
 * file is closed before the call returns to user space, as close(2) would: a file
 * system can be unmounted right after its last file was unregistered.
 */
static inline void mas_file_put_sync(struct mas_file *file)
{
	if (refcount_dec_and_test(&file->ref))
		mas_file_free(file);
}

/* How requests that come by a file are submitted. */
static inline unsigned int mas_submit_flags(struct file *filp)
{
	return filp->f_flags & O_NONBLOCK ? MAS_IO_NONBLOCK | MAS_IO_QUEUE_NOWAIT : 0;
}

/**
 * mas_route_get - the verdict for a registered file
 * @file: the file
 * @gpu: the GPU, its gate held
 * @write: from VRAM to the file
 *
 * %MXCD_MAS_REASON_NOT_PROVED: mas_route_prove() may change that, and a write that is
 * read back.
 *
 * Context: may sleep, not for a disk.
 * Return: why I/O that is aligned is not p2p, or %MXCD_MAS_REASON_NONE.
 */
static inline u16 mas_route_get(struct mas_file *file, struct mxcd_gpu *gpu, bool write)
{
	u32 generation = atomic_read(&mas_route_generation);
	u64 packed = READ_ONCE(file->routes[gpu->index]);

	/* Of a stack it never is. */
	if (unlikely(packed >> 32 != generation))
		packed = mas_route_work_out(file, gpu);

	return write ? packed >> 16 : packed;
}

/**
 * mas_view_fits - may a slice be named to a disk as it lies in memory?
 * @view: the VRAM, the GPU's gate held
 * @offset: first byte
 * @len: bytes, at least 1
 * @align: alignment that the disk asks of addresses, a power of two
 * @seg_align: unit that the length of each extent but the last must be a
 *	multiple of, a power of two, at least @align
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool mas_view_fits(const struct mas_view *view, u64 offset, u64 len, u32 align,
				 u32 seg_align)
{
	if (view->nr_bvecs > 1)
		return mas_view_fits_many(view, offset, len, align, seg_align);

	return IS_ALIGNED(view->bvecs->bv_offset + offset, align);
}

#endif /* _MAS_H */
