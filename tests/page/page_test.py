"""The page of `snug report` in a headless Chromium: hover, zoom, search, comparison, theme, keys, print, and the time it
takes. Usage: page_test.py SNUG. Ends with 77 where there is no Chromium.
"""
import pathlib
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
    check("above the bytes it names the op", "live" in browser.evaluate(TIP), browser.evaluate(TIP))
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
        browser.print_pdf(pathlib.Path(folder) / "plan.pdf")
        check("it prints", (pathlib.Path(folder) / "plan.pdf").stat().st_size > 20_000)
        check("a command can be copied", browser.evaluate("document.querySelectorAll('#changes .copy').length") > 0)
        check("no script failed, and nothing was asked of the network", browser.errors() == [], browser.errors())

        browser.open(page("two", str(SNAPSHOTS / "oom.pickle"), "--against", "gpt2", "--batch", "2", "--seq", "64"))
        check("two subjects are two columns", browser.evaluate("document.querySelectorAll('#timeline canvas').length") == 2)
        check("with the difference of their bytes", "B − A" in browser.evaluate("document.querySelector('#breakdown').innerText"))
        check("the error is marked", "ran out of memory" in browser.evaluate("document.querySelector('#answer').innerText"))
        check("no script failed there", browser.errors() == [], browser.errors())
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
