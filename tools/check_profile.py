#!/usr/bin/env python3
"""Reads the files of a profile with their own parsers: tools/check_profile.py PROFILE_DIR [TENSORBOARD_DIR [MOST_BYTES]].

The trace with perfetto's trace processor where it can be started, else as JSON; the snapshot with PyTorch's
_memory_viz and by replaying it; events with tensorboard. A parser that is not installed is named and passed over.
Prints a line each; exits 1 at the first thing that is wrong.
"""
import json
import pathlib
import pickle
import sys


def check_trace(path):
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    print(f"trace: {len(events)} events, {len(spans)} spans, {sum(e['ph'] == 's' for e in events)} flows")
    try:
        from perfetto.trace_processor import TraceProcessor
    except ImportError:
        print("trace: no perfetto here")
        return
    try:
        processor = TraceProcessor(trace=str(path))
    except Exception as why:  # the package fetches its processor when it is first used
        print(f"trace: perfetto does not start: {type(why).__name__}: {str(why)[:200]}")
        return
    slices = next(iter(processor.query("select count(*) as n from slice"))).n
    flows = next(iter(processor.query("select count(*) as n from flow"))).n
    errors = list(processor.query("select name, value from stats where severity='error' and value>0"))
    print(f"trace: perfetto reads {slices} slices and {flows} flows, errors {[(e.name, e.value) for e in errors]}")
    assert slices == len(spans) and not errors
    assert flows == sum(e["ph"] == "s" for e in events)


def check_snapshot(path, planned):
    snapshot = pickle.loads(path.read_bytes())
    live = most = 0
    blocks = {}
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            assert event["addr"] not in blocks, "allocated twice"
            blocks[event["addr"]] = event["size"]
            live += event["size"]
        if event["action"] == "free_completed":
            assert blocks.pop(event["addr"]) == event["size"]
            live -= event["size"]
        most = max(most, live)
    (segment,) = snapshot["segments"]
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at, "blocks do not tile"
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]
    assert live == segment["allocated_size"], "the trace does not end in the segment's blocks"
    kept = {b["address"]: b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
    assert kept == blocks
    print(f"snapshot: {len(snapshot['device_traces'][0])} events, arena {segment['total_size']}, most at once {most}")
    assert planned is None or most == planned, f"{planned} were planned"
    try:
        from torch.cuda import _memory_viz
    except ImportError:
        print("snapshot: no torch here")
        return
    text = _memory_viz.segsum(snapshot) + _memory_viz.trace(snapshot)
    page = _memory_viz.trace_plot(snapshot) + _memory_viz.segment_plot(snapshot)
    print(f"snapshot: PyTorch's _memory_viz makes {len(text)} characters of text and {len(page)} of pages")


def check_events(directory):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("events: no tensorboard here")
        return
    events = EventAccumulator(str(directory))
    events.Reload()
    tags = events.Tags()["scalars"]
    loss = events.Scalars("train/loss")
    print(f"events: {len(tags)} scalars, loss of steps {loss[0].step} to {loss[-1].step}: "
          f"{loss[0].value:.4f} to {loss[-1].value:.4f}")
    assert [e.step for e in loss] == list(range(loss[0].step, loss[-1].step + 1))


def main():
    directory = pathlib.Path(sys.argv[1])
    check_trace(directory / "trace.json")
    check_snapshot(directory / "snapshot.pickle", int(sys.argv[3]) if len(sys.argv) > 3 else None)
    if len(sys.argv) > 2:
        check_events(sys.argv[2])


if __name__ == "__main__":
    main()
