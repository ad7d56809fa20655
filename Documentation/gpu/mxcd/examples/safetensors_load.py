#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Load a safetensors file into VRAM, tensor by tensor.

        safetensors_load.py FILE [GPU]

A line for each tensor tells its name, where it is in the file, its length, and where
it is in VRAM. The program ends when standard input does, and the VRAM goes with it.
The C program of the same name does the same and says more about it.
"""
import array
import fcntl
import json
import os
import struct
import sys

MAS_ALLOC = 0xBC03
MAS_REGISTER = 0xBC05
MAS_TRANSFER = 0xBC07
OP_READ = 1
BLOCK = 4096
BATCH = 256
REQUEST = struct.Struct("=HHIIIQQQQQII")
COMPLETION = struct.Struct("=QqQHHI")


def read_header(fd):
    """Return name, offset in the file and length of each tensor."""
    size, = struct.unpack("<Q", os.pread(fd, 8, 0))
    header = json.loads(os.pread(fd, size, 8))
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        yield name, 8 + size + begin, end - begin


def place(tensors):
    """Append to each its place in VRAM: congruent with that in the file."""
    end = 0
    for name, offset, length in tensors:
        at = end + (offset - end) % BLOCK
        end = at + length
        yield name, offset, length, at


def allocate(mas, gpu, length):
    """Allocate VRAM; returns its handle."""
    arg = bytearray(struct.pack("=IIIIQQII", 40, 0, gpu, 0, length, 0, 0, 0))
    fcntl.ioctl(mas, MAS_ALLOC, arg)
    return struct.unpack("=IIIIQQII", arg)[3]


def register(mas, file):
    """Make a file known; returns its id."""
    arg = bytearray(struct.pack("=IIiI", 16, 0, file, 0))
    fcntl.ioctl(mas, MAS_REGISTER, arg)
    return struct.unpack("=IIiI", arg)[3]


def load(mas, file, handle, tensors):
    """Read some tensors by one call; returns how many bytes went p2p."""
    requests = array.array("B", b"".join(
        REQUEST.pack(OP_READ, 0, 0, file, handle, offset, length, at, 0, 0, 0, 0)
        for _, offset, length, at in tensors))
    completions = array.array("B", bytes(COMPLETION.size * len(tensors)))
    arg = bytearray(struct.pack("=IIQQIIQII", 48, 0, requests.buffer_info()[0],
                                completions.buffer_info()[0], len(tensors), len(tensors),
                                0, 0, 0))
    fcntl.ioctl(mas, MAS_TRANSFER, arg)
    p2p = 0
    for tensor, (_, result, direct, _, _, _) in zip(tensors,
                                                    COMPLETION.iter_unpack(completions)):
        if result < 0:
            raise OSError(-result, os.strerror(-result), tensor[0])
        if result != tensor[2]:
            raise EOFError(f"the file ends in {tensor[0]}")
        p2p += direct
    return p2p


def main():
    """Open what is to be opened; all of it is let go when the program ends."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    fd = os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC)
    mas = os.open("/dev/mxcd_mas", os.O_RDWR | os.O_CLOEXEC)
    tensors = list(place(read_header(fd)))
    end = max((at + length for _, _, length, at in tensors), default=1)
    handle = allocate(mas, int(sys.argv[2]) if len(sys.argv) == 3 else 0, max(end, 1))
    file = register(mas, fd)
    p2p = sum(load(mas, file, handle, tensors[i:i + BATCH])
              for i in range(0, len(tensors), BATCH))
    for tensor in tensors:
        print(*tensor)
    print(f"# {len(tensors)} tensors, {sum(t[2] for t in tensors)} bytes, {p2p} p2p")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
