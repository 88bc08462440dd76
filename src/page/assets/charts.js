// What all drawings share: a canvas of the right resolution, a view that zooms and pans, a tooltip, and keys.

const MARGIN = {left: 92, right: 14, top: 24, bottom: 44};
const FONT = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
const SMALL = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";

// What of [0, end] is seen; drawings that share one move together.
class View {
  constructor(end) { this.listeners = []; this.reset(end); }
  reset(end = this.end) { this.end = end; this.from = 0; this.to = end; this.tell(); }
  set(from, to) {
    const least = this.end / 20000;
    let width = Math.min(this.end, Math.max(least, to - from));
    this.from = Math.max(0, Math.min(this.end - width, from));
    this.to = this.from + width;
    this.tell();
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    const width = (this.to - this.from) * factor, part = (at - this.from) / (this.to - this.from);
    this.set(at - part * width, at + (1 - part) * width);
  }
  show(at) {  // in the middle, where it was outside
    if (at < this.from || at > this.to) this.set(at - (this.to - this.from) / 2, at + (this.to - this.from) / 2);
  }
  tell() { for (const redraw of this.listeners) redraw(); }
}

const Tip = {
  show(x, y, title, rows, note) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(el("strong", {}, title),
      el("dl", {}, rows.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
      note ? el("p", {}, note) : "");
    tip.hidden = false;
    const {width, height} = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, x + 16 + width > innerWidth ? x - width - 12 : x + 16) + "px";
    tip.style.top = Math.max(4, Math.min(innerHeight - height - 4, y + 16)) + "px";
  },
  hide() { document.getElementById("tip").hidden = true; },
};

// A canvas with a view. `drawing` has: height, label, draw(g, area), describe(x, y) -> {title, rows, say?},
// and may have views {x, y}, key(event) -> handled, leave(), bottom and left: its margins.
class Chart {
  constructor(drawing) {
    this.drawing = drawing;
    this.canvas = el("canvas", {tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": drawing.label,
                                "aria-keyshortcuts": "ArrowLeft ArrowRight + - 0"});
    this.node = el("div", {class: "chart", style: `height:${drawing.height}px`}, this.canvas);
    this.pending = false;
    for (const view of Object.values(drawing.views ?? {})) view.listeners.push(() => this.redraw());
    Theme.listeners.push(() => this.draw());
    new ResizeObserver(() => this.redraw()).observe(this.node);
    this.listen();
  }
  get area() {
    const left = this.drawing.left ?? MARGIN.left;
    return {x: left, y: MARGIN.top, width: Math.max(10, this.width - left - MARGIN.right),
            height: this.height - MARGIN.top - (this.drawing.bottom ?? MARGIN.bottom)};
  }
  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }
  draw() {
    this.width = this.node.clientWidth;
    this.height = this.drawing.height;
    if (this.width === 0) return;
    const scale = Math.max(devicePixelRatio || 1, Theme.printing ? 2 : 1);
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    const g = this.canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.font = FONT;
    this.drawing.draw(g, this.area);
  }
  // Where a pointer is, in the units of the views.
  place(event) {
    const box = this.canvas.getBoundingClientRect(), area = this.area;
    return this.drawing.place(area, event.clientX - box.left, event.clientY - box.top);
  }
  listen() {
    const {canvas, drawing} = this;
    let drag = null;
    canvas.addEventListener("pointermove", (event) => {
      if (drag && drawing.views) {
        const area = this.area, {x, y} = drawing.views;
        x.set(drag.from - (event.clientX - drag.x) / area.width * (drag.to - drag.from), drag.to - (event.clientX - drag.x) / area.width * (drag.to - drag.from));
        if (y) {
          const by = (event.clientY - drag.y) / area.height * (drag.top - drag.low);
          y.set(drag.low + by, drag.top + by);
        }
        Tip.hide();
        return;
      }
      const found = drawing.describe(this.place(event));
      if (found) Tip.show(event.clientX, event.clientY, found.title, found.rows, found.note); else Tip.hide();
      this.redraw();
    });
    canvas.addEventListener("pointerdown", (event) => {
      const views = drawing.views;
      if (!views) return;
      drag = {x: event.clientX, y: event.clientY, from: views.x.from, to: views.x.to, low: views.y?.from, top: views.y?.to};
      canvas.setPointerCapture(event.pointerId);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { Tip.hide(); drawing.leave?.(); this.redraw(); });
    canvas.addEventListener("blur", () => { Tip.hide(); drawing.leave?.(); this.redraw(); });
    // The page scrolls until a drawing is chosen, by a click or a key.
    canvas.addEventListener("wheel", (event) => {
      if (!drawing.views || (document.activeElement !== canvas && !event.ctrlKey)) return;
      event.preventDefault();
      const {x, y} = drawing.views, place = this.place(event), factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
      if (event.shiftKey || !y) { x.zoom(factor, place.x); return; }
      x.zoom(factor, place.x);
      y.zoom(factor, place.y);
    }, {passive: false});
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("keydown", (event) => { if (this.key(event)) event.preventDefault(); });
  }
  reset() { for (const view of Object.values(this.drawing.views ?? {})) view.reset(); }
  zoom(factor) { for (const view of Object.values(this.drawing.views ?? {})) view.zoom(factor); }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "+" || event.key === "=") { this.zoom(0.7); return true; }
    if (event.key === "-") { this.zoom(1 / 0.7); return true; }
    if (event.key === "0") { this.reset(); return true; }
    if (event.key === "Escape") { Tip.hide(); return true; }
    const found = this.drawing.key?.(event.key, event.shiftKey);
    if (!found) return false;
    const box = this.canvas.getBoundingClientRect(), at = this.drawing.pixel(this.area);
    Tip.show(box.left + at.x, box.top + at.y, found.title, found.rows, found.note);
    say(found.title + ". " + found.rows.map((row) => row.join(" ")).join(", "));
    this.redraw();
    return true;
  }
  // Buttons, for mice without a wheel.
  tools() {
    const button = (text, label, action) =>
      el("button", {type: "button", "aria-label": label, title: label, onclick: action}, text);
    return el("span", {class: "tools"}, button("+", "zoom in", () => this.zoom(0.6)),
      button("−", "zoom out", () => this.zoom(1 / 0.6)), button("all", "show all", () => this.reset()));
  }
}

