// Memory over a step: what lives at each instant, one category on another, the budget as a line.

const STRIP = 14;  // the band of phases below the axis

// Instants under each column of pixels: [first, end).
function columnsOf(axis, view, width) {
  const out = [];
  let first = axis.instantAt(view.from);
  while (first > 0 && axis.x(first - 1) >= view.from) first--;  // by time, some take none
  for (let px = 0; px < width; px++) {
    const x = view.from + (px + 1) / width * (view.to - view.from);
    let end = first + 1;
    while (end < axis.size && axis.x(end) < x) end++;
    out.push([first, end]);
    first = Math.min(axis.size - 1, axis.x(end) <= x ? end : end - 1);
  }
  return out;
}

// Runs of instants with the same phase, below the axis: forward, backward, update.
function drawPhases(g, area, axis, view) {
  const y = area.y + area.height + 22, ink = Theme.ink, subject = axis.subject;
  const at = (instant) => area.x + area.width * (axis.x(instant) - view.from) / (view.to - view.from);
  const shades = ["22", "55", "88"];
  let begin = 0, shade = 0;
  const known = new Map();
  for (let i = 1; i <= axis.size; i++) {
    if (i < axis.size && axis.phase[i] === axis.phase[begin]) continue;
    const left = Math.max(area.x, at(begin)), right = Math.min(area.x + area.width, at(i));
    const phase = subject.text(axis.phase[begin]);
    if (!known.has(phase)) known.set(phase, shades[shade++ % 3]);
    if (right > left) {
      g.fillStyle = ink.quiet + known.get(phase);
      g.fillRect(left, y, right - left, STRIP);
      g.font = SMALL;
      if (g.measureText(phase).width + 6 < right - left) {
        g.fillStyle = ink.text;
        g.textAlign = "center";
        g.textBaseline = "middle";
        g.fillText(phase, (left + right) / 2, y + STRIP / 2 + .5);
      }
    }
    begin = i;
  }
}

// Programs, or steps: their names above, lines between them.
function drawSections(g, area, axis, view) {
  const ink = Theme.ink;
  let free = -1e9;
  for (const section of axis.sections) {
    const x = area.x + area.width * (axis.x(section.first) - view.from) / (view.to - view.from);
    if (x > area.x + area.width) continue;
    if (x >= area.x && section.first > 0) {
      g.strokeStyle = ink.quiet;
      g.setLineDash([2, 3]);
      g.beginPath(); g.moveTo(Math.round(x) + .5, area.y - 14); g.lineTo(Math.round(x) + .5, area.y + area.height); g.stroke();
      g.setLineDash([]);
    }
    const text = section.name + (section.runs > 1 ? ` × ${section.runs}` : section.runs === 0 ? " (outside the step)" : "");
    g.font = SMALL;
    const left = Math.max(area.x, x) + 4, width = g.measureText(text).width;
    if (left < free || left + width > area.x + area.width) continue;
    g.fillStyle = ink.quiet;
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(text, left, area.y - 10);
    free = left + width + 8;
  }
}

class Timeline {
  // `view` is shared with the map of the same space; `top` with the other subject.
  constructor(space, view, top, hidden) {
    Object.assign(this, {space, top, hidden, axis: space.timeAxis});
    this.views = {x: view};
    this.height = 330;
    this.bottom = 58;
    this.label = `memory over time, ${space.name}: peak ${bytes(space.max_live)}. Arrow keys move, P goes to the peak, plus and minus zoom.`;
    this.at = null;
  }
  get shown() { return this.space.used.filter((c) => !this.hidden.has(this.space.subject.categories[c])); }

