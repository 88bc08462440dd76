// The page: the answer first, then drawings and tables, a section each; two subjects have a column each.

const hidden = new Set();  // categories that are not shown
const heads = [];

function section(title, id, ...content) {
  const parts = content.flat().filter(Boolean);
  if (parts.length === 0) return;
  heads.push([title, id]);
  document.getElementById("main").append(el("section", {id, "aria-labelledby": id + "-head"}, el("h2", {id: id + "-head"}, title), parts));
}

// One element for each subject that has something to show; two are columns.
function columns(make, kinds = SUBJECTS) {
  const parts = kinds.map((subject) => [subject, make(subject)]).filter(([, part]) => part);
  if (parts.length === 0) return null;
  return el("div", {class: SUBJECTS.length > 1 ? "columns" : ""}, parts.map(([subject, part]) =>
    el("div", {class: "column"}, subject.mark ? el("h3", {}, el("b", {class: "mark"}, subject.mark), " ", subject.title) : null, part)));
}

function answer(subject) {
  const {verdict, tone, text} = subject.answer, sign = {good: "✓", bad: "✗", plain: "●"}[tone];
  return el("div", {class: "answer " + tone},
    el("p", {class: "verdict"}, el("span", {class: "sign", "aria-hidden": "true"}, sign), el("strong", {}, verdict), el("span", {}, text)),
    el("dl", {class: "facts"}, subject.facts.map(([name, fact]) => el("div", {}, el("dt", {}, name), el("dd", {}, fact.startsWith("--") ? unbroken(fact) : fact)))),
    subject.command ? el("p", {class: "command"}, el("code", {}, unbroken(subject.command)), copyButton(subject.command)) : null,
    (subject.notes ?? []).map((note) => el("p", {class: "note"}, note)));
}

// Chips that show and hide categories, in all drawings at once.
function legend(redraw) {
  const names = [...new Set(SUBJECTS.flatMap((s) => s.spaces.flatMap((space) => space.used.map((c) => s.categories[c]))))];
  return el("div", {class: "legend", role: "group", "aria-label": "categories"}, names.map((name) =>
    el("button", {type: "button", class: "chip", "aria-pressed": "true", title: "show or hide", onclick: (event) => {
      if (!hidden.delete(name)) hidden.add(name);
      event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(name)));
      redraw();
    }}, swatch(name), name)));
}

function choice(label, options, current, choose) {
  const node = el("span", {class: "choice", role: "group", "aria-label": label}, options.map(([name, value]) =>
    el("button", {type: "button", onclick: () => { node.press(value); choose(value); }}, name)));
  node.press = (value) => options.forEach(([, other], i) => node.children[i].setAttribute("aria-pressed", String(other === value)));
  node.press(current);
  return node;
}

// The drawings of memory: of each subject one space at a time, timeline and map with the same view of time.
const memory = SUBJECTS.map((subject) => {
  if (subject.spaces.length === 0) return null;
  const view = new View(subject.axes[0].end);
  return {subject, view, spaces: new Map(), current: 0, shows: []};
});
const limitOf = (space) => Math.max(space.limit != null && space.limit < 3 * space.arena ? space.limit : 0,
                                    space.line ? Math.max(...space.line) : 0, space.arena);
function topOf(name, index) {  // two plans have the same scale
  const tops = SUBJECTS.map((s) => s.spaces.find((space) => space.name === name) ?? s.spaces[index]).filter(Boolean).map(limitOf);
  return 1.06 * Math.max(...tops);
}
function drawings(state, index) {
  if (!state.spaces.has(index)) {
    const space = state.subject.spaces[index];
    const view = space.timeAxis === state.subject.axes[0] ? state.view : new View(space.timeAxis.end);
    const timeline = new Timeline(space, view, topOf(space.name, index), hidden), map = new ArenaMap(space, view, hidden);
    state.spaces.set(index, {space, view, map, charts: [new Chart(timeline), new Chart(map)]});
  }
  return state.spaces.get(index);
}
const redrawAll = () => { for (const redraw of Theme.listeners) redraw(); };

function spaceChoice(state) {
  const {spaces} = state.subject;
  if (spaces.length < 2) return null;
  state.choice = choice("space", spaces.map((space, i) => [space.name, i]), state.current, (i) => showSpace(state, i));
  return state.choice;
}
// In timeline, map and search, wherever it was chosen.
function showSpace(state, index) {
  state.current = index;
  state.choice?.press(index);
  for (const show of state.shows) show();
}
function timeChoice(state) {
  if (!state.subject.axes.some((axis) => axis.hasTime)) return null;
  return choice("scale", [["by " + state.subject.axes[0].unit, false], ["by time", true]], false, (byTime) => {
    for (const axis of state.subject.axes) axis.byTime = byTime && axis.hasTime;
    for (const {space, view} of state.spaces.values()) view.reset(space.timeAxis.end);
    state.view.reset(state.subject.axes[0].end);
  });
}

function memoryPart(state, which) {
  const holder = el("div"), bar = el("div", {class: "tools-row"});
  const show = () => {
    const {charts} = drawings(state, state.current);
    holder.replaceChildren(charts[which].node);
    bar.querySelector(".tools")?.replaceWith(charts[which].tools());
    charts[which].redraw();
  };
  bar.append(el("span", {class: "tools"}));
  state.shows.push(show);
  if (which === 0) bar.prepend(...[spaceChoice(state), timeChoice(state)].filter(Boolean));
  else bar.prepend(search(state));
  show();
  return [bar, holder];
}

