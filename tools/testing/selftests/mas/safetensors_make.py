#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Make a safetensors file: safetensors_make.py FILE MIB TENSORS

Tensors of very different sizes, at odd offsets, the names with what JSON escapes; no two
hold the same.
"""
import json
import os
import random
import struct
import sys


def main():
    """The header needs all offsets, so the sizes come first."""
    total, count = int(sys.argv[2]) << 20, int(sys.argv[3])
    rand = random.Random(1)
    weights = [rand.random() ** 3 + 0.01 for _ in range(count)]
    sizes = [max(1, int(total * w / sum(weights)) | 1) for w in weights]
    header, end = {"__metadata__": {"format": "pt", "a \"{[": "}"}}, 0
    for i, size in enumerate(sizes):
        header[f"layer.{i}.\"w\\{i % 7}\"".replace(" ", "_")] = {
            "dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    noise = os.urandom(1 << 20)
    with open(sys.argv[1], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for i, size in enumerate(sizes):
            block = (struct.pack("<Q", i) + noise[i:])[:size]
            while size:
                file.write(block[:size])
                size -= min(size, len(block))


main()
