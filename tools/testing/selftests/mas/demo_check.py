#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# The outside view of the demo, taken while the guest still holds the VRAM:
# compare VRAM with the file, and count, from the addresses that the NVMe
# controller was given, which bytes of the file went where.
#
# The handle is found by the random marker that the guest put behind the data.
# Where it lies is a guess that can only make the comparison fail, never pass:
# what is compared are the bytes of the window.

"""usage: demo_check.py FILE VRAM FACTS TRACE BLOCKSIZE [flip]"""

import collections
import mmap
import os
import re
import sys

CHUNK = 1 << 20
READ_CMD = re.compile(r'pci_nvme_read .* count (\d+) lba 0x([0-9a-f]+)')
WRITE_CMD = re.compile(r'pci_nvme_write .* count (\d+) lba 0x([0-9a-f]+)')
ADDRESS = re.compile(r'pci_nvme_map_addr addr 0x([0-9a-f]+) len (\d+)')
COMMAND = re.compile(r'pci_nvme_(io|admin)_cmd ')

ROUTES = {0: 'none', 1: 'p2p', 2: 'bounce', 3: 'p2p and bounce'}

problems = []


def problem(text):
    problems.append(text)


def read_facts(path):
    """What the guest printed: first word -> list of the rest of each line."""
    facts = collections.defaultdict(list)
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            word, *rest = line.split()
            facts[word].append(rest)
    return facts


def read_trace(path, blocksize):
    """Yield (is_write, disk offset, bus address, length) of each piece of DMA."""
    is_write = offset = None
    with open(path, encoding='utf-8', errors='replace') as lines:
        for line in lines:
            if COMMAND.search(line):
                offset = None
            elif match := READ_CMD.search(line) or WRITE_CMD.search(line):
                is_write = 'pci_nvme_write' in line
                offset = int(match[2], 16) * blocksize
            elif offset is not None and (match := ADDRESS.search(line)):
                yield is_write, offset, int(match[1], 16), int(match[2])
                offset += int(match[2])


class Ranges:
    """Bytes of a file, as a set."""

    def __init__(self):
        self.ranges = []

    def add(self, start, end):
        if start < end:
            self.ranges.append((start, end))

    def merged(self):
        out = []
        for start, end in sorted(self.ranges):
            if out and start <= out[-1][1]:
                out[-1][1] = max(out[-1][1], end)
            else:
                out.append([start, end])
        return out

    def count(self):
        return sum(end - start for start, end in self.merged())

    def first(self):
        return min(start for start, _ in self.ranges)


class File:
    """One of the two files: its blocks, and the DMA that touched them."""

    def __init__(self, facts, name, size):
        self.name = name
        self.size = size
        self.extents = [tuple(map(int, e[:3])) for e in facts['extent_' + name]]
        # [is_write, is_vram] -> bytes of the file
        self.dma = collections.defaultdict(Ranges)
        self.mapped = Ranges()
        for logical, _, length in self.extents:
            self.mapped.add(logical, min(logical + length, size))

    def account(self, is_write, disk, address, length, window):
        """One piece of DMA; window is (bus address, size, offset of the handle)."""
        base, size, start = window
        vram = base <= address < base + size
        for logical, physical, extent in self.extents:
            first = max(disk, physical)
            last = min(disk + length, physical + extent)
            if first >= last:
                continue
            where = logical + first - physical
            self.dma[is_write, vram].add(min(where, self.size),
                                         min(where + last - first, self.size))
            if vram and address - base + first - disk != start + where:
                problem(f'byte {where} of the {self.name} was moved to or from the '
                        f'wrong place in VRAM')

    def judge(self, is_write, unit):
        """All whole units went by VRAM, nothing but the rest went by RAM."""
        whole = self.size // unit * unit if unit else 0
        edge = self.size - whole
        vram = self.dma[is_write, True]
        ram = self.dma[is_write, False]
        want = Ranges()
        for start, end in self.mapped.merged():
            want.add(start, min(end, whole))
        if vram.count() != want.count():
            problem(f'{vram.count()} bytes of the {self.name} were moved between disk '
                    f'and VRAM, not {want.count()}')
        if ram.count() and ram.first() < whole:
            problem(f'{ram.count()} bytes of the {self.name} went through host RAM, from '
                    f'byte {ram.first()} on; only the last {edge} may')
        holes = self.size - self.mapped.count()
        text = f'{vram.count()} bytes straight, {ram.count()} through host RAM'
        if edge:
            text += f' (of the {edge} behind the last whole unit of {unit})'
        if holes:
            text += f'; {holes} are holes, not on the disk'
        return text


def find_handle(vram, facts):
    """Offset in VRAM of the memory that the guest allocated."""
    (offset, marker), = facts['marker']
    marker = bytes.fromhex(marker)
    found = vram.find(marker)
    if found < 0 or vram.find(marker, found + 1) >= 0:
        sys.exit('the marker is not to be found in VRAM, or more than once')
    return found - int(offset)


def compare(vram, start, path, size):
    """Byte for byte."""
    with open(path, 'rb') as file:
        for offset in range(0, size, CHUNK):
            want = file.read(CHUNK)
            have = vram[start + offset:start + offset + len(want)]
            if have == want:
                continue
            first = next(i for i, pair in enumerate(zip(want, have))
                         if pair[0] != pair[1])
            problem(f'VRAM differs from the file at byte {offset + first}: '
                    f'{have[first]:#04x}, not {want[first]:#04x}')
            return False
    return True


def print_transfer(facts, name, size):
    moved, p2p, route, reason, seconds = facts[name][0]
    if int(moved) != size:
        problem(f'{name}: {moved} of {size} bytes were moved')
    print(f'  {name + ":":10}{moved} bytes in {float(seconds):.3f} s, {p2p} of them '
          f'p2p, route {ROUTES[int(route)]}, reason {reason}')


def main():
    path, vram_path, facts_path, trace_path, blocksize = sys.argv[1:6]
    flip = sys.argv[6:] == ['flip']
    facts = read_facts(facts_path)
    size = os.path.getsize(path)
    bar, bar_size = map(int, facts['bar'][0])
    with open(vram_path, 'r+b') as file:
        vram = mmap.mmap(file.fileno(), 0)
    if bar_size != len(vram):
        sys.exit(f'the BAR has {bar_size} bytes, VRAM {len(vram)}')
    start = find_handle(vram, facts)
    if flip:
        vram[start + size // 2] ^= 1
        print(f'  flip:     one bit of byte {size // 2} in VRAM')
    print(f'  size:     {size} bytes')
    print_transfer(facts, 'read', size)
    print_transfer(facts, 'write', size)
    if compare(vram, start, path, size):
        print('  VRAM:     equal to the file, compared from outside of the guest')

    source = File(facts, 'source', size)
    target = File(facts, 'target', size)
    for dma in read_trace(trace_path, int(blocksize)):
        for file in source, target:
            file.account(*dma, (bar, bar_size, start))
    print('  disk DMA: source:', source.judge(False, int(facts['align_source'][0][0])))
    print('            target:', target.judge(True, int(facts['align_target'][0][1])))
    back = target.dma[False, False].count()
    if back:
        print(f'            {back} bytes of the target were read back to be compared')
    for text in problems:
        print(f'  FAIL:     {text}')
    sys.exit(bool(problems))


if __name__ == '__main__':
    main()