  draw(g, area) {
    const {space, axis} = this, view = this.views.x, names = space.subject.categories;
    drawYAxis(g, area, 0, this.top, bytes, true);
    drawXAxis(g, area, view, (x) => (axis.byTime ? duration(x) : exact(x)), axis.byTime ? "" : axis.unit + " →");
    const columns = columnsOf(axis, view, Math.floor(area.width));
    const shown = this.shown, y = (n) => area.y + area.height * (1 - n / this.top);
    // The fullest instant of each column of pixels, so that no peak is lost.
    const fullest = columns.map(([first, end]) => {
      let best = first;
      for (let i = first; i < end; i++) if (space.total[i] > space.total[best]) best = i;
      return best;
    });
    const low = new Float64Array(columns.length);
    inside(g, area, () => {
      for (const c of shown) {
        const one = space.courses[c];
        g.fillStyle = paintOf(names[c]);
        g.beginPath();
        g.moveTo(area.x, y(low[0]));
        for (let px = 0; px < columns.length; px++) {
          const top = y(low[px] + one[fullest[px]]);
          g.lineTo(area.x + px, top); g.lineTo(area.x + px + 1, top);
        }
        for (let px = columns.length - 1; px >= 0; px--) {
          g.lineTo(area.x + px + 1, y(low[px])); g.lineTo(area.x + px, y(low[px]));
          low[px] += one[fullest[px]];
        }
        g.fill();
      }
      this.drawLines(g, area, y, columns);
    });
    drawSections(g, area, axis, view);
    drawPhases(g, area, axis, view);
    this.drawMarks(g, area, y);
  }
  drawLines(g, area, y, columns) {
    const {space} = this, ink = Theme.ink;
    if (!space.line) return;
    g.strokeStyle = ink.text;
    g.lineWidth = 1.5;
    g.beginPath();
    columns.forEach(([first], px) => g.lineTo(area.x + px, y(space.line[first])));
    g.stroke();
    drawLabel(g, space.line_words, area.x + 6, Math.max(area.y + 9, y(space.line[columns.at(-1)[0]]) - 10));
  }
  drawMarks(g, area, y) {
    const {space, axis} = this, view = this.views.x, ink = Theme.ink;
    const x = (i) => area.x + area.width * ((axis.x(i) + axis.x(i + 1)) / 2 - view.from) / (view.to - view.from);
    if (space.limit != null && space.limit <= this.top) {
      g.strokeStyle = "#D55E00";
      g.lineWidth = 2;
      g.setLineDash([8, 4]);
      g.beginPath(); g.moveTo(area.x, y(space.limit)); g.lineTo(area.x + area.width, y(space.limit)); g.stroke();
      g.setLineDash([]);
      const right = space.peak != null && x(space.peak) < area.x + area.width / 2;  // where the peak's label is not
      drawLabel(g, "budget of the arena " + bytes(space.limit), right ? area.x + area.width - 2 : area.x + 4, y(space.limit) - 10, right ? "right" : "left");
    }
    for (const [instant, words] of space.marks ?? []) {
      const px = x(instant);
      if (px < area.x || px > area.x + area.width) continue;
      g.strokeStyle = "#D55E00";
      g.lineWidth = 2;
      g.beginPath(); g.moveTo(px, area.y); g.lineTo(px, area.y + area.height); g.stroke();
      drawLabel(g, "✗ " + words, px - 4, area.y + 26, px > area.x + area.width / 2 ? "right" : "left");
    }
    const px = space.peak == null ? -1 : x(space.peak);
    if (px >= area.x && px <= area.x + area.width) {
      const top = y(space.total[space.peak]);
      g.fillStyle = ink.strong;
      g.beginPath(); g.moveTo(px, top); g.lineTo(px - 5, top - 9); g.lineTo(px + 5, top - 9); g.fill();
      drawLabel(g, "peak " + bytes(space.total[space.peak]), px + (px > area.x + area.width * .8 ? -8 : 8), Math.max(area.y + 8, top - 14),
                px > area.x + area.width * .8 ? "right" : "left");
    }
    if (this.at != null) {
      g.strokeStyle = ink.strong;
      g.lineWidth = 1;
      g.beginPath(); g.moveTo(x(this.at), area.y); g.lineTo(x(this.at), area.y + area.height); g.stroke();
    }
  }

  place(area, px, py) {
    const view = this.views.x;
    return {x: view.from + (px - area.x) / area.width * (view.to - view.from),
            y: this.top * (1 - (py - area.y) / area.height)};
  }
  pixel(area) {
    const view = this.views.x;
    return {x: area.x + area.width * (this.axis.x(this.at) - view.from) / (view.to - view.from), y: area.y + 40};
  }
  // The value under the pointer: its category's values are stacked, the largest lowest.
  valueAt(instant, y) {
    let low = 0;
    for (const c of this.shown) {
      const height = this.space.courses[c][instant];
      if (y >= low && y < low + height) {
        for (const value of this.space.valuesAt(instant, c)) {
          low += this.space.values.bytes[value];
          if (y < low) return value;
        }
        return null;
      }
      low += height;
    }
    return null;
  }
  describe({x, y}) {
    if (x < 0 || x > this.axis.end || y < 0) { this.at = null; return null; }
    this.at = this.axis.instantAt(x);
    const value = this.valueAt(this.at, y);
    if (value == null) return this.describeInstant(this.at);
    const found = {title: this.space.nameOf(value), rows: this.space.describe(value)};
    found.note = `during ${this.axis.nameOf(this.at)}, while ${bytes(this.space.total[this.at])} live`;
    return found;
  }
  describeInstant(instant) {
    const {space, axis} = this, rows = [];
    rows.push(["live", `${bytes(space.total[instant])} (${exact(space.total[instant])})`]);
    for (const c of space.used)
      if (space.courses[c][instant] > 0) rows.push([space.subject.categories[c], bytes(space.courses[c][instant])]);
    if (space.line) rows.push([space.line_words, bytes(space.line[instant])]);
    if (space.limit != null) rows.push(["left in the budget", bytes(space.limit - space.total[instant])]);
    if (axis.layer[instant] >= 0) rows.push(["layer", String(axis.layer[instant])]);
    rows.push([axis.unit, `${exact(instant)} of ${exact(axis.size)}${axis.when(instant)}, ${axis.sectionOf(instant).name}`]);
    return {title: axis.nameOf(instant), rows};
  }
  key(key, fast) {
    const view = this.views.x, axis = this.axis;
    const step = Math.max(1, Math.round((axis.instantAt(view.to) - axis.instantAt(view.from)) / (fast ? 20 : 200)));
    if (key === "p" || key === "P") {
      if (this.space.peak == null) return null;
      this.at = this.space.peak;
    }
    else if (key === "ArrowRight") this.at = Math.min(axis.size - 1, (this.at ?? axis.instantAt(view.from)) + step);
    else if (key === "ArrowLeft") this.at = Math.max(0, (this.at ?? axis.instantAt(view.to)) - step);
    else return null;
    view.show(axis.x(this.at));
    return this.describeInstant(this.at);
  }
  leave() { this.at = null; }
}
