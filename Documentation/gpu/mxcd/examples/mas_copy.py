#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Copy a file through VRAM and tell which way the data went.

        mas_copy.py SOURCE DESTINATION [GPU]

All that is needed of MAS is two system calls and the layout of a few structures
in include/uapi/linux/mxcd_mas.h.
"""
import array
import fcntl
import mmap
import os
import struct
import sys

MAS_ALLOC = 0xBC03
MAS_REGISTER = 0xBC05
MAS_TRANSFER = 0xBC07
OP_READ = 1
OP_WRITE = 2
ROUTES = ("none", "p2p", "bounce", "both")
CHUNK = 16 << 20


def allocate(mas, gpu, length):
    """Allocate VRAM; returns its handle, its length and where to map it."""
    arg = bytearray(struct.pack("=IIIIQQII", 40, 0, gpu, 0, length, 0, 0, 0))
    fcntl.ioctl(mas, MAS_ALLOC, arg)
    _, _, _, handle, length, offset, _, _ = struct.unpack("=IIIIQQII", arg)
    return handle, length, offset


def register(mas, file):
    """Make a file known; returns its id."""
    arg = bytearray(struct.pack("=IIiI", 16, 0, file, 0))
    fcntl.ioctl(mas, MAS_REGISTER, arg)
    return struct.unpack("=IIiI", arg)[3]


def transfer(mas, op, file, offset, length, handle, mem_offset):
    """Move data and wait for it; returns the number of bytes."""
    request = array.array("B", struct.pack("=HHIIIQQQQQII", op, 0, 0, file, handle, offset,
                                           length, mem_offset, 0, 0, 0, 0))
    completion = array.array("B", bytes(32))
    arg = bytearray(struct.pack("=IIQQIIQII", 48, 0, request.buffer_info()[0],
                                completion.buffer_info()[0], 1, 1, 0, 0, 0))
    fcntl.ioctl(mas, MAS_TRANSFER, arg)
    _, result, p2p, route, reason, _ = struct.unpack("=QqQHHI", completion)
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    name = "read" if op == OP_READ else "wrote"
    print(f"{name} {result} bytes at {offset}: {ROUTES[route]}, {p2p} p2p, reason {reason}")
    return result


def copy(mas, source, destination, gpu):
    """Copy in pieces of the size of the VRAM that was allocated."""
    handle, size, mmap_offset = allocate(mas, gpu, CHUNK)
    vram = mmap.mmap(mas, size, offset=mmap_offset)
    offset = 0
    while length := transfer(mas, OP_READ, source, offset, size, handle, 0):
        print(f"first bytes in VRAM: {vram[:min(16, length)].hex(' ')}")
        moved = 0
        while moved < length:
            moved += transfer(mas, OP_WRITE, destination, offset + moved, length - moved,
                              handle, moved)
        offset += length


def main():
    """Open what is to be opened; all of it is let go when the program ends."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    mas = os.open("/dev/mxcd_mas", os.O_RDWR | os.O_CLOEXEC)
    source = os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC)
    destination = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    gpu = int(sys.argv[3]) if len(sys.argv) == 4 else 0
    copy(mas, register(mas, source), register(mas, destination), gpu)


main()
