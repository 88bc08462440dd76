#!/usr/bin/env python3
"""How much of NCCL's kernels ran at the same time as computing ones of the same process, from traces of bench/kernel_trace.cpp.

    python3 bench/overlap.py /tmp/trace.0 /tmp/trace.1

The beginning of a run, up to its first graphs, is left out: --skip says which part of the trace. For each kind of NCCL kernel:
how many there were, how long they took together, and which part of that time some computing kernel ran too; then which part of
the computing time some NCCL kernel ran too: the larger part shows what the order of a step hides, whichever of the two is slower.
"""
import argparse
import bisect
import collections
import re
import sys


def read(path, skip):
    kernels = []
    with open(path) as lines:
        for line in lines:
            begin, end, stream, name = line.rstrip("\n").split(" ", 3)
            kernels.append((int(begin), int(end), int(stream), name))
    kernels.sort()
    first = kernels[0][0] + skip * (kernels[-1][1] - kernels[0][0])
    return [k for k in kernels if k[0] >= first]


def union(spans):
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def covered(begin, end, spans):
    at, time = max(0, bisect.bisect_right(spans, [begin, float("inf")]) - 1), 0
    while at < len(spans) and spans[at][0] < end:
        time += max(0, min(end, spans[at][1]) - max(begin, spans[at][0]))
        at += 1
    return time


def line_of(what, count, time, overlapped, other):
    return f"  {what}: {count}, {time * 1e-6:.1f} ms, of which {overlapped * 1e-6:.1f} ms ({100 * overlapped / max(1, time):.0f}%) overlapped {other}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--skip", type=float, default=0.3)
    parser.add_argument("--show", type=int, default=0, help="so many lines of the trace, from its middle")
    args = parser.parse_args()
    for path in args.traces:
        kernels = read(path, args.skip)
        nccl = [k for k in kernels if "ncclDevKernel" in k[3]]
        computing = union(k[:2] for k in kernels if "ncclDevKernel" not in k[3])
        communicating = union(k[:2] for k in nccl)
        print(f"{path}: {len(kernels)} kernels in {(kernels[-1][1] - kernels[0][0]) * 1e-6:.1f} ms")
        kinds = collections.defaultdict(lambda: [0, 0, 0])
        for begin, end, _, name in nccl:
            for key in (re.search(r"ncclDevKernel_[A-Za-z]+", name)[0], "all of NCCL's kernels"):
                kinds[key][0] += 1
                kinds[key][1] += end - begin
                kinds[key][2] += covered(begin, end, computing)
        for key, numbers in sorted(kinds.items()):
            print(line_of(key, *numbers, "computing"))
        print(line_of("computing", len(kernels) - len(nccl), sum(e - b for b, e in computing),
                      sum(covered(b, e, communicating) for b, e in computing), "NCCL"))
        middle = len(kernels) // 2
        for begin, end, stream, name in kernels[middle:middle + args.show]:
            since = kernels[middle][0]
            print(f"    {(begin - since) * 1e-3:10.1f} to {(end - since) * 1e-3:10.1f} us  stream {stream:3}  {name[:70]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
