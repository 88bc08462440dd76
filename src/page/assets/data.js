// The document as drawings want it: names with their layer, courses by instant, what lives when.

const DOCUMENT = JSON.parse(document.getElementById("data").textContent);
const LAYER_MARK = "\u0001";

class Subject {
  constructor(json, index) {
    Object.assign(this, json);
    this.mark = DOCUMENT.subjects.length > 1 ? "AB"[index] : "";
    this.axes = (json.axes || []).map((axis) => new Axis(axis, this));
    this.spaces = (json.spaces || []).map((space) => new SpaceMap(space, this));
  }
  // A text of the table; of a layer with its prefix: "layers.3.mlp".
  text(index, layer = -1) {
    const text = this.texts[index] ?? "";
    return layer >= 0 ? text.replace(LAYER_MARK, this.layers?.[layer] ?? "") : text;
  }
}

class Axis {
  constructor(json, subject) {
    Object.assign(this, json);
    this.subject = subject;
    this.byTime = false;
    this.hasTime = Array.isArray(json.begin_us) && json.begin_us[json.size] > 0;
  }
  // Where an instant begins: in instants, or in microseconds.
  x(instant) { return this.byTime ? this.begin_us[Math.min(instant, this.size)] : instant; }
  get end() { return this.x(this.size); }
  instantAt(x) {
    let low = 0, high = this.size - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.x(middle) <= x) low = middle; else high = middle - 1;
    }
    return low;
  }
  nameOf(instant) { return this.subject.text(this.name[instant], this.layer[instant]); }
  sectionOf(instant) {
    let found = this.sections[0];
    for (const section of this.sections) if (section.first <= instant) found = section;
    return found;
  }
  when(instant) {
    return this.hasTime ? " at " + duration(this.begin_us[instant]) : "";
  }
}

// [0, 5, 2, 7] over 4 instants -> 5 5 7 7
function course(changes, size) {
  const out = new Float64Array(size);
  for (let i = 0; i < changes.length; i += 2)
    out.fill(changes[i + 1], changes[i], i + 2 < changes.length ? changes[i + 2] : size);
  return out;
}

class SpaceMap {
  constructor(json, subject) {
    Object.assign(this, json);
    this.subject = subject;
    this.timeAxis = subject.axes[json.axis];
    this.courses = json.live.map((changes) => course(changes, this.timeAxis.size));
    this.total = new Float64Array(this.timeAxis.size);
    for (const one of this.courses) for (let i = 0; i < one.length; i++) this.total[i] += one[i];
    this.line = json.reserved ? course(json.reserved, this.timeAxis.size) : null;
    this.used = this.courses.map((one, c) => c).filter((c) => this.courses[c].some((b) => b > 0));
  }
  get count() { return this.values.name.length; }
  category(value) { return this.subject.categories[this.values.category[value]]; }
  nameOf(value) { return this.subject.text(this.values.name[value], this.values.layer[value]); }
  // Indices of values, the largest first.
  valuesAt(instant, category = -1) {
    const {first, last, bytes, category: categories} = this.values;
    const found = [];
    for (let i = 0; i < first.length; i++)
      if (first[i] <= instant && instant <= last[i] && (category < 0 || categories[i] === category)) found.push(i);
    return found.sort((a, b) => bytes[b] - bytes[a]);
  }
  // Rows of a tooltip: what a value is, whose, where and how long.
  describe(value) {
    const v = this.values, axis = this.timeAxis, op = (i) => (i < 0 ? "" : axis.nameOf(i));
    const by = axis.stride > 1 ? "near" : "by";  // an instant of several ops has the name of one
    const lasts = v.last[value] - v.first[value] + 1;
    const whole = v.first[value] === 0 && v.last[value] === axis.size - 1;
    const type = this.subject.text(v.type[value]);
    const rows = [["bytes", `${bytes(v.bytes[value])} (${exact(v.bytes[value])})`]];
    if (type) rows.push([this.subject.kind === "snapshot" ? "when" : "type", type]);
    if (v.layer[value] >= 0) rows.push(["layer", String(v.layer[value])]);
    rows.push(["category", this.category(value)]);
    rows.push(["bytes from", exact(v.offset[value])]);
    if (v.made[value] >= 0) rows.push([`made ${by}`, op(v.made[value])]);
    if (v.used && v.used[value] >= 0) rows.push([`last used ${by}`, op(v.used[value])]);
    let life = whole ? "always" : `${lasts} ${axis.unit}${lasts > 1 ? "s" : ""}, ${v.first[value]} to ${v.last[value]}`;
    if (!whole && axis.hasTime)
      life += `, ${duration(axis.begin_us[v.last[value] + 1] - axis.begin_us[v.first[value]])}`;
    rows.push(["lives", life]);
    return rows;
  }
}

const SUBJECTS = DOCUMENT.subjects.map((json, index) => new Subject(json, index));
