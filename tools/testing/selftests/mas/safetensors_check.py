#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""On the host: is each tensor in VRAM what it is in the file?

        safetensors_check.py FILE VRAM LIST

LIST has the lines that the loader has printed. Prints what is wrong.
"""
import mmap
import sys


def view(name):
    """All of a file."""
    with open(name, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def main():
    """Where the handle begins in VRAM is found by the largest tensor."""
    model, vram = view(sys.argv[1]), view(sys.argv[2])
    with open(sys.argv[3], encoding="utf-8") as file:
        lines = [line.rsplit(" ", 3) for line in file if not line.startswith("#")]
    tensors = [(name, int(offset), int(length), int(at)) for name, offset, length, at in lines]
    if not tensors:
        print("no tensors are listed")
        return
    _, offset, length, at = max(tensors, key=lambda t: t[2])
    found = vram.find(model[offset:offset + min(length, 65536)])
    if found < 0:
        print("the largest tensor is not in VRAM")
        return
    base = found - at
    bad = [name for name, offset, length, at in tensors
           if vram[base + at:base + at + length] != model[offset:offset + length]]
    if bad:
        print(f"{len(bad)} of {len(tensors)} tensors differ, the first is {bad[0]}")


main()
