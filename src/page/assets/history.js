// Steps of runs: loss and what else was written down, a line for each run.

const METRICS = [
  {key: "loss", name: "loss", text: short},
  {key: "tokens_per_s", name: "tokens/s", text: short},
  {key: "grad_norm", name: "gradient norm", text: short},
  {key: "lr", name: "learning rate", text: (n) => (n === 0 ? "0" : n.toExponential(1))},
  {key: "process_bytes", name: "process memory", text: bytes, isBytes: true},
];
const RUN_LOOKS = [{light: "blue", dark: "sky", dash: []}, {light: "red", dark: "orange", dash: [6, 3]}];
const runColour = (i) => OKABE[RUN_LOOKS[i][Theme.dark ? "dark" : "light"]];

class History {
  constructor(subjects, metric) {
    this.subjects = subjects;
    this.metric = metric;
    this.height = 300;
    this.bottom = 30;
    this.views = {x: new View(Math.max(1, ...subjects.map((s) => s.history.steps)))};
    this.label = subjects.map((s) => `${s.name}: loss ${short(s.history.first_loss)} to ${short(s.history.last_loss)} after ${s.history.last_step} steps`).join("; ") +
      ". Left and right move from step to step, plus and minus zoom.";
    this.at = null;
  }
  // [step, number] of one run; null where nothing finite was written.
  points(subject) {
    const history = subject.history, numbers = history[this.metric.key];
    return history.step.map((step, i) => [step, numbers[i]]).filter(([, n]) => n != null);
  }
  range() {
    let low = Infinity, high = -Infinity;
    const add = (n) => { low = Math.min(low, n); high = Math.max(high, n); };
    for (const subject of this.subjects) {
      for (const [, n] of this.points(subject)) add(n);
      if (this.metric.key === "loss") for (const [, n] of subject.history.evals) if (n != null) add(n);
    }
    if (!(low <= high)) return [0, 1];
    const room = (high - low) * .06 || Math.abs(high) * .1 || 1;
    return [this.metric.isBytes ? 0 : Math.max(low - room, low >= 0 ? 0 : -Infinity), high + room];
  }
  draw(g, area) {
    const view = this.views.x, [low, high] = this.range();
    drawYAxis(g, area, low, high, this.metric.text, this.metric.isBytes);
    drawXAxis(g, area, view, (x) => "step " + exact(x));
    const px = (step) => area.x + area.width * (step - view.from) / (view.to - view.from);
    const py = (n) => area.y + area.height * (1 - (n - low) / (high - low));
    const around = {x: area.x - 6, y: area.y - 6, width: area.width + 12, height: area.height + 12};  // diamonds at the edges
    inside(g, around, () => this.subjects.forEach((subject, i) => {
      g.strokeStyle = runColour(i);
      g.lineWidth = 2;
      g.lineJoin = "round";
      g.setLineDash(RUN_LOOKS[i].dash);
      g.beginPath();
      const points = this.points(subject);
      for (const [step, n] of points) g.lineTo(px(step), py(n));
      g.stroke();
      g.setLineDash([]);
      if (points.length === 1) {  // a line of one point is none
        g.fillStyle = runColour(i);
        g.beginPath(); g.arc(px(points[0][0]), py(points[0][1]), 3.5, 0, 7); g.fill();
      }
      if (this.metric.key !== "loss") return;
      for (const [step, n] of subject.history.evals) {  // held-out loss: diamonds
        if (n == null) continue;
        const x = px(step), y = py(n);
        g.fillStyle = Theme.ink.back;
        g.beginPath(); g.moveTo(x, y - 5); g.lineTo(x + 5, y); g.lineTo(x, y + 5); g.lineTo(x - 5, y); g.closePath(); g.fill(); g.stroke();
      }
    }));
    if (this.at != null) {
      g.strokeStyle = Theme.ink.quiet;
      g.lineWidth = 1;
      g.beginPath(); g.moveTo(px(this.at), area.y); g.lineTo(px(this.at), area.y + area.height); g.stroke();
    }
  }
  legend() {
    return el("div", {class: "legend"}, this.subjects.map((subject, i) => el("span", {class: "chip"},
      el("span", {class: i ? "line dashed" : "line"}), subject.title)),
      this.subjects.some((s) => s.history.evals.length) ? el("span", {class: "chip"}, "◇ held-out loss") : null);
  }
  place(area, px) {
    const view = this.views.x;
    return {x: view.from + (px - area.x) / area.width * (view.to - view.from)};
  }
  pixel(area) {
    const view = this.views.x;
    return {x: area.x + area.width * (this.at - view.from) / (view.to - view.from), y: area.y + 30};
  }
  nearest(subject, step) {
    const steps = subject.history.step;
    let best = 0;
    for (let i = 0; i < steps.length; i++) if (Math.abs(steps[i] - step) < Math.abs(steps[best] - step)) best = i;
    return best;
  }
  describe({x}) {
    this.at = Math.max(0, x);
    const rows = [];
    let title = "";
    for (const subject of this.subjects) {
      const h = subject.history, i = this.nearest(subject, this.at);
      title ||= "step " + exact(h.step[i]);
      const mark = subject.mark ? subject.mark + " " : "";
      for (const metric of METRICS)
        if (h[metric.key][i] != null) rows.push([mark + metric.name, metric.text(h[metric.key][i])]);
      const evaluated = h.evals.find(([step]) => step === h.step[i]);
      if (evaluated?.[1] != null) rows.push([mark + "held-out loss", short(evaluated[1])]);
    }
    return {title, rows};
  }
  key(key) {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return null;
    const steps = this.subjects[0].history.step;
    const i = this.at == null ? -1 : this.nearest(this.subjects[0], this.at);
    const next = Math.max(0, Math.min(steps.length - 1, i + (key === "ArrowRight" ? 1 : -1)));
    return this.describe({x: steps[next]});
  }
  leave() { this.at = null; }
}
