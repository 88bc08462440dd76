// Tables: bytes by category, the largest values, layers, changes and runners-up. A click on a head sorts.

// columns: [{name, value(row) for sorting, cell(row) -> node or text, number, down: the first click puts the largest first}]
function table(columns, rows, caption, sorted = null) {
  let order = sorted ?? {column: -1, up: true};
  const body = el("tbody");
  const heads = columns.map((column, c) => el("th", {scope: "col", class: column.number ? "number" : ""},
    column.value
      ? el("button", {type: "button", class: "sort", onclick: () => {
          order = {column: c, up: order.column === c ? !order.up : !column.down};
          fill();
        }}, column.name)
      : column.name));
  function fill() {
    const list = [...rows];
    if (order.column >= 0) {
      const value = columns[order.column].value;
      const missing = (v) => v === null || v === undefined;
      list.sort((a, b) => {
        const x = value(a), y = value(b);
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        return (x < y ? -1 : x > y ? 1 : 0) * (order.up ? 1 : -1);
      });
    }
    heads.forEach((head, c) => head.setAttribute("aria-sort",
      c !== order.column ? "none" : order.up ? "ascending" : "descending"));
    body.replaceChildren(...list.map((row) => el("tr", {}, columns.map((column, c) =>
      el(c === 0 ? "th" : "td", {class: column.number ? "number" : "", ...(c === 0 ? {scope: "row"} : {})}, column.cell(row))))));
  }
  fill();
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    el("table", {}, el("caption", {class: "unseen"}, caption), el("thead", {}, el("tr", {}, heads)), body));
}

// Bytes by category at the peak of each space; of two subjects side by side, with the difference.
function breakdownTable(subjects) {
  const columns = [], sums = new Map();
  const alias = {parameters: "params", gradients: "grads", script: "inputs", casts: "master", temporaries: "recompute"};
  const mixed = new Set(subjects.map((s) => s.kind === "snapshot")).size > 1;
  const name = (word) => (mixed ? alias[word] ?? word : word);
  for (const subject of subjects) {
    for (const space of subject.spaces) {
      const title = (subject.mark ? subject.mark + " " : "") + space.name;
      columns.push({title, space});
      const add = (word, n) => {
        if (!sums.has(word)) sums.set(word, new Map());
        sums.get(word).set(title, (sums.get(word).get(title) ?? 0) + n);
      };
      subject.categories.forEach((category, c) => add(name(category), space.at_peak[c]));
      add("gaps", space.gaps);
    }
  }
  const rows = [...sums].filter(([, by]) => [...by.values()].some((n) => n > 0)).sort((a, b) => (a[0] === "gaps") - (b[0] === "gaps"));
  const largest = Math.max(1, ...rows.flatMap(([, by]) => [...by.values()]));
  const cell = (category, n, of) => (n > 0
    ? el("div", {class: "bar"}, el("span", {class: "fill", style: `${swatchStyle(category)};width:${100 * n / largest}%`}),
         el("span", {class: "value", title: exact(n) + " bytes"}, bytes(n)), el("span", {class: "share"}, (100 * n / of).toFixed(1) + " %"))
    : el("span", {class: "quiet"}, "–"));
  const [a, b] = subjects.map((s) => (s.mark ? s.mark + " " : "") + s.spaces[0]?.name);
  function difference(by) {
    const n = (by.get(b) ?? 0) - (by.get(a) ?? 0);
    return n === 0 ? el("span", {class: "quiet"}, "–") : signedBytes(n);
  }
  const body = rows.map(([category, by]) => el("tr", {},
    el("th", {scope: "row"}, swatch(category), category),
    columns.map(({title, space}) => el("td", {}, cell(category, by.get(title) ?? 0, space.arena))),
    subjects.length > 1 ? el("td", {class: "number"}, difference(by)) : null));
  const sum = el("tr", {class: "sum"}, el("th", {scope: "row"}, "all"),
    columns.map(({space}) => el("td", {title: exact(space.arena) + " bytes"}, `${bytes(space.arena)} ${space.arena_words}`)),
    subjects.length > 1 ? el("td", {class: "number"}, signedBytes(subjects[1].spaces[0].arena - subjects[0].spaces[0].arena)) : null);
  const caption = "bytes by category at the peak";
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, el("table", {class: "breakdown"},
    el("caption", {class: "unseen"}, caption),
    el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "category"), columns.map(({title}) => el("th", {scope: "col"}, title)),
      subjects.length > 1 ? el("th", {scope: "col", class: "number"}, "B − A") : null)),
    el("tbody", {}, body), el("tfoot", {}, sum)));
}