// The left margin that small texts need; a very long one is cut.
function leftMargin(texts) {
  const g = document.createElement("canvas").getContext("2d");
  g.font = SMALL;
  return Math.min(180, Math.max(MARGIN.left, ...texts.map((text) => Math.ceil(g.measureText(text).width) + 10)));
}

// Lines and numbers at the left edge.
function drawYAxis(g, area, from, to, text, isBytes) {
  const ink = Theme.ink;
  g.textAlign = "right";
  g.textBaseline = "middle";
  g.font = SMALL;
  for (const at of ticks(from, to, area.height / 40, isBytes)) {
    const y = area.y + area.height * (1 - (at - from) / (to - from));
    if (y < area.y - 1 || y > area.y + area.height + 1) continue;
    g.strokeStyle = ink.line;
    g.lineWidth = 1;
    g.beginPath(); g.moveTo(area.x, y); g.lineTo(area.x + area.width, y); g.stroke();
    g.fillStyle = ink.quiet;
    g.fillText(text(at), area.x - 6, y);
  }
}

function drawXAxis(g, area, view, text, unit = "") {
  const ink = Theme.ink, y = area.y + area.height;
  g.textAlign = "center";
  g.textBaseline = "top";
  g.font = SMALL;
  g.strokeStyle = ink.line;
  g.beginPath(); g.moveTo(area.x, y + .5); g.lineTo(area.x + area.width, y + .5); g.stroke();
  for (const at of ticks(view.from, view.to, area.width / 110)) {
    const x = area.x + area.width * (at - view.from) / (view.to - view.from);
    if (x > area.x + area.width - (unit ? 60 : 12)) continue;
    g.fillStyle = ink.quiet;
    g.fillText(text(at), x, y + 4);
  }
  g.textAlign = "right";
  g.fillText(unit, area.x + area.width, y + 4);
}

// A text on a ground of its own, so that it can be read over colours.
function drawLabel(g, text, x, y, align = "left", colour = Theme.ink.text) {
  g.font = SMALL;
  const width = g.measureText(text).width + 8, left = align === "right" ? x - width : x;
  g.fillStyle = Theme.ink.back;
  g.globalAlpha = .85;
  g.fillRect(left, y - 8, width, 16);
  g.globalAlpha = 1;
  g.fillStyle = colour;
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText(text, left + 4, y);
}

function inside(g, area, draw) {
  g.save();
  g.beginPath(); g.rect(area.x, area.y, area.width, area.height); g.clip();
  draw();
  g.restore();
}
