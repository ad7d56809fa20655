# SPDX-License-Identifier: GPL-2.0
# Build and check the mxcd driver outside of a kernel tree.
#
# Inside a kernel tree only drivers/gpu/mxcd/, include/uapi/, Documentation/ and
# tools/testing/selftests/mas/ exist; this file, Kbuild, Kconfig and compat/ do
# not.

# The kernel to build for: the running one, unless told otherwise.
KDIR ?= /lib/modules/$(shell uname -r)/build
# The kernel to test on.
KERNEL ?= 6.12

SELFTESTS := tools/testing/selftests/mas

# kbuild reads Kbuild here, not this file.
KBUILD := $(MAKE) -C $(KDIR) M=$(CURDIR) CONFIG_MXCD=m

.DEFAULT_GOAL := all
.PHONY: all modules modules_install clean check check-all check-debug check-install
.PHONY: check-races check-static check-topology coverage packages demo bench fuzz soak version help

all: modules			## build everything that runs on this machine (default)

modules:			## build mxcd.ko for the running kernel, or KDIR=<its build directory>
	$(KBUILD) modules

modules_install: modules	## install mxcd.ko below /lib/modules
	$(KBUILD) modules_install

clean:				## remove what a build leaves in the tree
	$(KBUILD) clean

check:				## all checks, then the tests in a virtual machine (KERNEL=6.1, 6.12 or 7.3)
	$(SELFTESTS)/check.sh -k $(KERNEL)

check-all:			## what check has no time for (PARTS=<some of them>)
	$(SELFTESTS)/check-all.sh -k $(KERNEL) $(PARTS)

check-debug:			## the tests on a kernel that watches: KASAN, lockdep, kmemleak, ...
	$(SELFTESTS)/vmtest.sh -k debug

check-races:			## tests with several threads on a kernel that looks for data races
	$(SELFTESTS)/vmtest.sh -k kcsan

coverage:			## check-debug, then the lines of the driver that no test ran
	$(SELFTESTS)/vmtest.sh -k debug --coverage

check-static:			## only the checks that need no virtual machine
	$(SELFTESTS)/check-static.sh -k $(KERNEL)

check-topology:			## routes between GPUs and disks wherever they are
	$(SELFTESTS)/topology.sh -k $(KERNEL)

packages:			## Debian packages and the installer, into dist/
	tools/packaging/packages.sh

check-install: packages		## the installer, on Debian 12 and 13
	tools/packaging/install-test.sh

demo:				## a file (FILE=<any>) to VRAM and back, watched from outside
	$(SELFTESTS)/demo.sh $(if $(FILE),'$(FILE)')

bench:				## what an I/O costs, beside pread and io_uring (CASE=<one>)
	$(SELFTESTS)/bench.sh -k $(KERNEL) -i -c $(CASE)

# How long fuzz and soak take.
DURATION ?= 1800
fuzz soak: LONG = -k $(KERNEL) -t $$(($(DURATION) * 3 + 600)) -a MAS_TIMEOUT=$$(($(DURATION) * 3 + 600))

fuzz:				## random calls of all kinds (DURATION=1800, SEED=<number>)
	$(SELFTESTS)/vmtest.sh $(LONG) -a FUZZ_SECONDS=$(DURATION) \
		$(if $(SEED),-a MAS_SEED=$(SEED)) -- ./fuzz_test.sh

soak:				## load with kills and rebinds (DURATION=1800)
	$(SELFTESTS)/vmtest.sh $(LONG) -a slab_nomerge -a SOAK_SECONDS=$(DURATION) -- ./soak_test.sh

version:			## the version of the driver
	@sed -nE 's/^#define MXCD_VERSION_(MAJOR|MINOR|PATCH)\s+//p' drivers/gpu/mxcd/mxcd_version.h | \
		paste -sd .

help:				## this list
	@echo 'Targets (C=2 and W=1 work as in a kernel tree):'
	@sed -nE 's/^([a-z_-]+):[^#]*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
