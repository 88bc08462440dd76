#!/usr/bin/env python3
"""Reads the files of a profile with their own parsers: tools/check_profile.py PROFILE_DIR [TENSORBOARD_DIR [MOST_BYTES]].

trace.json as JSON, against spans.jsonl; trace.pftrace with the classes of the package perfetto, against both; the
snapshot with PyTorch's _memory_viz and by replaying it; events with tensorboard. A parser that is not installed is named
and passed over. Prints a line each; exits 1 at the first thing that is wrong.
"""
import json
import pathlib
import pickle
import sys
from collections.abc import Iterable


FACTS = ("step", "program", "phase", "layer", "ops")


def nanoseconds(seconds):
    return round(seconds * 1e9)


def same_slices(found, expected, where):
    """Slices of each track in their order; a rounding may move an end by a nanosecond."""
    assert found.keys() == expected.keys(), (where, sorted(found), sorted(expected))
    for track, slices in found.items():
        others = expected[track]
        assert len(slices) == len(others), (where, track, len(slices), len(others))
        for (begin, end, *rest), (begin2, end2, *rest2) in zip(slices, others):
            assert abs(begin - begin2) <= 1 and abs(end - end2) <= 1 and rest == rest2, (where, track, rest, rest2)


def each_lane(slices):
    return {track: found for track, found in slices.items() if track[1] != "programs"}


def spans_by_lane(path):
    lanes = {}
    for line in path.read_text().splitlines():
        span = json.loads(line)
        lanes.setdefault((span["origin"], span["lane"]), []).append(
            (nanoseconds(span["begin_s"]), nanoseconds(span["end_s"]), span["op"], span["kind"],
             *map(span.get, FACTS)))
    return lanes


class JsonTrace:
    """trace.json: slices by (process, track), ends of flows by their number, memory by (process, space)."""

    def __init__(self, path):
        self.events = json.loads(path.read_text())["traceEvents"]
        self.slices, self.begins, self.ends, self.peaks = {}, {}, {}, {}
        processes = {e["pid"]: e["args"]["name"] for e in self.events if e["name"] == "process_name"}
        tracks = {(e["pid"], e["tid"]): (processes[e["pid"]], e["args"]["name"])
                  for e in self.events if e["name"] == "thread_name"}
        for e in self.events:
            track = tracks.get((e["pid"], e.get("tid")))
            if e["ph"] == "X":
                begin = round(e["ts"] * 1000)
                self.slices.setdefault(track, []).append(
                    (begin, begin + round(e["dur"] * 1000), e["name"], e["cat"], *map(e["args"].get, FACTS)))
            elif e["ph"] in "sf":
                ends = self.begins if e["ph"] == "s" else self.ends
                assert e["id"] not in ends, "a flow has two ends"
                ends[e["id"]] = track
            elif e["ph"] == "C":
                where = (processes[e["pid"]], e["name"])
                self.peaks[where] = max(self.peaks.get(where, 0), sum(e["args"].values()))


def peaks_of_lines(path):
    peaks = {}
    for line in map(json.loads, path.read_text().splitlines()):
        where = (line["origin"], line["space"] + " memory")
        peaks[where] = max(peaks.get(where, 0), sum(line["live"].values()))
    return peaks


def check_trace(path, spans):
    trace = JsonTrace(path)
    assert trace.peaks == peaks_of_lines(path.with_name("memory.jsonl")), "other peaks in memory.jsonl"
    same_slices(each_lane(trace.slices), spans, "trace.json and spans.jsonl")
    for track, slices in trace.slices.items():
        assert all(a[1] <= b[0] for a, b in zip(slices, slices[1:])), f"slices of {track} overlap"
    assert trace.begins.keys() == trace.ends.keys(), "a flow has one end"
    print(f"trace.json: {len(trace.events)} events, {sum(map(len, trace.slices.values()))} slices, "
          f"{len(trace.begins)} flows")
    return trace


def unknown_fields(message):
    from google.protobuf.unknown_fields import UnknownFieldSet
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in (value if isinstance(value, Iterable) else [value]):
                count += unknown_fields(part)
    return count


