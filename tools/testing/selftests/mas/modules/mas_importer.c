// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that attaches to a dma-buf, for the tests: as one whose device reaches for
 * the memory of a peer would, and gives it up when it is told to.
 *
 * Each open file of /dev/mas_importer has one buffer. Write "FD BDF": attach, for that
 * PCI function, and map. Read: "mapped", or "revoked", then address and length of
 * each piece, in hexadecimal.
 */
#include <linux/dma-buf-mapping.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define TEXT_LEN	PAGE_SIZE

struct importer {
	struct mutex lock; /* one call at a time */
	struct pci_dev *pdev;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	struct sg_table *sgt; /* protected by the reservation lock of dmabuf */
	bool revoked;
};

static void importer_unmap(struct importer *imp)
{
	dma_resv_assert_held(imp->dmabuf->resv);

	if (imp->sgt)
		dma_buf_unmap_attachment(imp->attach, imp->sgt, DMA_BIDIRECTIONAL);
	imp->sgt = NULL;
}

static void importer_invalidate(struct dma_buf_attachment *attach)
{
	struct importer *imp = attach->importer_priv;

	importer_unmap(imp);
	imp->revoked = true;
}

static const struct dma_buf_attach_ops importer_attach_ops = {
	.allow_peer2peer	= true,
	.invalidate_mappings	= importer_invalidate,
};

static void importer_detach(struct importer *imp)
{
	if (imp->attach) {
		dma_resv_lock(imp->dmabuf->resv, NULL);
		importer_unmap(imp);
		dma_resv_unlock(imp->dmabuf->resv);
		dma_buf_detach(imp->dmabuf, imp->attach);
		imp->attach = NULL;
	}
	if (imp->dmabuf)
		dma_buf_put(imp->dmabuf);
	imp->dmabuf = NULL;
	pci_dev_put(imp->pdev);
	imp->pdev = NULL;
}

static int importer_attach(struct importer *imp, int fd, int domain, int bus, int devfn)
{
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;

	imp->pdev = pci_get_domain_bus_and_slot(domain, bus, devfn);
	if (!imp->pdev)
		return -ENODEV;

	imp->dmabuf = dma_buf_get(fd);
	if (IS_ERR(imp->dmabuf)) {
		int ret = PTR_ERR(imp->dmabuf);

		imp->dmabuf = NULL;
		return ret;
	}

	attach = dma_buf_dynamic_attach(imp->dmabuf, &imp->pdev->dev, &importer_attach_ops, imp);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	imp->attach = attach;

	dma_resv_lock(imp->dmabuf->resv, NULL);
	sgt = dma_buf_map_attachment(attach, DMA_BIDIRECTIONAL);
	if (!IS_ERR(sgt))
		imp->sgt = sgt;
	dma_resv_unlock(imp->dmabuf->resv);

	return PTR_ERR_OR_ZERO(sgt);
}

static ssize_t importer_write(struct file *filp, const char __user *buf, size_t count,
			      loff_t *ppos)
{
	unsigned int domain, bus, dev, fn;
	struct importer *imp = filp->private_data;
	char text[64] = "";
	int fd, ret;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, count))
		return -EFAULT;
	if (sscanf(text, "%d %x:%x:%x.%x", &fd, &domain, &bus, &dev, &fn) != 5)
		return -EINVAL;

	mutex_lock(&imp->lock);
	importer_detach(imp);
	imp->revoked = false;
	ret = importer_attach(imp, fd, domain, bus, PCI_DEVFN(dev, fn));
	if (ret)
		importer_detach(imp);
	mutex_unlock(&imp->lock);

	return ret ? ret : count;
}

static int importer_text(struct importer *imp, char *text)
{
	struct scatterlist *sg;
	int i, len;

	len = scnprintf(text, TEXT_LEN, "%s\n", imp->revoked ? "revoked" :
					       imp->dmabuf ? "mapped" : "nothing");
	if (!imp->dmabuf)
		return len;

	dma_resv_lock(imp->dmabuf->resv, NULL);
	if (imp->sgt)
		for_each_sgtable_dma_sg(imp->sgt, sg, i)
			len += scnprintf(text + len, TEXT_LEN - len, "%llx %x\n",
					 (u64)sg_dma_address(sg), sg_dma_len(sg));
	dma_resv_unlock(imp->dmabuf->resv);

	return len;
}

static ssize_t importer_read(struct file *filp, char __user *buf, size_t count, loff_t *ppos)
{
	struct importer *imp = filp->private_data;
	char *text = kzalloc(TEXT_LEN, GFP_KERNEL);
	ssize_t ret;

	if (!text)
		return -ENOMEM;

	mutex_lock(&imp->lock);
	ret = importer_text(imp, text);
	mutex_unlock(&imp->lock);
	ret = simple_read_from_buffer(buf, count, ppos, text, ret);
	kfree(text);

	return ret;
}

static int importer_open(struct inode *inode, struct file *filp)
{
	struct importer *imp = kzalloc(sizeof(*imp), GFP_KERNEL);

	if (!imp)
		return -ENOMEM;

	mutex_init(&imp->lock);
	filp->private_data = imp;
	return 0;
}

static int importer_release(struct inode *inode, struct file *filp)
{
	struct importer *imp = filp->private_data;

	importer_detach(imp);
	kfree(imp);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner		= THIS_MODULE,
	.open		= importer_open,
	.release	= importer_release,
	.read		= importer_read,
	.write		= importer_write,
	.llseek		= default_llseek,
};

static struct miscdevice importer_dev = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "mas_importer",
	.fops	= &importer_fops,
};
module_misc_device(importer_dev);

MODULE_IMPORT_NS("DMA_BUF");
MODULE_DESCRIPTION("Importer of dma-bufs, for the selftests of MAS");
MODULE_LICENSE("GPL");
