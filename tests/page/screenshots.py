"""The pictures of docs/report.md: screenshots.py SNUG RUN RANKS DOCS. RUN and RANKS are directories of runs that were profiled, the
second with --ranks 4 --tp 2.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser  # noqa: E402

SNAPSHOTS = pathlib.Path(__file__).parent.parent / "snapshots"


def rows_of(png):
    """The rows of an 8-bit picture without interlacing, unfiltered, and the bytes of a pixel."""
    at, data, header = 8, b"", None
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at:at + 4]), png[at + 4:at + 8]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", png[at + 8:at + 8 + length])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    width, height, size = header[0], header[1], {2: 3, 6: 4}[header[3]]
    raw, rows, above = zlib.decompress(data), [], bytearray(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        kind, row = raw[start], bytearray(raw[start + 1:start + 1 + width * size])
        for i in range(len(row)) if kind else ():
            a, b, c = (row[i - size] if i >= size else 0), above[i], (above[i - size] if i >= size else 0)
            if kind == 4:
                p = a + b - c
                a = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[i] = (row[i] + {1: a, 2: b, 3: (a + b) // 2, 4: a}[kind]) & 255
        rows.append(row)
        above = row
    return rows, size


def shrink(path):
    """The same picture with 6 bits a colour and without filters: half the bytes where areas are plain."""
    rows, size = rows_of(path.read_bytes())
    table = bytes(min(255, (v + 2) // 4 * 4) for v in range(256))
    plain = []
    for row in rows:
        row = row.translate(table)
        if size == 4:
            del row[3::4]
        plain.append(b"\0" + bytes(row))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]) // size, len(rows), 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(plain), 9)) +
                     chunk(b"IEND", b""))


def main():
    snug, run, ranks, docs = *sys.argv[1:4], pathlib.Path(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        def show(name, words, height, width=1240, dark=False, hover=None, at=None):
            page = pathlib.Path(folder) / f"{name}.html"
            subprocess.run([snug, "report", *words, "-o", str(page)], check=True, stdout=subprocess.DEVNULL)
            browser.open(page, width=width, height=height, dark=dark)
            if at:
                browser.evaluate(f"document.querySelector({at!r}).scrollIntoView()")
                browser.frames()
            if hover:
                selector, x, y = hover
                left, top, w, h = browser.evaluate(
                    f"(b => [b.left, b.top, b.width, b.height])(document.querySelector({selector!r}).getBoundingClientRect())")
                browser.move(left + x * w, top + y * h)
            browser.screenshot(docs / f"report-{name}.png")
            shrink(docs / f"report-{name}.png")

        show("plan", ["qwen2.5-7b", "--gpu", "rtx4090", "--batch", "16"], 1400, hover=("#map canvas", .237, .2))
        show("run", [run], 1380, dark=True, hover=("#loss canvas", .5, .5))
        show("ranks", [ranks], 1250, width=1400, at="#ranks", hover=("#ranks canvas", .385, .1))
        show("snapshot", [str(SNAPSHOTS / "oom.pickle")], 1500, hover=("#timeline canvas", .93, .42))
        show("two", ["qwen2.5-0.5b", "--gpu", "rtx4090", "--batch", "8", "--budget", "8GiB", "--against", "qwen2.5-1.5b"], 1400, width=1400)


if __name__ == "__main__":
    main()