class PerfettoTrace:
    """trace.pftrace by Perfetto's own classes, in the terms of JsonTrace."""

    def __init__(self, trace):
        self.packets = len(trace.packet)
        self.slices, self.begins, self.ends, self.peaks = {}, {}, {}, {}
        self.unknown = sum(map(unknown_fields, trace.packet))
        self.tracks = {}
        self.names = {kind: {} for kind in ("event_names", "event_categories", "debug_annotation_names",
                                            "debug_annotation_string_values")}
        self.open, self.flow_ends, self.bytes = {}, {}, {}
        clocks = [p.clock_snapshot for p in trace.packet if p.HasField("clock_snapshot")]
        defaults = [p.trace_packet_defaults for p in trace.packet if p.HasField("trace_packet_defaults")]
        assert len(clocks) == len(defaults) == 1
        assert defaults[0].timestamp_clock_id == clocks[0].primary_trace_clock == clocks[0].clocks[0].clock_id
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                self.add_track(packet.track_descriptor)
            if packet.HasField("interned_data"):
                self.add_names(packet.interned_data)
            if packet.HasField("track_event"):
                assert packet.HasField("timestamp") and packet.sequence_flags == packet.SEQ_NEEDS_INCREMENTAL_STATE
                self.add_event(packet.track_event, packet.timestamp)
        assert not self.open, "a slice has no end"

    def add_track(self, track):
        assert track.uuid not in self.tracks and (not track.parent_uuid or track.parent_uuid in self.tracks)
        self.tracks[track.uuid] = track
        if track.HasField("counter"):
            assert track.counter.unit == track.counter.UNIT_SIZE_BYTES

    def add_names(self, data):
        for kind, names in self.names.items():
            for name in getattr(data, kind):
                assert name.iid not in names
                names[name.iid] = name.str.decode() if kind.endswith("values") else name.name

    def parents(self, uuid):
        """Names from the process to the track."""
        track = self.tracks[uuid]
        return (*(self.parents(track.parent_uuid) if track.parent_uuid else ()), track.name)

    def add_event(self, event, at):
        where = self.parents(event.track_uuid)
        if event.type == event.TYPE_COUNTER:
            self.set_counter(where, at, event.counter_value)
        elif event.type == event.TYPE_SLICE_BEGIN:
            assert where not in self.open, f"slices of {where} overlap"
            assert at >= max((s[1] for s in self.slices.get(where, [])[-1:]), default=0), f"slices of {where} overlap"
            facts = {self.names["debug_annotation_names"][a.name_iid]:
                     a.int_value if a.HasField("int_value") else
                     self.names["debug_annotation_string_values"][a.string_value_iid]
                     for a in event.debug_annotations}
            (category,) = event.category_iids
            self.open[where] = (event, (at, self.names["event_names"][event.name_iid],
                                        self.names["event_categories"][category], *map(facts.get, FACTS)))
        else:
            assert event.type == event.TYPE_SLICE_END
            begin, (begins_at, *rest) = self.open.pop(where)
            assert at >= begins_at
            self.slices.setdefault(where, []).append((begins_at, at, *rest))
            for ends, ids, time in ((self.begins, begin.flow_ids, at),
                                    (self.ends, begin.terminating_flow_ids, begins_at)):
                for flow in ids:
                    assert flow not in ends, "a flow has two ends"
                    ends[flow] = where
                    self.flow_ends.setdefault(flow, {})[ends is self.begins] = time

    def set_counter(self, where, at, value):
        process, group, name = where
        bytes_now = self.bytes.setdefault((process, group), {})
        assert at >= bytes_now.get("at", 0), "a counter goes back in time"
        bytes_now["at"] = at
        bytes_now[name] = value
        if name == "all":  # the last of an instant
            categories = sum(v for key, v in bytes_now.items() if key not in ("all", "at"))
            assert value == categories, "categories are not all of it"
            self.peaks[(process, group)] = max(self.peaks.get((process, group), 0), value)


def check_perfetto(path, spans, json_trace, planned):
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
    except ImportError:
        print("trace.pftrace: no perfetto here")
        return
    message = Trace()
    message.ParseFromString(path.read_bytes())
    trace = PerfettoTrace(message)
    assert trace.unknown == 0, f"{trace.unknown} fields that Perfetto does not know"
    same_slices(each_lane(trace.slices), spans, "trace.pftrace and spans.jsonl")
    same_slices(trace.slices, json_trace.slices, "trace.pftrace and trace.json")
    assert (trace.begins, trace.ends) == (json_trace.begins, json_trace.ends), "other flows than trace.json"
    for flow, ends in trace.flow_ends.items():
        begins_on, ends_on = trace.begins[flow], trace.ends[flow]
        assert begins_on[0] == ends_on[0] and begins_on[1] != ends_on[1], "a flow between no lanes"
        assert ends[True] <= ends[False], f"what waits on {ends_on[1]} begins before {begins_on[1]} has ended"
    assert trace.peaks == json_trace.peaks and trace.peaks
    for (process, group), peak in trace.peaks.items():
        if planned is not None and group == "device memory":
            assert peak == planned, f"{process}: {planned} were planned, {peak} are shown"
    print(f"trace.pftrace: perfetto reads {trace.packets} packets, {sum(map(len, trace.slices.values()))} slices on "
          f"{len(trace.slices)} tracks, {len(trace.begins)} flows, {trace.unknown} unknown fields")
    for (process, group), peak in sorted(trace.peaks.items()):
        print(f"trace.pftrace: {group}, {process}: {peak} bytes at most")


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
    planned = int(sys.argv[3]) if len(sys.argv) > 3 else None
    spans = spans_by_lane(directory / "spans.jsonl")
    trace = check_trace(directory / "trace.json", spans)
    check_perfetto(directory / "trace.pftrace", spans, trace, planned)
    check_snapshot(directory / "snapshot.pickle", planned)
    if len(sys.argv) > 2:
        check_events(sys.argv[2])


if __name__ == "__main__":
    main()
