#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Save VRAM to a file so that a power failure leaves the old file or the new one.

        mas_checkpoint.py FILE [BYTES [GPU]]

Here the VRAM is filled with a pattern first: each eight bytes are a number, counted from
0. It is written to FILE.new; the fsync that makes it durable is linked to the write, so
it starts when that has completed, and is not done if it has failed. Then the file gets
its name.
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
OP_WRITE = 2
OP_FSYNC = 8
LINK = 1 << 4
REQUEST = struct.Struct("=HHIIIQQQQQII")
COMPLETION = struct.Struct("=QqQHHI")


def allocate(mas, gpu, length):
    """Allocate VRAM; returns its handle and a mapping of it."""
    arg = bytearray(struct.pack("=IIIIQQII", 40, 0, gpu, 0, length, 0, 0, 0))
    fcntl.ioctl(mas, MAS_ALLOC, arg)
    _, _, _, handle, length, offset, _, _ = struct.unpack("=IIIIQQII", arg)
    return handle, mmap.mmap(mas, length, offset=offset)


def register(mas, file):
    """Make a file known; returns its id."""
    arg = bytearray(struct.pack("=IIiI", 16, 0, file, 0))
    fcntl.ioctl(mas, MAS_REGISTER, arg)
    return struct.unpack("=IIiI", arg)[3]


def write_and_sync(mas, file, handle, length):
    """Write VRAM from its start and have it on the disk; returns bytes that went p2p."""
    requests = array.array(
        "B", REQUEST.pack(OP_WRITE, 0, LINK, file, handle, 0, length, 0, 0, 0, 0, 0) +
        REQUEST.pack(OP_FSYNC, 0, 0, file, 0, 0, 0, 0, 0, 0, 0, 0))
    completions = array.array("B", bytes(2 * COMPLETION.size))
    arg = bytearray(struct.pack("=IIQQIIQII", 48, 0, requests.buffer_info()[0],
                                completions.buffer_info()[0], 2, 2, 0, 0, 0))
    fcntl.ioctl(mas, MAS_TRANSFER, arg)
    wrote, synced = COMPLETION.iter_unpack(completions)
    for result in (wrote[1], synced[1]):
        if result < 0:
            raise OSError(-result, os.strerror(-result))
    if wrote[1] != length:
        raise OSError(f"only {wrote[1]} of {length} bytes were written")
    return wrote[2]


def main():
    """The directory is synced too, so that the name is durable."""
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    name = sys.argv[1]
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 16 << 20
    mas = os.open("/dev/mxcd_mas", os.O_RDWR | os.O_CLOEXEC)
    handle, vram = allocate(mas, int(sys.argv[3]) if len(sys.argv) > 3 else 0, length)
    vram[:length] = struct.pack(f"<{(length + 7) // 8}Q", *range((length + 7) // 8))[:length]

    file = os.open(name + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    p2p = write_and_sync(mas, register(mas, file), handle, length)
    os.rename(name + ".new", name)
    directory = os.open(os.path.dirname(os.path.abspath(name)), os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(directory)
    print(f"{name}: {length} bytes, {p2p} p2p")


main()