function search(state) {
  const count = el("span", {class: "quiet", role: "status"});
  let found = [], next = 0;
  const find = () => {
    const {map, charts} = drawings(state, state.current);
    found = map.search(input.value);
    next = 0;
    const sum = found.reduce((all, i) => all + map.space.values.bytes[i], 0);
    count.textContent = input.value.trim() === "" ? "" : `${exact(found.length)} values, ${bytes(sum)}`;
    charts[1].redraw();
  };
  const input = el("input", {type: "search", placeholder: "search values, / to focus", "aria-label": "search values by name", spellcheck: "false",
    oninput: find,
    onkeydown: (event) => {
      if (event.key !== "Enter" || found.length === 0) return;
      drawings(state, state.current).map.goTo(found[next]);
      next = (next + 1) % found.length;
    }});
  state.shows.push(find);  // another space has other values
  return el("span", {class: "search"}, input, count);
}

// A value of the first space, whose largest are in the table.
function goTo(state, value) {
  showSpace(state, 0);
  drawings(state, 0).map.goTo(value);
  document.getElementById("map").scrollIntoView({behavior: "smooth"});
}

function lanesPart(subject, view = null) {
  if (!subject.lanes?.some((set) => set.lanes.length)) return null;
  const lanes = new Lanes(subject, view ?? new View(Math.max(...subject.lanes.map((set) => set.end_us))));
  const chart = new Chart(lanes);
  const merged = subject.lanes.filter((set) => set.shown < set.spans).map((set) =>
    el("p", {class: "note"}, `${set.origin}: ${exact(set.spans)} spans are drawn as ${exact(set.shown)}; short neighbours are one`));
  return el("div", {}, el("div", {class: "tools-row"}, lanes.legend(), chart.tools()), chart.node, merged);
}

function historyPart() {
  const runs = SUBJECTS.filter((subject) => subject.history);
  if (runs.length === 0) return null;
  const metrics = METRICS.filter(({key}) => runs.some((run) => run.history[key].some((n) => n != null)));
  const history = new History(runs, metrics[0] ?? METRICS[0]), chart = new Chart(history);
  return [el("div", {class: "tools-row"}, choice("metric", metrics.map((m) => [m.name, m]), history.metric, (metric) => {
    history.metric = metric;
    chart.redraw();
  }), history.legend(), chart.tools()), chart.node,
  runs.filter((run) => run.history.all > run.history.step.length).map((run) =>
    el("p", {class: "note"}, `${exact(run.history.all)} steps are drawn by ${exact(run.history.step.length)} points: of neighbours the one with the highest loss and the one with the lowest`))];
}

function changes() {
  const titles = [...new Set(SUBJECTS.filter((s) => s.advice?.rows.length).map((s) => s.advice.title))];
  section(titles.length === 1 ? titles[0] : "What could be changed", "changes", columns((s) => (s.advice?.rows.length ? adviceTable(s) : null)));
}

function build() {
  document.getElementById("title").textContent = DOCUMENT.title;
  const states = memory.filter(Boolean), of = (subject) => states.find((state) => state.subject === subject);
  section("Answer", "answer", columns(answer), SUBJECTS.length > 1 ? differenceTable(SUBJECTS) : null);
  const bad = SUBJECTS.some((subject) => subject.answer.tone === "bad");
  if (bad) changes();  // what would make it fit is what the reader wants next
  section("Loss", "loss", historyPart());
  const hint = (text) => el("p", {class: "hint"}, text);
  if (states.length > 0) {
    section("Memory over time", "timeline", legend(redrawAll), columns((s) => of(s) && el("div", {}, memoryPart(of(s), 0))),
      hint("Point at a colour for the value below it. Click, then the wheel or + and − zoom, dragging moves, 0 shows all, P finds the peak."));
    section("The arena as a map", "map", columns((s) => of(s) && el("div", {}, memoryPart(of(s), 1))),
      hint("A rectangle is a value: its bytes upwards, its life to the right. Enter in the search goes from match to match."));
    section("Bytes at the peak", "breakdown", breakdownTable(SUBJECTS.filter((s) => s.spaces.length)),
      el("h3", {}, "Largest at the peak"), columns((s) => of(s) && largestTable(s.spaces[0], (i) => goTo(of(s), i))));
  }
  for (const name of [...new Set(SUBJECTS.flatMap((s) => (s.tables ?? []).map((t) => t.title)))])
    section(name, name.toLowerCase().replace(/\W+/g, "-"), columns((s) => {
      const found = s.tables?.find((t) => t.title === name);
      return found && plainTable(found);
    }));
  if (!bad) changes();
  section("Ranks", "ranks", columns(ranksPart));
  section("Lanes", "lanes", columns(lanesPart));
  section("Runners-up", "runners-up", columns((s) => (s.runners_up?.length ? runnersTable(s) : null)));
  section("Layers", "layers", columns((s) => (s.layer_table?.length ? layerTable(s) : null)));
  document.getElementById("sections").append(...heads.map(([title, id]) => el("a", {href: "#" + id}, title)));
  document.getElementById("foot").append("written by ", el("code", {}, "snug report"), "; this file is self-contained");
}

addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|TEXTAREA/.test(document.activeElement?.tagName)) return;
  const field = document.querySelector(".search input");
  if (!field) return;
  event.preventDefault();
  field.focus();
});

Theme.start();
build();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
