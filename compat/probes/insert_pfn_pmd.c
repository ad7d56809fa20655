// SPDX-License-Identifier: GPL-2.0
#include <linux/mm.h>

vm_fault_t mxcd_probe(struct vm_fault *vmf, unsigned long pfn);

vm_fault_t mxcd_probe(struct vm_fault *vmf, unsigned long pfn)
{
	return vmf_insert_pfn_pmd(vmf, pfn, false);
}