function largestTable(space, goTo) {
  const rows = space.valuesAt(space.peak ?? 0).slice(0, 12), v = space.values;
  return table([
    {name: "value", cell: (i) => el("button", {type: "button", class: "link", title: "show it on the map", onclick: () => goTo(i)}, space.nameOf(i))},
    {name: space.subject.kind === "snapshot" ? "when" : "type", cell: (i) => el("code", {}, space.subject.text(v.type[i]))},
    {name: "category", cell: (i) => [swatch(space.category(i)), space.category(i)]},
    {name: "bytes", number: true, value: (i) => v.bytes[i], cell: (i) => bytes(v.bytes[i])},
  ], rows, `largest at the peak, ${space.name}`);
}

// What would make it fit, or be smaller: what costs least first.
function adviceTable(subject) {
  const {rows, title} = subject.advice, has = (key) => rows.some((row) => row[key] != null);
  const columns = [{name: "change", cell: (r) => [el("code", {}, unbroken(r.change)), r.how ? el("div", {class: "quiet"}, r.how) : null]}];
  if (has("fits")) columns.push({name: "fits", value: (r) => (r.fits ? 0 : 1),
    cell: (r) => el("span", {class: r.fits ? "good" : "bad"}, r.fits ? "✓ yes" : "✗ no")});
  columns.push({name: "peak", number: true, value: (r) => r.peak_bytes, cell: (r) => bytes(r.peak_bytes)},
    {name: "saves", number: true, down: true, value: (r) => r.saves_bytes, cell: (r) => bytes(r.saves_bytes)});
  if (has("step_ms")) columns.push({name: "a step", number: true, value: (r) => r.step_ms, cell: (r) => (r.step_ms != null ? duration(1e3 * r.step_ms) : "")});
  if (has("time_ratio")) columns.push({name: "time a token", number: true, value: (r) => r.time_ratio, cell: (r) => (r.time_ratio != null ? percent(r.time_ratio) : "")});
  if (has("numbers")) columns.push({name: "effect", value: (r) => r.numbers, cell: (r) => r.numbers ?? ""});
  if (has("command")) columns.push({name: "command", cell: (r) => (r.command ? copyButton(r.command) : "")});
  const cost = columns.findIndex((column) => column.name === "time a token");
  return table(columns, rows, title, cost >= 0 ? {column: cost, up: true} : null);
}

function runnersTable(subject) {
  return table([
    {name: "considered", cell: (r) => el("code", {}, unbroken(r.change))},
    {name: "peak", number: true, value: (r) => r.peak_bytes, cell: (r) => bytes(r.peak_bytes)},
    {name: "a step", number: true, value: (r) => r.step_ms, cell: (r) => (r.step_ms != null ? duration(1e3 * r.step_ms) : "")},
    {name: "effect", value: (r) => r.numbers, cell: (r) => r.numbers},
    {name: "why it was not chosen", cell: (r) => r.why},
  ], subject.runners_up, "what else was considered");
}

// Neighbouring layers with the same bytes are one row.
function layerTable(subject) {
  const rows = [];
  for (const [layer, ...numbers] of subject.layer_table) {
    const last = rows.at(-1), same = last && last.layer >= 0 && layer >= 0 && numbers.every((n, i) => n === last.numbers[i]);
    if (same) last.to = layer; else rows.push({layer, to: layer, numbers});
  }
  const names = ["params", "grads", "master and optimizer", "kept for backward", "at the peak"];
  return table([
    {name: "layer", cell: (r) => (r.layer < 0 ? "no layer" : r.layer === r.to ? String(r.layer) : `${r.layer}–${r.to}, each`)},
    ...names.map((name, i) => ({name, number: true, value: (r) => r.numbers[i], cell: (r) => (r.numbers[i] ? bytes(r.numbers[i]) : "–")})),
  ], rows, "bytes of each layer");
}

// Rows of texts, with heads; the document says both.
const plainTable = ({title, columns, rows}) =>
  table(columns.map((name, c) => ({name, cell: (row) => row[c], number: c > 0 && rows.every((row) => /^[\d−.,]/.test(row[c]))})), rows, title);

// Options in which two plans differ.
function differenceTable([a, b]) {
  const keys = [...new Set([...Object.keys(a.recipe ?? {}), ...Object.keys(b.recipe ?? {})])];
  const text = (value) => (value == null || value === "" ? "–" : String(value));
  const rows = keys.filter((key) => text(a.recipe?.[key]) !== text(b.recipe?.[key]));
  if (!a.recipe || !b.recipe || rows.length === 0) return null;
  return el("div", {}, el("h3", {}, "Options that differ"), table([
    {name: "option", cell: (key) => el("code", {}, key)},
    {name: "A", cell: (key) => text(a.recipe[key])},
    {name: "B", cell: (key) => text(b.recipe[key])},
  ], rows, "options that differ"));
}
