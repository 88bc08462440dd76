"""The page of `snug report` in a headless Chromium: hover, zoom, search, comparison, theme, keys, print, and the time it
takes. Usage: page_test.py SNUG. Ends with 77 where there is no Chromium.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_chromium  # noqa: E402

SNAPSHOTS = pathlib.Path(__file__).parent.parent / "snapshots"
TIP = "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"


def check(what, good, seen=""):
    print(("ok    " if good else "WRONG ") + what + (f": {seen}" if seen != "" and not good else ""))
    if not good:
        check.failed = True


check.failed = False


def pixels(browser, selector):
    """A number that changes with what a canvas shows."""
    return browser.evaluate(f"(() => {{ const c = document.querySelector({selector!r}), d = c.getContext('2d')"
                            ".getImageData(0, 0, c.width, c.height).data; let h = 0; for (let i = 0; i < d.length; i += 97)"
                            " h = (h * 31 + d[i]) | 0; return h; })()")


def tooltips(browser):
    left, top, width, height = browser.box("#timeline canvas")
    browser.move(left + width / 2, top + height - 75)
    tip = browser.evaluate(TIP)
    check("the timeline's tooltip names a value, its bytes, layer and life", "bytes" in tip and "lives" in tip, tip)
    browser.move(left + width / 2, top + 30)
    tip = browser.evaluate(TIP).splitlines()
    data = json.loads(browser.evaluate("document.getElementById('data').textContent"))["subjects"][0]
    axis = data["axes"][0]
    ops = {data["texts"][name].replace("\x01", data["layers"][layer] if layer >= 0 else "")
           for name, layer in zip(axis["name"], axis["layer"])}
    check("above the bytes it names the op", tip and tip[0] in ops and "live" in tip, tip)
    left, top, width, height = browser.box("#map canvas")
    browser.move(left + width / 2, top + height - 60)
    tip = browser.evaluate(TIP)
    check("the map's tooltip names a value and its place", "bytes from" in tip and "category" in tip, tip)
    browser.move(5, 5)
    check("it goes with the pointer", browser.evaluate(TIP) == "")
    left, top, width, height = browser.box("#lanes canvas")
    seen = ""
    for part in range(12, 95):
        browser.move(left + width * part / 100, top + 36)
        seen = browser.evaluate(TIP)
        if "takes" in seen:
            break
    check("a lane's tooltip names an op and its time", "takes" in seen and "lane" in seen, seen)


def zoom(browser):
    left, top, width, height = browser.box("#map canvas")
    before = pixels(browser, "#map canvas")
    browser.wheel(left + width / 2, top + height / 2, -300)
    check("the wheel scrolls the page until a drawing is chosen", pixels(browser, "#map canvas") == before)
    left, top, width, height = browser.box("#map canvas")
    browser.click(left + width / 2, top + height / 2)
    browser.move(2, 2)
    before, line = pixels(browser, "#map canvas"), pixels(browser, "#timeline canvas")
    browser.wheel(left + width / 2, top + height / 2, -300)
    browser.move(2, 2)
    check("then it zooms", pixels(browser, "#map canvas") != before)
    check("the timeline moves along", pixels(browser, "#timeline canvas") != line)
    browser.key("0", "0")
    browser.move(2, 2)
    check("0 shows all again", pixels(browser, "#timeline canvas") == line)
    browser.key("+", "+")
    check("+ zooms", pixels(browser, "#timeline canvas") != line)
    browser.key("0", "0")
    browser.key("ArrowUp")
    check("keys choose a value, and it is said", "bytes" in browser.evaluate("document.getElementById('live').textContent"))


def search(browser):
    before = pixels(browser, "#map canvas")
    browser.evaluate("document.activeElement.blur()")
    browser.key("/", "/")
    check("/ goes to the search", browser.evaluate("document.activeElement.type") == "search")
    browser.type("attn")
    count = browser.evaluate("document.querySelector('.search [role=status]').textContent")
    check("matches are counted", int(count.split()[0].replace(",", "")) > 0, count)
    check("and shown", pixels(browser, "#map canvas") != before)
    seen = pixels(browser, "#map canvas")
    browser.key("Enter", "\r")
    check("Enter goes to one", pixels(browser, "#map canvas") != seen)
    browser.type("<img src=x onerror=boom()>")
    check("what is typed is no markup", browser.evaluate("document.querySelectorAll('main img').length") == 0)


def theme(browser):
    back = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(back)
    left, top, width, height = browser.box("#theme")
    browser.click(left + width / 2, top + height / 2)
    check("the button makes it dark", browser.evaluate(back) != light)
    check("and says what it does next", "light" in browser.evaluate("document.getElementById('theme').textContent"))
    browser.click(left + width / 2, top + height / 2)
    check("and light again", browser.evaluate(back) == light)


def accessible(browser):
    check("every drawing has a name", browser.evaluate(
        "[...document.querySelectorAll('canvas')].every(c => c.getAttribute('aria-label') && c.tabIndex === 0)"))
    check("every button has one", browser.evaluate(
        "[...document.querySelectorAll('button')].every(b => b.textContent.trim() || b.getAttribute('aria-label'))"))


def printed(browser, path):
    theme = "document.documentElement.dataset.theme"
    browser.evaluate(f"{theme} = 'dark'")
    browser.print_pdf(path)
    pdf = path.read_bytes()
    check("it prints on a few pages", 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12 and len(pdf) > 20_000)
    browser.call("Emulation.setEmulatedMedia", media="print")
    # As a canvas that was drawn for a wider screen before it was laid out for paper.
    shape = browser.evaluate("(() => { const c = document.querySelector('#map canvas'); c.width *= 2; const b = c.getBoundingClientRect();"
                             " return c.width / c.height / (b.width / b.height); })()")
    check("drawings keep their shape on paper", abs(shape - 1) < .02, shape)
    ink = browser.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')")
    check("and light colours", ink.strip() == "#005f95", ink)
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.evaluate(f"delete {theme}")


def spaces(browser):
    """Of a plan with two spaces: tables and search follow the one that is shown."""
    pressed = "document.querySelector('[aria-label=space] [aria-pressed=true]').textContent"
    count = "document.querySelector('.search [role=status]').textContent"
    first = browser.evaluate(pressed)
    browser.evaluate("document.querySelector('.search input').focus()")
    browser.type("embed")
    found = browser.evaluate(count)
    browser.evaluate("document.querySelectorAll('[aria-label=space] button')[1].click()")
    browser.frames()
    check("another space is shown", browser.evaluate(pressed) != first)
    check("and searched anew", browser.evaluate(count) != found, found)
    browser.evaluate("document.querySelector('#breakdown .link').click()")
    browser.frames()
    check("a value of the table is shown in its space", browser.evaluate(pressed) == first)
    browser.evaluate("document.querySelector('#lanes canvas').focus()")
    browser.key("ArrowDown")
    lane = browser.evaluate("document.getElementById('live').textContent")
    names = json.loads(browser.evaluate("document.getElementById('data').textContent"))["subjects"][0]["lanes"][0]["lanes"]
    check("the first key chooses the first lane", f"lane {names[0]['name']}, predicted" in lane, lane)
    browser.evaluate("document.querySelector('#map canvas').focus()")
    browser.key("p", "p")
    said = browser.evaluate("document.getElementById('live').textContent")
    check("P on the map goes to the peak", "category" in said, said)


def sorting(browser):
    button = "[...document.querySelectorAll('#changes .sort')].find(b => b.textContent === 'saves')"
    browser.evaluate(button + ".click()")
    column = browser.evaluate(f"[...{button}.closest('tr').children].indexOf({button}.closest('th'))")
    cells = browser.evaluate(f"[...document.querySelectorAll('#changes tbody tr')].map(r => r.children[{column}].textContent)")
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    numbers = [float(n.replace("−", "-")) * units[unit] for n, unit in (cell.split() for cell in cells)]
    check("what saves most is first", numbers == sorted(numbers, reverse=True), cells)
    check("and the head says so", browser.evaluate(f"{button}.closest('th').getAttribute('aria-sort')") == "descending")


RUNS = {
    "ends": '{"step":1,"loss":5.5}\n{"step":2,"loss":null}\n',
    "never": '{"step":1,"loss":null,"lr":0.1}\n{"step":2,"loss":null,"lr":0.2}\n',
    "one": '{"step":1,"loss":5.5}\n',
    "none": '{"step":0,"eval_loss":5.5}\n',
    "large": '{"step":1,"loss":1e16}\n{"step":2,"loss":10000000000000002}\n',
    "<img src=x onerror=boom()>'\"": '{"step":1,"loss":5.5}\n{"step":2,"loss":5}\n',
}


def runs(browser, page, folder):
    for number, (name, history) in enumerate(RUNS.items()):
        run = folder / "runs" / name
        run.mkdir(parents=True)
        (run / "history.jsonl").write_text(history)
        browser.open(page(f"run-{number}", str(run)))
        seen = browser.evaluate("document.querySelector('main').innerText")
        check(f"a run of {history!r} has a page", "Answer" in seen and ("Loss" in seen) == (name != "none"), seen)
        check("its name is no markup", name in seen and browser.evaluate("document.querySelectorAll('img').length") == 0, seen)
        if name == "ends":
            check("it says since when the loss is not finite", "not finite since step 2" in seen, seen)
        if name == "never":
            check("another number is drawn", browser.evaluate(
                "document.querySelector('[aria-label=metric] [aria-pressed=true]').textContent") == "learning rate")
        if name == "one":
            check("one step is a dot", browser.evaluate(
                "(() => { const c = document.querySelector('#loss canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
                ".data; for (let i = 0; i < d.length; i += 4) if (d[i] === 0 && d[i + 1] === 0x72 && d[i + 2] === 0xB2) return true;"
                " return false; })()"))
        check("no script failed on it", browser.errors() == [], browser.errors())


def spans_of_rank(rank, late):
    """Two lanes: every rank computes, and waits in a sum for the one that is late."""
    def line(lane, op, begin, end, **more):
        return json.dumps({"origin": "measured", "step": 0, "run": 0, "program": "p", "op": op, "kind": "<b>kind", "ops": 1,
                           "lane": lane, "layer": -1, "phase": "forward", "begin_s": begin, "end_s": end, **more}) + "\n"
    begin = .2 if rank == late else .1
    return line("compute", f"rank{rank}<img src=x onerror=boom()>", 0, begin) + \
        line("comm<i>", "sum", begin, .25, axis="dp", ranks=3, stride=1)


def ranks(browser, page, folder):
    run = folder / "ranks"
    run.mkdir()
    (run / "history.jsonl").write_text('{"step":1,"loss":5.5}\n')
    for rank in range(3):
        profile = run / "profile" / f"rank-{rank}"
        profile.mkdir(parents=True)
        (profile / "spans.jsonl").write_text(spans_of_rank(rank, late=1))
        (profile / "memory.jsonl").write_text("".join(json.dumps(
            {"origin": "measured", "space": "device", "step": 0, "op": f"op{i}<u>", "layer": -1, "phase": "forward", "begin_s": i / 100,
             "live": {"params": 1 << 20, "activations": (rank + 1) * i << 16}}) + "\n" for i in range(20)))
    browser.open(page("ranks", str(run)))
    said, shown = "document.getElementById('live').textContent", "document.querySelector('#ranks').innerText"
    check("of every rank there is a row", browser.evaluate("document.querySelectorAll('#ranks tbody tr').length") == 3)
    rows = browser.evaluate("[...document.querySelectorAll('#ranks tbody tr')].map(r => r.innerText)")
    check("a row names the rank that it waits for", "rank 1, 100 ms" in rows[0] and "rank 1" not in rows[1], rows)
    check("and the rank that is waited for", "rank 1: the others waited" in browser.evaluate(shown), browser.evaluate(shown))
    check("the first rank is chosen", "lanes of rank 0" in browser.evaluate(shown))
    canvases = "document.querySelectorAll('#ranks canvas')"
    check("it has lanes and memory", browser.evaluate(canvases + ".length") == 2)
    before = pixels(browser, "#ranks canvas")
    browser.evaluate("document.querySelector('#ranks [aria-label=rank] button').focus()")
    browser.key("Tab", "\t")
    browser.key("Enter", "\r")
    browser.frames()
    check("a key chooses the next", browser.evaluate("document.querySelector('#ranks [aria-label=rank] [aria-pressed=true]').textContent") == "1")
    check("and that is said", "rank 1 is shown" in browser.evaluate(said), browser.evaluate(said))
    check("its lanes are others", "lanes of rank 1" in browser.evaluate(shown) and pixels(browser, "#ranks canvas") != before)
    browser.evaluate(f"{canvases}[0].focus()")
    browser.key("ArrowDown")
    check("an op of that rank is said as text", "rank1<img" in browser.evaluate(said), browser.evaluate(said))
    browser.evaluate(f"{canvases}[1].focus()")
    browser.key("p", "p")
    check("P goes to its peak", "op19<u>" in browser.evaluate(said) and "3.38 MiB" in browser.evaluate(said), browser.evaluate(said))
    check("no name is markup", browser.evaluate("document.querySelectorAll('main img, main u, main i, main b:not(.mark)').length") == 0)
    accessible(browser)
    check("no script failed with ranks", browser.errors() == [], browser.errors())


def main():
    if find_chromium() is None:
        print("no Chromium here")
        return 77
    snug = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        def page(name, *words):
            path = pathlib.Path(folder) / f"{name}.html"
            subprocess.run([snug, "report", *words, "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
            return path

        plan = page("plan", "qwen2.5-7b", "--gpu", "rtx4090", "--batch", "16")
        check("a 7B plan's page is smaller than 2 MB", plan.stat().st_size < 2e6, plan.stat().st_size)
        begun = time.monotonic()
        drawn = browser.open(plan)
        check("it is there in a second", min(drawn, 1e3 * (time.monotonic() - begun)) < 1000, drawn)
        print(f"      {plan.stat().st_size:,} bytes, drawn after {drawn:.0f} ms")
        tooltips(browser)
        zoom(browser)
        search(browser)
        theme(browser)
        accessible(browser)
        sorting(browser)
        printed(browser, pathlib.Path(folder) / "plan.pdf")
        check("a command can be copied", browser.evaluate("document.querySelectorAll('#changes .copy').length") > 0)
        check("no script failed, and nothing was asked of the network", browser.errors() == [], browser.errors())

        browser.open(page("spaces", "gpt2", "--batch", "2", "--seq", "64", "--gpu", "rtx4090", "--offload", "all"))
        spaces(browser)
        check("no script failed with two spaces", browser.errors() == [], browser.errors())
        runs(browser, page, pathlib.Path(folder))
        ranks(browser, page, pathlib.Path(folder))

        browser.open(page("two", str(SNAPSHOTS / "oom.pickle"), "--against", "gpt2", "--batch", "2", "--seq", "64"))
        check("two subjects are two columns", browser.evaluate("document.querySelectorAll('#timeline canvas').length") == 2)
        check("with the difference of their bytes", "B − A" in browser.evaluate("document.querySelector('#breakdown').innerText"))
        check("the error is marked", "ran out of memory" in browser.evaluate("document.querySelector('#answer').innerText"))
        check("no script failed there", browser.errors() == [], browser.errors())
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
