"""A headless Chromium, driven over its DevTools pipe by the standard library alone.

    with Browser() as browser:
        browser.open("page.html", width=1300, height=900)
        browser.evaluate("document.title")
        browser.move(300, 200)
        browser.screenshot("page.png")
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """The program, or None where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="snug-page-")
        to_child, self.write_end = os.pipe()
        self.read_end, from_child = os.pipe()

        def place():  # Chromium reads commands from 3 and answers on 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run", f"--user-data-dir={self.profile}",
             "about:blank"],
            preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _next(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, path, width=1300, height=900, dark=False):
        """Returns how many milliseconds the page took until it was drawn."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        deadline = time.monotonic() + 20
        while not self.evaluate("document.documentElement?.dataset.ready || ''"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{path} is not drawn after 20 s: {self.errors()}")
            time.sleep(0.02)
        self.frames()
        return float(self.evaluate("document.documentElement.dataset.ready"))

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def frames(self):
        """Waits until what is pending has been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def errors(self):
        """What scripts threw and what was logged as an error; requests that left the machine."""
        found = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(p["exceptionDetails"].get("exception", {}).get("description", str(p)))
            elif method == "Log.entryAdded" and p["entry"]["level"] == "error":
                found.append(p["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:", "about:")):
                found.append("asked the network for " + p["request"]["url"])
        return found

    def box(self, selector, index=0):
        """Scrolls an element into view and returns its left, top, width and height."""
        self.evaluate(f"document.querySelectorAll({selector!r})[{index}].scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.frames()
        return self.evaluate(f"(() => {{ const b = document.querySelectorAll({selector!r})[{index}].getBoundingClientRect();"
                             " return [b.left, b.top, b.width, b.height]; })()")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.frames()

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.frames()

    def wheel(self, x, y, delta):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.frames()

    def key(self, key, text=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": text} if text and kind == "keyDown" else {}))
        self.frames()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.frames()

    def screenshot(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def print_pdf(self, path):
        pdf = self.call("Page.printToPDF", printBackground=False)
        pathlib.Path(path).write_bytes(base64.b64decode(pdf["data"]))
