#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# What the emulator saw of each case of the bench: commands, doorbells and
# interrupts of the disk, where it moved data to or from, what the CPU did to
# VRAM. The guest says which case a pair of marks belongs to: the cases come in the
# same order in both files.

"""usage: bench_count.py GUEST-OUTPUT LOG"""

import re
import sys

COUNTED = re.compile(r'counted: (\S+) (\d+) (\d+)$')
BAR = re.compile(r'# BAR: (\d+) (\d+)$')
# Their counts are bytes.
READ_CMD = re.compile(r'pci_nvme_read .* count (\d+) lba')
WRITE_CMD = re.compile(r'pci_nvme_write .* count (\d+) lba')
ADDRESS = re.compile(r'pci_nvme_map_addr addr 0x([0-9a-f]+) len (\d+)')
END = re.compile(r'mas_end bar_reads (\d+) bar_writes (\d+) unknown (\d+) syscalls (\d+)')

# Of each I/O, and of each byte asked for.
PER_IO = ('nvme_commands', 'doorbells', 'irqs_raised', 'syscalls', 'bar_reads', 'bar_writes')
PER_BYTE = ('vram_dma', 'ram_dma', 'disk_read', 'disk_write')

# The CPU reads VRAM once to have p2p data in order, for each call that collects.
FLUSHED_EACH = ('mas-uring', 'mas-uring-defer', 'mas-threads', 'mas-slide')
FLUSHED_ONCE = ('mas', 'mas-frag', 'mas-around', 'mas-around-fd', 'segs')


class Case:
    """One case, between its marks."""

    def __init__(self, name, size, number):
        self.name = name
        self.way = name.rsplit('.', 1)[1]
        self.is_write = '.write.' in name
        depth = re.search(r'\.qd(\d+)\.', name)
        self.depth = int(depth[1]) if depth else 1
        self.size = size
        self.number = number
        self.seen = dict.fromkeys(PER_IO + PER_BYTE, 0)
        self.unknown = 0

    def see(self, line, bar):
        """One line of the log."""
        if 'pci_nvme_io_cmd' in line:
            self.seen['nvme_commands'] += 1
        elif 'pci_nvme_mmio_doorbell' in line:
            self.seen['doorbells'] += 1
        elif 'pci_nvme_irq_msix' in line:
            self.seen['irqs_raised'] += 1
        elif match := READ_CMD.search(line):
            self.seen['disk_read'] += int(match[1])
        elif match := WRITE_CMD.search(line):
            self.seen['disk_write'] += int(match[1])
        elif match := ADDRESS.search(line):
            address = int(match[1], 16)
            vram = bar[0] <= address < bar[0] + bar[1]
            self.seen['vram_dma' if vram else 'ram_dma'] += int(match[2])

    def end(self, match):
        """What the plugin counted."""
        self.seen['bar_reads'] = int(match[1])
        self.seen['bar_writes'] = int(match[2])
        self.unknown = int(match[3])
        self.seen['syscalls'] = int(match[4])

    def figures(self):
        """metric -> value per I/O, or per byte asked for."""
        per_io = {key: self.seen[key] / self.number for key in PER_IO}
        per_byte = {key: self.seen[key] / self.number / self.size for key in PER_BYTE}
        return per_io | per_byte

    def flushes(self):
        """CPU reads of VRAM that the driver is to make, for each I/O; or None."""
        if self.way in FLUSHED_EACH:
            per_io = 1
        elif self.way == 'segs':
            per_io = 1 / self.number
        elif self.way in FLUSHED_ONCE and 'tensors' not in self.name and \
                not self.name.startswith('vram.'):
            per_io = 1 / self.depth
        else:
            return None
        return 0 if self.is_write else per_io


def read_guest(path):
    """The cases, and where the BAR is."""
    cases = []
    bar = None
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            if match := COUNTED.match(line):
                cases.append(Case(match[1], int(match[2]), int(match[3])))
            elif match := BAR.match(line):
                bar = int(match[1]), int(match[2])
            elif 'not possible here' in line:
                print(line, end='')
    if not bar:
        sys.exit('the guest does not say where the BAR is')
    return cases, bar


