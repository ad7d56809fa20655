/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bench_plugin.c uses of QEMU's interface for TCG plugins. Distributions do
 * not package the header.
 */
#ifndef MAS_BENCH_PLUGIN_H
#define MAS_BENCH_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

typedef __u64 qemu_plugin_id_t;
typedef __u32 qemu_plugin_meminfo_t;

struct qemu_info {
	const char *target;
	struct {
		int min;
		int cur;
	} version;
};

enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_cb)(unsigned int vcpu, void *arg);
typedef void (*vcpu_mem_cb)(unsigned int vcpu, qemu_plugin_meminfo_t info,
			    __u64 vaddr, void *arg);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_cb cb,
					    int flags, void *arg);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, vcpu_mem_cb cb,
				      int flags, int access, void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  __u64 vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *addr);
__u64 qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *addr);
void qemu_plugin_outs(const char *text);

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			char **argv);

#endif /* MAS_BENCH_PLUGIN_H */
