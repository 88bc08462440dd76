// The arena as a map: each value is a rectangle, its bytes upwards and its life to the right. Nothing overlaps.

class ArenaMap {
  constructor(space, view, hidden) {
    Object.assign(this, {space, hidden, axis: space.timeAxis});
    this.views = {x: view, y: new View(space.map_bytes)};
    this.height = 420;
    this.bottom = 30;
    this.label = `map of the ${space.name} arena, ${bytes(space.map_bytes)}: ${exact(space.count)} values as rectangles of bytes and time. ` +
      "Up and down choose a value, left and right move in time, P goes to the largest at the peak, plus and minus zoom.";
    this.matches = null;  // a set of values, where something is searched
    this.chosen = null;
    this.at = null;
  }
  box(area, value) {
    const {x, y} = this.views, v = this.space.values, axis = this.axis;
    const px = (at) => area.x + area.width * (at - x.from) / (x.to - x.from);
    const py = (at) => area.y + area.height * (1 - (at - y.from) / (y.to - y.from));
    const left = px(axis.x(v.first[value])), right = px(axis.x(v.last[value] + 1));
    const top = py(v.offset[value] + v.bytes[value]), bottom = py(v.offset[value]);
    return {left, top, width: Math.max(.6, right - left), height: Math.max(.6, bottom - top)};
  }
  draw(g, area) {
    const {space} = this, ink = Theme.ink;
    drawYAxis(g, area, this.views.y.from, this.views.y.to, bytes, true);
    drawXAxis(g, area, this.views.x, (x) => (this.axis.byTime ? duration(x) : exact(x)), this.axis.byTime ? "" : this.axis.unit + " →");
    inside(g, area, () => {
      for (let value = 0; value < space.count; value++) this.drawValue(g, area, value);
      if (this.matches) for (const value of this.matches) this.outline(g, area, value, 1.5);
      if (this.chosen != null) this.outline(g, area, this.chosen, 3);
      if (space.peak != null) {
        const {x} = this.views, at = (this.axis.x(space.peak) + this.axis.x(space.peak + 1)) / 2;
        const px = area.x + area.width * (at - x.from) / (x.to - x.from);
        g.strokeStyle = ink.strong;
        g.lineWidth = 1;
        g.setLineDash([3, 3]);
        g.beginPath(); g.moveTo(px, area.y); g.lineTo(px, area.y + area.height); g.stroke();
        g.setLineDash([]);
      }
    });
    drawSections(g, area, this.axis, this.views.x);
  }
  drawValue(g, area, value) {
    const box = this.box(area, value), category = this.space.category(value);
    if (box.left > area.x + area.width || box.left + box.width < area.x || box.top > area.y + area.height ||
        box.top + box.height < area.y) return;
    const faint = this.hidden.has(category) || (this.matches && !this.matches.has(value));
    g.globalAlpha = faint ? .12 : 1;
    g.fillStyle = paintOf(category);
    g.fillRect(box.left, box.top, box.width, box.height);
    if (box.width > 3 && box.height > 3) {
      g.strokeStyle = Theme.ink.back;
      g.lineWidth = .6;
      g.strokeRect(box.left, box.top, box.width, box.height);
    }
    g.globalAlpha = 1;
    if (box.height < 13 || box.width < 50 || faint) return;
    const left = Math.max(box.left, area.x), room = Math.min(box.left + box.width, area.x + area.width) - left - 10;
    const name = this.space.nameOf(value);
    g.font = SMALL;
    if (g.measureText(name).width > room) return;
    drawLabel(g, name, left + 3, box.top + box.height / 2);
  }
  outline(g, area, value, width) {
    const box = this.box(area, value);
    g.strokeStyle = Theme.ink.strong;
    g.lineWidth = width;
    g.strokeRect(box.left, box.top, Math.max(2, box.width), Math.max(2, box.height));
  }
  place(area, px, py) {
    const {x, y} = this.views;
    return {x: x.from + (px - area.x) / area.width * (x.to - x.from),
            y: y.from + (1 - (py - area.y) / area.height) * (y.to - y.from)};
  }
  pixel(area) {
    const box = this.box(area, this.chosen ?? 0);
    return {x: Math.max(area.x, Math.min(area.x + area.width, box.left + box.width / 2)), y: Math.max(area.y, box.top)};
  }
  describe({x, y}) {
    const v = this.space.values, instant = this.axis.instantAt(x);
    this.chosen = null;
    if (x < 0 || x > this.axis.end || y < 0) return null;
    for (let i = this.space.count - 1; i >= 0; i--) {  // the smallest last: it is found first
      if (v.first[i] > instant || v.last[i] < instant || y < v.offset[i] || y >= v.offset[i] + v.bytes[i]) continue;
      return this.choose(i);
    }
    return {title: "free", rows: [["byte", exact(y)], ["during", this.axis.nameOf(instant)]]};
  }
  key(key, fast) {
    if (key === "p" || key === "P") return this.largestAtPeak();
    const {x} = this.views, v = this.space.values;
    if (!key.startsWith("Arrow")) return null;
    this.at ??= this.space.peak ?? this.axis.instantAt(x.from);
    const step = Math.max(1, Math.round((this.axis.instantAt(x.to) - this.axis.instantAt(x.from)) / (fast ? 20 : 200)));
    if (key === "ArrowRight") this.at = Math.min(this.axis.size - 1, this.at + step);
    if (key === "ArrowLeft") this.at = Math.max(0, this.at - step);
    const alive = this.space.valuesAt(this.at).sort((a, b) => v.offset[a] - v.offset[b]);
    if (alive.length === 0) return null;
    let index = alive.indexOf(this.chosen);
    if (index < 0) {
      const from = this.chosen == null ? 0 : v.offset[this.chosen];
      index = Math.max(0, alive.findIndex((i) => v.offset[i] + v.bytes[i] > from));
    } else if (key === "ArrowUp") index = Math.min(alive.length - 1, index + 1);
    else if (key === "ArrowDown") index = Math.max(0, index - 1);
    return this.choose(alive[index]);
  }
  largestAtPeak() {
    const {peak} = this.space, alive = peak == null ? [] : this.space.valuesAt(peak);
    if (alive.length === 0) return null;
    this.at = peak;
    this.views.x.show(this.axis.x(peak));
    this.views.y.show(this.space.values.offset[alive[0]]);
    return this.choose(alive[0]);
  }
  choose(value) {
    this.chosen = value;
    return {title: this.space.nameOf(value), rows: this.space.describe(value)};
  }
  leave() { this.chosen = null; }

  // Values whose names hold every word of the query. Returns them, the largest first.
  search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    this.matches = null;
    if (words.length === 0) return [];
    const found = [];
    for (let i = 0; i < this.space.count; i++) {
      const name = this.space.nameOf(i).toLowerCase();
      if (words.every((word) => name.includes(word))) found.push(i);
    }
    this.matches = new Set(found);
    return found.sort((a, b) => this.space.values.bytes[b] - this.space.values.bytes[a]);
  }
  // Its rectangle with some of its neighbourhood.
  goTo(value) {
    const v = this.space.values, axis = this.axis, {x, y} = this.views;
    const from = axis.x(v.first[value]), to = axis.x(v.last[value] + 1);
    x.set(from - (to - from), to + (to - from));
    y.set(v.offset[value] - 2 * v.bytes[value], v.offset[value] + 3 * v.bytes[value]);
    this.chosen = value;
  }
}
