#!/usr/bin/env python3
"""How much of NCCL's kernels ran beside computing ones of the same process, from traces of bench/kernel_trace.cpp.

    python3 bench/overlap.py /tmp/trace.0 /tmp/trace.1

The beginning of a run, up to its first graphs, is left out: --skip says which part of the trace. For each kind of NCCL kernel:
how many there were, how long they took together, and which part of that time some computing kernel ran too.
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


def covered(begin, end, spans, starts):
    at, time = max(0, bisect.bisect_right(starts, begin) - 1), 0
    while at < len(spans) and spans[at][0] < end:
        time += max(0, min(end, spans[at][1]) - max(begin, spans[at][0]))
        at += 1
    return time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--skip", type=float, default=0.3)
    parser.add_argument("--show", type=int, default=0, help="so many lines of the trace, from its middle")
    args = parser.parse_args()
    for path in args.traces:
        kernels = read(path, args.skip)
        is_nccl = [k[3].startswith("nccl") for k in kernels]
        computing = union([k[:2] for k, nccl in zip(kernels, is_nccl) if not nccl])
        starts = [span[0] for span in computing]
        busy = sum(end - begin for begin, end in computing)
        ms = 1e-6
        print(f"{path}: {len(kernels)} kernels in {(kernels[-1][1] - kernels[0][0]) * ms:.1f} ms; computing {busy * ms:.1f} ms")
        kinds = collections.defaultdict(lambda: [0, 0, 0])
        for (begin, end, stream, name), nccl in zip(kernels, is_nccl):
            if not nccl:
                continue
            short = re.sub(r"\(.*", "", name)
            for key in (f"{short} on stream {stream}", "all of NCCL's"):
                kinds[key][0] += 1
                kinds[key][1] += end - begin
                kinds[key][2] += covered(begin, end, computing, starts)
        for key, (count, time, hidden) in sorted(kinds.items()):
            print(f"  {key}: {count}, {time * ms:.1f} ms, of which {hidden * ms:.1f} ms ({100 * hidden / max(1, time):.0f}%) beside computing")
        middle = len(kernels) // 2
        origin = kernels[middle][0] if kernels else 0
        for begin, end, stream, name in kernels[middle:middle + args.show]:
            print(f"    {(begin - origin) * 1e-3:10.1f} to {(end - origin) * 1e-3:10.1f} us  stream {stream:3}  {re.sub(r'[(<].*', '', name)[:70]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
