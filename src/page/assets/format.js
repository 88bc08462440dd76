// Numbers as people write them, and elements of the page. Texts of the document become text nodes, never markup.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(n) {
  let unit = 0, value = Math.abs(n);
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit++; }
  return (n < 0 ? "−" : "") + (unit === 0 ? value : value.toFixed(2)) + " " + UNITS[unit];
}
const exact = (n) => Math.round(n).toLocaleString("en-US");
const signedBytes = (n) => (n > 0 ? "+" : "") + bytes(n);

function duration(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 1) + " ms";
  return Math.round(us) + " µs";
}
const percent = (ratio) => (ratio >= 1 ? "+" : "−") + Math.abs(100 * (ratio - 1)).toFixed(1) + " %";
function short(n) {
  if (n == null) return "–";
  const a = Math.abs(n);
  if (a >= 1e6) return (n / 1e6).toPrecision(3) + " M";
  if (a >= 1e4) return (n / 1e3).toPrecision(3) + " k";
  return a !== 0 && a < 0.01 ? n.toExponential(1) : String(+n.toPrecision(4));
}

// el("td", {class: "number", onclick: f}, "text", child, ...)
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) if (child != null) node.append(child);
  return node;
}

// Flags and commands: a line ends between words or after a comma, never inside "--offload" or "0-27" unless that is longer than
// the line.
const unbroken = (text) => text.split(" ").flatMap((word, i) =>
  [i ? " " : null, ...word.split(/(?<=,)/).map((part) => el("span", {class: "word"}, part))]);

const MOST_TICKS = 200;
// Round steps for an axis: 1, 2 or 5 times a power of `base` (1024 for bytes).
function ticks(from, to, wanted, isBytes) {
  const raw = (to - from) / Math.max(1, wanted);
  if (!(raw > 0)) return [from];
  let unit = 1;
  if (isBytes) while (raw >= unit * 500) unit *= 1024;
  const scaled = raw / unit, power = 10 ** Math.floor(Math.log10(scaled));
  const step = unit * power * [1, 2, 5, 10].find((m) => m * power >= scaled);
  // Counted, not added up: a step smaller than the numbers' last digit would never arrive.
  const first = Math.ceil(from / step), count = Math.min(MOST_TICKS, Math.floor(to / step - first + 1e-6) + 1);
  return Array.from({length: Math.max(0, count || 0)}, (_, k) => (first + k) * step);
}

function say(text) { document.getElementById("live").textContent = text; }

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // no clipboard for this page: the old way
    const area = el("textarea", {class: "unseen"});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  say("copied: " + text);
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}
const copyButton = (text) =>
  el("button", {type: "button", class: "copy", "aria-label": "copy: " + text,
                onclick: (event) => copy(text, event.currentTarget)}, "copy");