def read_log(path, cases, bar):
    """Give each line to the case between whose marks it is."""
    waiting = iter(cases)
    case = None
    done = 0
    learnt = False
    with open(path, encoding='utf-8', errors='replace') as lines:
        for line in lines:
            if 'mas_begin' in line:
                case = next(waiting, None)
                if case is None:
                    sys.exit('more marks than cases')
            elif match := END.search(line):
                case.end(match)
                case = None
                done += 1
            elif 'mas_vram' in line:
                learnt = True
            elif case is not None:
                case.see(line, bar)
    if not learnt or done != len(cases):
        sys.exit(f'marks for {done} of {len(cases)} cases; VRAM '
                 f'{"" if learnt else "not "}found')


def print_table(cases):
    print('# per I/O as the emulator saw it, and per byte asked for')
    print(f'# {"":38}{"cmds":>9}{"doorb.":>9}{"irqs":>8}{"calls":>8}{"BAR rd":>11}'
          f'{"BAR wr":>15}{"VRAM":>7}{"RAM":>7}{"disk rd":>8}{"disk wr":>8}')
    for case in cases:
        value = case.figures()
        print(f'  {case.name:38}{value["nvme_commands"]:9.3f}{value["doorbells"]:9.3f}'
              f'{value["irqs_raised"]:8.3f}{value["syscalls"]:8.3f}'
              f'{value["bar_reads"]:11.3f}{value["bar_writes"]:15.3f}'
              f'{value["vram_dma"]:7.3f}{value["ram_dma"]:7.3f}'
              f'{value["disk_read"]:8.3f}{value["disk_write"]:8.3f}')
    for case in cases:
        for metric, value in case.figures().items():
            print(f'bench: {case.name} {case.size} {metric} {value:.5g}')


def judge(what, value, limit):
    verdict = 'met' if value <= limit else 'MISSED'
    print(f'ratio: {what:64} {value:7.3f} (at most {limit:.3f}) {verdict}')


def judge_flushes(cases):
    """No access of the CPU to the BAR but the flushes."""
    for is_write in False, True:
        p2p = [case for case in cases if case.is_write == is_write and
               case.flushes() is not None]
        if not p2p:
            continue
        what = 'writes' if is_write else 'reads'
        more = max(p2p, key=lambda case: case.figures()['bar_reads'] - case.flushes())
        judge(f'p2p {what}: CPU reads of the BAR but the flushes, most ({more.name})',
              max(more.figures()['bar_reads'] - more.flushes(), 0), 0)
        judge(f'p2p {what}: CPU writes to the BAR, most of {len(p2p)} cases',
              max(case.figures()['bar_writes'] for case in p2p), 0)
        judge(f'p2p {what}: host RAM bytes moved by the disk per byte, most',
              max(case.figures()['ram_dma'] for case in p2p), 0)


def judge_counter(cases):
    """A counter that counts nothing proves nothing: it saw the copies."""
    for case in cases:
        key = 'bar_reads' if case.is_write else 'bar_writes'
        if case.way == 'pread-memcpy':
            # No access of this CPU is wider than 32 bytes.
            want = case.size / 32
            if case.figures()[key] < want:
                sys.exit(f'{case.name}: {case.figures()[key]} {key}, less than {want}')
        if case.flushes() and not case.seen['bar_reads']:
            sys.exit(f'{case.name}: no flush was seen')
        if case.unknown:
            sys.exit(f'{case.name}: {case.unknown} accesses to an unknown address')


def main():
    cases, bar = read_guest(sys.argv[1])
    read_log(sys.argv[2], cases, bar)
    print_table(cases)
    judge_counter(cases)
    judge_flushes(cases)
    for case in cases:
        if '.tensors.' in case.name:
            what = f'{case.name}: disk bytes read per byte asked for'
            if case.way == 'mas':
                judge(what, case.figures()['disk_read'], 1.01)
            else:
                # Through the page cache: whole pages.
                print(f'ratio: {what:64} {case.figures()["disk_read"]:7.3f} (no aim)')
            print(f'# {case.name}: {case.figures()["ram_dma"]:.4f} bytes by host RAM per '
                  f'byte, {case.figures()["bar_writes"]:.1f} CPU writes to VRAM per tensor')


if __name__ == '__main__':
    main()
