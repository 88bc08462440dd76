// Light and dark, and a colour with a pattern for each category: the colours of Okabe and Ito, which colour-blind readers
// tell apart; a pattern where two categories share one.

const OKABE = {blue: "#0072B2", sky: "#56B4E9", green: "#009E73", yellow: "#E5D532", orange: "#E69F00",
               red: "#D55E00", purple: "#CC79A7", grey: "#8a8f98"};

const LOOKS = {
  params: ["blue", ""], master: ["sky", ""], grads: ["red", ""], optimizer: ["orange", ""],
  activations: ["green", ""], recompute: ["green", "lines"], buffers: ["grey", "dots"], workspace: ["purple", ""],
  comm: ["purple", "lines"], staging: ["yellow", ""], inputs: ["grey", ""], gaps: ["grey", "lines"],
  // Owners of bytes in PyTorch.
  parameters: ["blue", ""], gradients: ["red", ""], casts: ["sky", ""], temporaries: ["green", "lines"],
  script: ["grey", ""], unknown: ["grey", "dots"],
};
const KIND_LOOKS = ["blue", "orange", "green", "red", "sky", "purple", "yellow"];

const look = (category) => LOOKS[category] ?? ["grey", "lines"];

const Theme = {
  listeners: [],
  printing: false,
  get dark() {
    if (Theme.printing) return false;
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },
  get ink() {
    return Theme.dark
      ? {text: "#e6e8ec", quiet: "#a3abb8", line: "#39404c", back: "#171a20", strong: "#ffffff"}
      : {text: "#1d2129", quiet: "#59616e", line: "#d9dde4", back: "#ffffff", strong: "#000000"};
  },
  changed() { patterns.clear(); for (const redraw of Theme.listeners) redraw(); },
  start() {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = Theme.dark ? "☀ light" : "☾ dark";
      button.setAttribute("aria-label", Theme.dark ? "use light colours" : "use dark colours");
    };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = Theme.dark ? "light" : "dark";
      label();
      Theme.changed();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { label(); Theme.changed(); });
    addEventListener("beforeprint", () => { Theme.printing = true; Theme.changed(); });
    addEventListener("afterprint", () => { Theme.printing = false; Theme.changed(); });
    label();
  },
};

// What fills a canvas for a category.
const patterns = new Map();
function paintOf(category) {
  const [name, pattern] = look(category);
  if (!pattern) return OKABE[name];
  if (!patterns.has(category)) {
    const tile = document.createElement("canvas"), size = 8;
    tile.width = tile.height = size;
    const g = tile.getContext("2d");
    g.fillStyle = OKABE[name];
    g.fillRect(0, 0, size, size);
    g.strokeStyle = g.fillStyle = Theme.dark ? "rgba(23,26,32,.75)" : "rgba(255,255,255,.75)";
    g.lineWidth = 2;
    if (pattern === "lines") {
      for (const shift of [-size, 0, size]) {
        g.beginPath(); g.moveTo(shift, size); g.lineTo(shift + size, 0); g.stroke();
      }
    } else {
      g.beginPath(); g.arc(size / 2, size / 2, 1.6, 0, 7); g.fill();
    }
    patterns.set(category, g.createPattern(tile, "repeat"));
  }
  return patterns.get(category);
}

// The same as a style of an element.
function swatchStyle(category) {
  const [name, pattern] = look(category), colour = OKABE[name];
  if (pattern === "lines")
    return `background: repeating-linear-gradient(135deg, ${colour} 0 3px, color-mix(in srgb, ${colour} 35%, var(--back)) 3px 6px)`;
  if (pattern === "dots")
    return `background: radial-gradient(circle, var(--back) 1.2px, transparent 1.6px) 0 0 / 6px 6px, ${colour}`;
  return `background: ${colour}`;
}
const swatch = (category) => el("span", {class: "swatch", style: swatchStyle(category), "aria-hidden": "true"});
