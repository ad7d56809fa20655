// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU: count what the emulated CPU does between two marks of the
 * bench (bench_count.h). It sees each access of the CPU to memory, with the
 * address behind the page tables: which mapping the driver, the kernel or a
 * program takes to reach VRAM makes no difference. And it sees each "syscall"
 * instruction.
 *
 * Where VRAM is, it learns from the bench, which reads the start of it by an
 * instruction that is marked. What lies around that address by less than the size
 * of VRAM is VRAM: nothing else of the machine is so near.
 *
 * It is loaded by the QEMU of the host but compiled with the compiler of the
 * guest, and so uses nothing of the C library.
 *
 * usage: qemu-system-x86_64 -plugin bench_plugin.so,vram=BYTES -d plugin -D LOG
 */
#include "bench_count.h"
#include "bench_plugin.h"

/* Of the interface: QEMU serves some versions before its own too. */
#ifndef PLUGIN_API
#define PLUGIN_API	1
#endif

/* The bytes of an instruction are got in another way since then. */
#define API_COPIES_BYTES	3

#define SYSCALL_SIZE	2
#define SYSCALL_0	0x0f
#define SYSCALL_1	0x05

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_API;

static int api;
static __u64 vram_size;
static __u64 vram_addr;

static bool counting, learning;
static struct {
	__u64 reads;
	__u64 writes;
	__u64 unknown;	/* accesses whose address QEMU did not tell */
	__u64 syscalls;
} count;

/* --- one line a mark --------------------------------------------------------- */

static char *add_text(char *p, const char *text)
{
	while (*text)
		*p++ = *text++;
	return p;
}

static char *add_number(char *p, const char *name, __u64 value)
{
	char digits[20];
	int nr = 0;

	p = add_text(p, name);
	do {
		digits[nr++] = '0' + value % 10;
		value /= 10;
	} while (value);
	while (nr)
		*p++ = digits[--nr];
	return p;
}

static void count_begin(unsigned int vcpu, void *arg)
{
	count.reads = 0;
	count.writes = 0;
	count.unknown = 0;
	count.syscalls = 0;
	counting = true;
	qemu_plugin_outs("mas_begin\n");
}

static void count_end(unsigned int vcpu, void *arg)
{
	char line[160], *p = line;

	counting = false;
	p = add_text(p, "mas_end");
	p = add_number(p, " bar_reads ", count.reads);
	p = add_number(p, " bar_writes ", count.writes);
	p = add_number(p, " unknown ", count.unknown);
	p = add_number(p, " syscalls ", count.syscalls);
	*p++ = '\n';
	*p = 0;
	qemu_plugin_outs(line);
}

/* --- what the CPU does --------------------------------------------------------- */

static void see_syscall(unsigned int vcpu, void *arg)
{
	if (counting)
		count.syscalls++;
}

static void count_access(const struct qemu_plugin_hwaddr *addr, bool store)
{
	__u64 phys;

	if (!addr) {
		count.unknown++;
		return;
	}
	if (qemu_plugin_hwaddr_is_io(addr))
		return;
	phys = qemu_plugin_hwaddr_phys_addr(addr);
	if (phys + vram_size <= vram_addr || phys >= vram_addr + vram_size)
		return;
	if (store)
		count.writes++;
	else
		count.reads++;
}

/* An interrupt may come in between: only the program's own address counts. */
static void learn_vram(const struct qemu_plugin_hwaddr *addr, __u64 vaddr)
{
	char line[80], *p = line;

	if (!addr || vaddr >> 63)
		return;
	learning = false;
	vram_addr = qemu_plugin_hwaddr_phys_addr(addr);
	p = add_number(p, "mas_vram ", vram_addr);
	*p++ = '\n';
	*p = 0;
	qemu_plugin_outs(line);
}

static void see_access(unsigned int vcpu, qemu_plugin_meminfo_t info, __u64 vaddr,
		       void *arg)
{
	struct qemu_plugin_hwaddr *addr;

	if (!counting && !learning)
		return;
	addr = qemu_plugin_get_hwaddr(info, vaddr);
	if (learning)
		learn_vram(addr, vaddr);
	if (counting)
		count_access(addr, qemu_plugin_mem_is_store(info));
}

static void learn_begin(unsigned int vcpu, void *arg)
{
	learning = true;
}

/* --- instructions ---------------------------------------------------------------- */

/* Copy the bytes of an instruction of at most COUNT_NOP_SIZE of them. */
static void get_bytes(const struct qemu_plugin_insn *insn, unsigned char *to, size_t size)
{
	size_t (*copy)(const struct qemu_plugin_insn *insn, void *to, size_t size);
	const unsigned char *from;
	size_t i;

	if (api >= API_COPIES_BYTES) {
		copy = (void *)qemu_plugin_insn_data;
		copy(insn, to, size);
		return;
	}
	from = qemu_plugin_insn_data(insn);
	for (i = 0; i < size; i++)
		to[i] = from[i];
}

/* The code of a mark, or 0. */
static __u32 get_mark(const unsigned char *bytes)
{
	if (bytes[0] != COUNT_NOP_0 || bytes[1] != COUNT_NOP_1 || bytes[2] != COUNT_NOP_2)
		return 0;
	return bytes[3] | bytes[4] << 8 | bytes[5] << 16 | (__u32)bytes[6] << 24;
}

static void on_exec(struct qemu_plugin_insn *insn, vcpu_cb cb)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void see_insn(struct qemu_plugin_insn *insn)
{
	size_t size = qemu_plugin_insn_size(insn);
	unsigned char bytes[COUNT_NOP_SIZE];

	qemu_plugin_register_vcpu_mem_cb(insn, see_access, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_RW, NULL);
	if (size != SYSCALL_SIZE && size != COUNT_NOP_SIZE)
		return;
	get_bytes(insn, bytes, size);
	if (size == SYSCALL_SIZE) {
		if (bytes[0] == SYSCALL_0 && bytes[1] == SYSCALL_1)
			on_exec(insn, see_syscall);
		return;
	}
	switch (get_mark(bytes)) {
	case COUNT_BEGIN:
		on_exec(insn, count_begin);
		break;
	case COUNT_END:
		on_exec(insn, count_end);
		break;
	case COUNT_LEARN:
		on_exec(insn, learn_begin);
		break;
	}
}

static void see_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, nr = qemu_plugin_tb_n_insns(tb);

	for (i = 0; i < nr; i++)
		see_insn(qemu_plugin_tb_get_insn(tb, i));
}

/* argv[0] is "vram=BYTES". */
__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	const char *p;

	if (argc != 1)
		return -1;
	for (p = argv[0]; *p; p++)
		if (*p >= '0' && *p <= '9')
			vram_size = vram_size * 10 + *p - '0';
	api = info->version.cur;
	/* No access can be near this one. */
	vram_addr = 1ULL << 63;
	qemu_plugin_register_vcpu_tb_trans_cb(id, see_block);
	return 0;
}
