#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a tensor costs in instructions: safetensors_count.py LOADER FILE

By the loader of the documentation, and by pread() and a copy to mapped VRAM. Where the
clock of the guest counts instructions, see bench_icount.h, which does the same in C.
"""
import importlib.util
import mmap
import os
import struct
import sys
import time
import fcntl


def soak():
    """A child that runs when nothing else does, and counts its turns."""
    shared = mmap.mmap(-1, 8)
    turns = memoryview(shared).cast("Q")
    if not os.fork():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while os.getppid() != 1:
            turns[0] += 1
    return turns


def instructions(turns, per_turn, work):
    """Elapsed time less what the child has used."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")
    before, start = turns[0], time.monotonic_ns()
    work()
    elapsed = time.monotonic_ns() - start
    return elapsed - (turns[0] - before) * per_turn


def main():
    """Several rounds; the least is what the work itself takes."""
    spec = importlib.util.spec_from_file_location("loader", sys.argv[1])
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)

    fd = os.open(sys.argv[2], os.O_RDONLY)
    mas = os.open("/dev/mxcd_mas", os.O_RDWR)
    tensors = list(loader.place(loader.read_header(fd)))
    arg = bytearray(struct.pack("=IIIIQQII", 40, 0, 0, 0,
                                max(at + length for _, _, length, at in tensors), 0, 0, 0))
    fcntl.ioctl(mas, loader.MAS_ALLOC, arg)
    _, _, _, handle, size, offset, _, _ = struct.unpack("=IIIIQQII", arg)
    vram = mmap.mmap(mas, size, offset=offset)
    file = loader.register(mas, fd)

    def by_mas():
        for i in range(0, len(tensors), loader.BATCH):
            loader.load(mas, file, handle, tensors[i:i + loader.BATCH])

    def by_copy():
        for _, start, length, at in tensors:
            vram[at:at + length] = os.pread(fd, length, start)

    turns = soak()
    time.sleep(0.1)
    before, start = turns[0], time.monotonic_ns()
    time.sleep(0.5)
    per_turn = (time.monotonic_ns() - start) / (turns[0] - before)
    for name, work in (("MAS", by_mas), ("pread and copy", by_copy)):
        least = min(instructions(turns, per_turn, work) for _ in range(3))
        print(f"# {name}: {least / len(tensors):.0f} instructions for each of "
              f"{len(tensors)} tensors, {sum(t[2] for t in tensors)} bytes")


main()
