// Lanes over a step: what runs on each, predicted and measured, with the same scale of time.

const ROW = 26;

class Lanes {
  constructor(subject, view) {
    this.subject = subject;
    this.views = {x: view};
    this.rows = [];
    for (const set of subject.lanes)
      for (const lane of set.lanes) this.rows.push({lane, origin: set.origin});
    // The same lane predicted and measured, one below the other.
    const order = [...new Set(this.rows.map((row) => row.lane.name))];
    this.rows.sort((a, b) => order.indexOf(a.lane.name) - order.indexOf(b.lane.name) || a.origin.localeCompare(b.origin));
    this.height = MARGIN.top + this.rows.length * (ROW + 6) + 34;
    this.bottom = 30;
    this.left = leftMargin(order);
    this.label = "lanes: " + this.rows.map((row) => `${row.lane.name} ${row.origin}, busy ${duration(row.lane.busy_us)}`).join("; ") +
      ". Left and right move from span to span, up and down from lane to lane.";
    this.kinds = this.longestKinds();
    this.chosen = null;  // [row, span]
  }
  // The kinds of op that take most time have colours; the others are grey.
  longestKinds() {
    const sums = new Map();
    for (const {lane} of this.rows)
      lane.kind.forEach((kind, i) => sums.set(kind, (sums.get(kind) ?? 0) + lane.length[i]));
    return [...sums].sort((a, b) => b[1] - a[1]).slice(0, KIND_LOOKS.length).map(([kind]) => kind);
  }
  colour(kind) { return OKABE[KIND_LOOKS[this.kinds.indexOf(kind)] ?? "grey"]; }
  legend() {
    return el("div", {class: "legend"}, this.kinds.map((kind) =>
      el("span", {class: "chip"}, el("span", {class: "swatch", style: `background:${this.colour(kind)}`}), this.subject.text(kind))),
      el("span", {class: "chip"}, el("span", {class: "swatch", style: `background:${OKABE.grey}`}), "others"));
  }
  rowY(area, row) { return area.y + row * (ROW + 6); }
  draw(g, area) {
    const view = this.views.x, ink = Theme.ink;
    drawXAxis(g, area, view, duration);
    this.rows.forEach(({lane, origin}, row) => {
      const y = this.rowY(area, row);
      g.font = SMALL;
      g.fillStyle = ink.text;
      g.textAlign = "right";
      g.textBaseline = "middle";
      g.fillText(lane.name, area.x - 6, y + 8);
      g.fillStyle = ink.quiet;
      g.fillText(origin, area.x - 6, y + 20);
      g.fillStyle = ink.line;
      g.fillRect(area.x, y + ROW, area.width, 1);
      inside(g, area, () => this.drawSpans(g, area, lane, y, origin === "predicted"));
    });
    if (this.chosen) {
      const [row, i] = this.chosen, {lane} = this.rows[row], box = this.span(area, lane, i);
      inside(g, {...area, y: 0, height: 9999}, () => {
        g.strokeStyle = ink.strong;
        g.lineWidth = 2;
        g.strokeRect(box.left, this.rowY(area, row), Math.max(3, box.width), ROW);
      });
    }
  }
  span(area, lane, i) {
    const view = this.views.x, scale = area.width / (view.to - view.from);
    return {left: area.x + (lane.begin[i] - view.from) * scale, width: lane.length[i] * scale};
  }
  drawSpans(g, area, lane, y, predicted) {
    let drawn = -1;
    for (let i = 0; i < lane.begin.length; i++) {
      const {left, width} = this.span(area, lane, i);
      if (left + width < area.x || left > area.x + area.width) continue;
      const right = left + Math.max(.5, width);
      if (right < drawn + .4) continue;  // a column of pixels shows one
      drawn = right;
      g.fillStyle = this.colour(lane.kind[i]);
      g.globalAlpha = predicted && this.subject.lanes.length > 1 ? .65 : 1;
      g.fillRect(left, y, right - left, ROW);
      g.globalAlpha = 1;
      if (width > 60) {
        const name = this.subject.text(lane.text[i], lane.layer[i]);
        g.font = SMALL;
        if (g.measureText(name).width + 8 < width) drawLabel(g, name, Math.max(area.x, left) + 2, y + ROW / 2);
      }
    }
  }
  place(area, px, py) {
    const view = this.views.x;
    return {x: view.from + (px - area.x) / area.width * (view.to - view.from), y: (py - area.y) / (ROW + 6)};
  }
  pixel(area) {
    const [row, i] = this.chosen;
    return {x: Math.max(area.x, Math.min(area.x + area.width, this.span(area, this.rows[row].lane, i).left)), y: this.rowY(area, row) + ROW};
  }
  describe({x, y}) {
    const row = Math.floor(y);
    this.chosen = null;
    if (row < 0 || row >= this.rows.length) return null;
    const {lane} = this.rows[row];
    for (let i = 0; i < lane.begin.length; i++) {
      if (x < lane.begin[i] || x > lane.begin[i] + lane.length[i]) continue;
      this.chosen = [row, i];
      return this.words();
    }
    return {title: lane.name + " waits", rows: [["at", duration(x)]]};
  }
  words() {
    const [row, i] = this.chosen, {lane, origin} = this.rows[row];
    const rows = [["lane", `${lane.name}, ${origin}`], ["takes", duration(lane.length[i])], ["begins", duration(lane.begin[i])],
                  ["kind", this.subject.text(lane.kind[i])]];
    if (lane.layer[i] >= 0) rows.push(["layer", String(lane.layer[i])]);
    if (lane.ops[i] > 1) rows.push(["ops", `${lane.ops[i]} that are drawn as one`]);
    return {title: this.subject.text(lane.text[i], lane.layer[i]), rows};
  }
  key(key) {
    if (!key.startsWith("Arrow") || this.rows.length === 0) return null;
    let [row, i] = this.chosen ?? (key === "ArrowDown" ? [-1, 0] : [0, -1]);
    if (key === "ArrowDown") row = Math.min(this.rows.length - 1, row + 1);
    if (key === "ArrowUp") row = Math.max(0, row - 1);
    const {lane} = this.rows[row];
    if (key === "ArrowRight") i++;
    if (key === "ArrowLeft") i--;
    this.chosen = [row, Math.max(0, Math.min(lane.begin.length - 1, i))];
    this.views.x.show(lane.begin[this.chosen[1]]);
    return this.words();
  }
  leave() { this.chosen = null; }
}
