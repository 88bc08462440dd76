// Ranks of a run that each have a profile: a row for each, and lanes and memory of the one that is chosen.

// What was measured on one rank, as a subject that drawings take.
function rankSubject(subject, drawn) {
  const {texts, layers, ranks: {categories}} = subject;
  const none = {name: [], first: [], last: [], bytes: [], category: []};  // bytes have no values: they were counted by category
  const spaces = drawn.spaces.map((space) => ({...space, arena: space.max_live, limit: null, values: none}));
  const one = new Subject({texts, layers, categories, lanes: drawn.lanes, axes: drawn.axes, spaces}, 0);
  for (const axis of one.axes) axis.byTime = axis.hasTime;
  return one;
}

function ranksTable({rows, lanes}) {
  const busy = (row, lane) => row.lanes.find(([index]) => index === lane)?.[1];
  const time = (us) => (us > 0 ? duration(us) : el("span", {class: "quiet"}, "–"));
  const columns = [
    {name: "rank", value: (r) => r.rank, cell: (r) => String(r.rank)},
    {name: "peak", number: true, down: true, value: (r) => r.peak_bytes, cell: (r) => (r.peak_bytes != null ? bytes(r.peak_bytes) : "–")},
    {name: "step", number: true, down: true, value: (r) => r.step_us, cell: (r) => duration(r.step_us)},
    {name: "waits for others", number: true, down: true, value: (r) => r.waits_us, cell: (r) => time(r.waits_us)},
    {name: "most for", number: true, value: (r) => r.most_for?.[0], cell: (r) => (r.most_for ? `rank ${r.most_for[0]}, ${duration(r.most_for[1])}` : "–")},
    {name: "others wait for it", number: true, down: true, value: (r) => r.caused_us, cell: (r) => time(r.caused_us)},
    ...lanes.map((name, lane) => ({name, number: true, down: true, value: (r) => busy(r, lane), cell: (r) => {
      const us = busy(r, lane);
      return us == null ? el("span", {class: "quiet"}, "–") : [duration(us), ", ", el("span", {class: "quiet"}, duration(Math.max(0, r.step_us - us)))];
    }})),
  ];
  return table(columns, rows, "what each rank measured");
}

// "49 ms on rank 2 to 51 ms on rank 0"
function spreadText(rows) {
  const ends = (key, text) => {
    const known = rows.filter((r) => r[key] != null).sort((a, b) => a[key] - b[key]);
    if (known.length === 0) return null;
    const [low, high] = [known[0], known.at(-1)];
    return low[key] === high[key] ? `${text(low[key])} on every rank` : `${text(low[key])} on rank ${low.rank} to ${text(high[key])} on rank ${high.rank}`;
  };
  const slow = rows.reduce((a, b) => (b.caused_us > a.caused_us ? b : a));
  return [["a step", ends("step_us", duration)], ["peak", ends("peak_bytes", bytes)],
          ["waited for", slow.caused_us > 0 ? `rank ${slow.rank}: the others waited ${duration(slow.caused_us)} in exchanges with it` : null]]
    .filter(([, text]) => text);
}

function ranksPart(subject) {
  if (!subject.ranks) return null;
  const {rows, drawn} = subject.ranks, holder = el("div");
  // One scale of time and of bytes for all ranks.
  const end = Math.max(1, ...drawn.flatMap((one) => one.lanes.map((set) => set.end_us)));
  const top = (name) => 1.06 * Math.max(1, ...drawn.flatMap((one) => one.spaces.filter((s) => s.name === name).map((s) => s.max_live)));
  const made = new Map();  // drawings keep their zoom and what is chosen
  const make = (one) => {
    const rank = rankSubject(subject, one), view = new View(end);
    const left = leftMargin(rank.lanes.flatMap((set) => set.lanes.map((lane) => lane.name)));  // as the lanes above
    const charts = rank.spaces.map((space) => {
      const chart = new Chart(Object.assign(new Timeline(space, view, top(space.name), hidden), {left}));
      return el("div", {}, el("div", {class: "tools-row"}, el("h3", {}, `${space.name} memory of rank ${one.rank}, measured`), chart.tools()), chart.node);
    });
    const used = new Set(rank.spaces.flatMap((space) => space.used.map((c) => rank.categories[c])));
    const key = el("div", {class: "legend"}, [...used].map((name) => el("span", {class: "chip"}, swatch(name), name)));
    return [el("h3", {}, `lanes of rank ${one.rank}`), lanesPart(rank, view), used.size > 0 ? key : null, ...charts];
  };
  const show = (one) => {
    if (!made.has(one)) made.set(one, make(one));
    holder.replaceChildren(...made.get(one).filter(Boolean));
    for (const redraw of Theme.listeners) redraw();
  };
  const select = choice("rank", drawn.map((one) => [String(one.rank), one]), drawn[0], (one) => {
    show(one);
    say(`rank ${one.rank} is shown`);
  });
  show(drawn[0]);
  return el("div", {},
    el("dl", {class: "facts"}, spreadText(rows).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
    ranksTable(subject.ranks),
    el("p", {class: "hint"}, "Of lanes: busy, and the rest of the step. A rank waits for others where an exchange takes longer on it than on the rank that came last; its other lanes may work meanwhile."),
    el("div", {class: "tools-row"}, el("span", {}, "rank"), select), holder);
}
