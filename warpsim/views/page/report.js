"use strict";
// Draws the figures and the table of the page. The element #data holds all numbers as JSON:
//   dims      {name: {label, units, values (null unless all are finite numbers), texts}}
//   variables {name: {label, units, dims, indices {dim: indices shown}, mean, half, model, categories}}, flat, last dim fastest
//   panels    [{title, hint, kind, y, x, hue}], table {columns: [{text, label, units, numeric}], rows}, axes, binds

const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442", "#8c8c8c"]; // Okabe & Ito 2008, grey
const MORE_COLOURS = ["#cc6677", "#44aa99", "#882255", "#ddcc77", "#117733", "#aa4499", "#999933", "#332288"]; // Tol 2021, "muted"
const ALL_COLOURS = [...COLOURS, ...MORE_COLOURS]; // one for each warp state
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star"];
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", ".", ""];
const KINDS = { curves: "curves", stacked: "stacked bars", map: "map" };
const NONE = "(none)";
const MAX_CURVES = 14;
const KNOWN_X = ["warps", "warps_per_scheduler", "time", "occupancy_time", "line", "alpha"];
const KNOWN_HUE = ["state", "slot", "scheduler", "op", "gpu"];

const label = (thing) => thing.label + (thing.units === "1" ? "" : ` (${thing.units})`);
const short = (value) => (value === null ? "–" : String(Number(value.toPrecision(6))));
const brief = (name) => (name.length > 40 ? `${name.slice(0, 20)}…${name.slice(-19)}` : name); // a wider legend leaves no room
const shownIndices = (variable, dim) => variable.indices?.[dim] ?? data.dims[dim].texts.map((_, i) => i);
const variedDims = (variable) => variable.dims.filter((dim) => shownIndices(variable, dim).length > 1);
const text = (variable, dim, i) => data.dims[dim].texts[shownIndices(variable, dim)[i]];

function cellIndex(variable, at) { // index of a cell in the flat numbers; `at`: dim -> index
  return variable.dims.reduce((sum, dim) => sum * shownIndices(variable, dim).length + (at[dim] ?? 0), 0);
}

function describe(variable, at) { // text of the hover label of one cell
  const i = cellIndex(variable, at);
  const value = variable.categories ? variable.categories[variable.mean[i]] ?? "–" : short(variable.mean[i]);
  const half = variable.half?.[i] ?? null;
  const unit = variable.units === "1" ? "" : ` ${variable.units}`;
  const lines = [`<b>${variable.label}: ${value}${half === null ? "" : ` ± ${short(half)}`}${unit}</b>`];
  if (variable.model?.[i] != null) lines.push(`model: ${short(variable.model[i])}${unit}`);
  for (const dim of variedDims(variable)) lines.push(`${data.dims[dim].label}: ${text(variable, dim, at[dim])}`);
  const binds = data.variables[data.binds];
  if (binds && binds !== variable && data.axes.every((axis) => variable.dims.includes(axis))) {
    lines.push(`binds: ${binds.categories[binds.mean[cellIndex(binds, at)]] ?? "–"}`);
  }
  return lines.join("<br>");
}

class Panel {
  constructor(chosen) {
    this.kind = chosen.kind;
    this.y = chosen.y;
    this.x = chosen.x ?? null;
    this.hue = chosen.hue ?? null;
    this.scale = "";
    this.model = true;
    this.fixed = {};
    const section = document.createElement("section");
    section.className = "panel";
    section.innerHTML = '<h2></h2><p class="hint"></p><div class="controls"></div><div class="figure"></div>';
    section.querySelector("h2").textContent = chosen.title;
    this.hint = section.querySelector(".hint");
    this.staticHint = chosen.hint ?? "";
    this.controls = section.querySelector(".controls");
    this.figure = section.querySelector(".figure");
    document.getElementById("panels").append(section);
    this.draw();
  }

  get variable() {
    return data.variables[this.y];
  }

  fitToVariable() { // adapts x, hue and the fixed values to the variable
    if (this.variable.categories) this.kind = "map";
    const dims = variedDims(this.variable);
    const free = dims.length ? dims : this.variable.dims;
    const first = (known, others) => known.find((dim) => others.includes(dim)) ?? others[0] ?? null;
    const up = this.kind === "map" ? ["alpha"] : KNOWN_HUE;
    if (!free.includes(this.x)) this.x = first(KNOWN_X, free);
    const others = dims.filter((dim) => dim !== this.x);
    if (this.hue !== NONE && !others.includes(this.hue)) this.hue = first(up, others) ?? NONE;
    if (this.kind !== "curves" && this.hue === NONE) this.hue = first(up, others) ?? NONE;
    for (const dim of others) {
      const count = shownIndices(this.variable, dim).length;
      if (!(this.fixed[dim] < count)) this.fixed[dim] = data.dims[dim].values ? count >> 1 : 0;
    }
    const values = this.numericX() ?? [];
    const uneven = Math.max(...values) > 40 * Math.min(...values) && !this.x.endsWith("time");
    if (!this.scale || (this.scale !== "even" && !values.length)) this.scale = values.length && !uneven ? "linear" : "even";
  }

  numericX() {
    const values = this.x === null ? null : data.dims[this.x].values;
    return values ? shownIndices(this.variable, this.x).map((i) => values[i]) : null;
  }

  select(name, text, options, chosen, change) {
    const box = document.createElement("label");
    box.textContent = text;
    const select = document.createElement("select");
    select.name = name;
    for (const [value, shown] of options) select.add(new Option(shown, value, false, String(value) === String(chosen)));
    select.onchange = () => { change(select.value); this.draw(); };
    box.append(select);
    this.controls.append(box);
  }

  drawControls() {
    const dims = variedDims(this.variable);
    const named = (dim) => [dim, dim];
    this.controls.replaceChildren();
    const all = Object.entries(data.variables).map(([name, variable]) => [name, name + (variable.units === "1" ? "" : ` (${variable.units})`)]);
    this.select("y", "shown", all, this.y, (name) => { this.y = name; });
    const kinds = this.variable.categories ? ["map"] : Object.keys(KINDS);
    this.select("kind", "as", kinds.map((kind) => [kind, KINDS[kind]]), this.kind, (kind) => { this.kind = kind; });
    if (!dims.length) return;
    this.select("x", "axis", dims.map(named), this.x, (dim) => {
      if (dim === this.hue) this.hue = this.x;
      this.x = dim;
      this.scale = "";
    });
    const others = dims.filter((dim) => dim !== this.x);
    const options = this.kind === "curves" ? [[NONE, NONE], ...others.map(named)] : others.map(named);
    if (others.length) {
      const title = { curves: "one curve per", stacked: "stacked by", map: "upwards" }[this.kind];
      this.select("hue", title, options, this.hue, (dim) => { this.hue = dim; });
    }
    if (this.kind === "curves") {
      const scales = this.numericX() ? ["linear", "log", "even"] : ["even"];
      this.select("scale", "scale", scales.map((name) => [name, name]), this.scale, (name) => { this.scale = name; });
    }
    for (const dim of others.filter((dim) => dim !== this.hue)) {
      const values = shownIndices(this.variable, dim).map((_, i) => [i, text(this.variable, dim, i)]);
      this.select(`at-${dim}`, dim, values, this.fixed[dim], (i) => { this.fixed[dim] = Number(i); });
    }
    if (this.variable.model && this.kind === "curves") {
      const box = document.createElement("label");
      box.className = "tick";
      const tick = Object.assign(document.createElement("input"), { type: "checkbox", name: "model", checked: this.model });
      tick.onchange = () => { this.model = tick.checked; this.draw(); };
      box.append(tick, "Volkov's model");
      this.controls.append(box);
    }
  }

  draw() {
    this.fitToVariable();
    this.drawControls();
    this.extra = "";
    const [traces, layout] = this.kind === "map" && this.hue !== NONE ? this.map() : this.curves();
    this.hint.textContent = [this.staticHint, this.extra].filter(Boolean).join(" ");
    const common = {
      font: { family: "system-ui, Helvetica Neue, Arial, sans-serif", size: 13, color: theme("ink") },
      margin: { l: narrow() ? 52 : 70, r: narrow() ? 8 : 20, t: 30, b: 55 }, hovermode: "closest",
      hoverlabel: { align: "left", bgcolor: theme("card"), font: { color: theme("ink") } },
      paper_bgcolor: theme("card"), plot_bgcolor: theme("card"),
    };
    const below = narrow() ? { orientation: "h", x: 0, y: -0.25, yanchor: "top" } : {};
    Plotly.react(this.figure, traces, { ...common, ...layout, legend: { ...layout.legend, ...below } }, {
      responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] });
  }

  curves() {
    const variable = this.variable;
    const count = this.x === null ? 1 : shownIndices(variable, this.x).length;
    const stacked = this.kind === "stacked";
    const texts = this.x === null ? [""] : shownIndices(variable, this.x).map((_, i) => text(variable, this.x, i));
    const even = stacked ? !(this.numericX() && count > 40) : this.scale === "even";
    const xs = even ? texts : this.numericX();
    const sideways = stacked && even && Math.max(...texts.map((t) => t.length)) > 12;
    this.figure.style.height = sideways ? `${Math.max(430, 24 * count + 90)}px` : "";
    const hues = this.hue === NONE ? [0] : shownIndices(variable, this.hue).map((_, i) => i);
    let drawn = hues;
    if (hues.length > MAX_CURVES && (!stacked || this.ordered())) { // categories in a stack add up, so that none is left out
      drawn = [...new Set(Array.from({ length: MAX_CURVES }, (_, i) => Math.round((i * (hues.length - 1)) / (MAX_CURVES - 1))))];
      this.extra = `${drawn.length} of ${hues.length} values of ${data.dims[this.hue].label} are drawn.`;
    }
    const traces = [];
    drawn.forEach((hue, order) => {
      const n = this.hue === NONE || this.ordered() ? order : shownIndices(variable, this.hue)[hue]; // a category keeps its colour
      const cells = texts.map((_, i) => ({ ...this.fixed, ...(this.hue === NONE ? {} : { [this.hue]: hue }), [this.x]: i }));
      const at = cells.map((cell) => cellIndex(variable, cell));
      const values = at.map((i) => variable.mean[i]);
      const name = this.hue === NONE ? variable.label : text(variable, this.hue, hue);
      const ink = drawn.length > COLOURS.length && this.ordered() ? shade(order / (drawn.length - 1)) : colour(n);
      const common = { name: brief(name), legendgroup: name, text: cells.map((cell) => describe(variable, cell)), hovertemplate: "%{text}<extra></extra>" };
      if (stacked) {
        const pattern = { shape: PATTERNS[n % PATTERNS.length], fillmode: "overlay", size: 9, solidity: 0.12, fgcolor: "#fff" };
        const marker = { color: ink, line: { width: 0 }, pattern: count > 40 ? {} : pattern };
        const bars = sideways ? { x: values, y: xs, orientation: "h" } : { x: xs, y: values };
        traces.push({ ...common, ...bars, type: "bar", marker, textposition: "none" });
        return;
      }
      const half = variable.half && at.map((i) => variable.half[i] ?? NaN);
      const plain = count > 60;
      traces.push({
        ...common, x: xs, y: values, type: "scatter", mode: "lines+markers",
        line: { color: ink, dash: DASHES[n % DASHES.length], width: 1.6 }, marker: { symbol: SYMBOLS[n % SYMBOLS.length], size: plain ? 3 : 7, color: ink },
        ...(half && !plain ? { error_y: { type: "data", array: half, thickness: 1, width: 3, color: ink } } : {}),
      });
      if (variable.model && this.model) {
        traces.push({
          x: xs, y: at.map((i) => variable.model[i]), type: "scatter", mode: "lines", legendgroup: name, showlegend: false,
          line: { color: ink, width: 4 }, opacity: 0.25, hoverinfo: "skip",
        });
      }
    });
    const across = this.x === null ? {} : { title: { text: label(data.dims[this.x]), standoff: 8 }, ...grid() };
    Object.assign(across, even ? { type: "category", categoryorder: "array", categoryarray: xs } : { type: stacked ? "linear" : this.scale });
    const up = { title: { text: label(variable), font: { size: narrow() ? 11 : 14 } }, ...grid(), rangemode: "tozero" };
    const layout = { showlegend: this.hue !== NONE, legend: { title: { text: this.hue === NONE ? "" : this.hue } },
      barmode: "stack", bargap: count > 40 ? 0 : 0.2 };
    const sides = { ...across, autorange: "reversed", automargin: true };
    return [traces, sideways ? { ...layout, xaxis: up, yaxis: sides } : { ...layout, xaxis: { ...across, automargin: true }, yaxis: up }];
  }

  ordered() {
    return this.hue !== NONE && data.dims[this.hue].values !== null;
  }

  map() {
    const variable = this.variable;
    const xs = shownIndices(variable, this.x).map((_, i) => text(variable, this.x, i));
    const ys = shownIndices(variable, this.hue).map((_, i) => text(variable, this.hue, i));
    const cells = ys.map((_, j) => xs.map((_, i) => ({ ...this.fixed, [this.x]: i, [this.hue]: j })));
    const z = cells.map((row) => row.map((cell) => variable.mean[cellIndex(variable, cell)]));
    const texts = cells.map((row) => row.map((cell) => describe(variable, cell)));
    const trace = { type: "heatmap", x: xs, y: ys, z, text: texts, hovertemplate: "%{text}<extra></extra>", xgap: 1, ygap: 1, hoverongaps: false };
    if (variable.categories) {
      const n = variable.categories.length;
      const steps = variable.categories.flatMap((_, k) => [[k / n, colour(k)], [(k + 1) / n, colour(k)]]);
      Object.assign(trace, { zmin: -0.5, zmax: n - 0.5, colorscale: steps,
        colorbar: { tickvals: variable.categories.map((_, k) => k), ticktext: variable.categories } });
    } else {
      Object.assign(trace, { colorscale: "Cividis", colorbar: { title: { text: variable.units === "1" ? "" : variable.units, side: "right" } } });
    }
    const axis = (dim, values) => ({ title: { text: label(data.dims[dim]) }, type: "category", categoryorder: "array", categoryarray: values,
      automargin: true, showgrid: false, zeroline: false });
    const letters = variable.categories && xs.length * ys.length <= 400 ? cells.flatMap((row, j) => row.map((_, i) => ({
      x: i, y: j, text: (variable.categories[z[j][i]] ?? "").replace("unit: ", "").slice(0, 3), showarrow: false, font: { size: 11, color: "#fff" } }))) : [];
    return [[trace], { xaxis: axis(this.x, xs), yaxis: axis(this.hue, ys), annotations: letters }];
  }
}

const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const narrow = () => window.innerWidth < 600;
const colour = (n) => { // black curves become light on dark ground
  const chosen = ALL_COLOURS[n % ALL_COLOURS.length];
  return chosen === "#000000" ? theme("ink") : chosen;
};
const grid = () => ({ gridcolor: theme("grid"), zerolinecolor: theme("zero"), linecolor: theme("axis"), ticks: "outside", showline: true });

function shade(share) { // dark blue to yellow: the order is visible in black and white
  const ends = [[0, 32, 96], [120, 110, 110], [235, 190, 40]];
  const [from, to] = share < 0.5 ? [ends[0], ends[1]] : [ends[1], ends[2]];
  const part = share < 0.5 ? 2 * share : 2 * share - 1;
  return `rgb(${from.map((c, i) => Math.round(c + part * (to[i] - c))).join(",")})`;
}

class Table {
  constructor({ columns, rows }) {
    this.columns = columns;
    this.rows = rows;
    this.page = 0;
    this.by = null;
    this.element = document.getElementById("table");
    this.draw();
  }

  sort(column) {
    this.down = this.by === column && !this.down;
    this.by = column;
    const sign = this.down ? -1 : 1;
    const empty = (value) => value === null || value === "";
    this.rows.sort((a, b) => {
      const [p, q] = [a[column], b[column]];
      if (empty(p) || empty(q)) return empty(p) - empty(q);
      return sign * (this.columns[column].numeric ? p - q : String(p).localeCompare(String(q), "en", { numeric: true }));
    });
    this.page = 0;
    this.draw();
  }

  draw() {
    const size = 25;
    const pages = Math.ceil(this.rows.length / size);
    const head = document.createElement("tr");
    this.columns.forEach((column, n) => {
      const cell = document.createElement("th");
      cell.className = column.numeric ? "number" : "";
      cell.title = column.label ?? "";
      cell.textContent = column.text + (n === this.by ? (this.down ? " ▾" : " ▴") : "");
      cell.append(Object.assign(document.createElement("small"), { textContent: column.units || "\u00a0" }));
      cell.onclick = () => this.sort(n);
      head.append(cell);
    });
    const body = this.rows.slice(this.page * size, (this.page + 1) * size).map((row) => {
      const line = document.createElement("tr");
      row.forEach((value, n) => {
        const numeric = this.columns[n].numeric;
        const shown = numeric ? short(value) : String(value);
        line.append(Object.assign(document.createElement("td"), { textContent: shown, className: numeric ? "number" : "" }));
      });
      return line;
    });
    this.element.replaceChildren(head, ...body);
    const turn = (mark, page) => Object.assign(document.createElement("button"), {
      textContent: mark, disabled: page < 0 || page >= pages, onclick: () => { this.page = page; this.draw(); } });
    const where = ` rows ${this.page * size + 1} to ${Math.min(this.rows.length, (this.page + 1) * size)} of ${this.rows.length} `;
    document.getElementById("pager").replaceChildren(...(pages > 1 ? [turn("‹", this.page - 1), where, turn("›", this.page + 1)] : []));
  }
}

async function draw() { // unpacks plotly, then draws
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const program = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
  document.head.append(Object.assign(document.createElement("script"), { textContent: await program.text() }));
  const panels = data.panels.map((panel) => new Panel(panel));
  const again = () => panels.forEach((panel) => panel.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("(max-width: 599px)").addEventListener("change", again);
}

new Table(data.table);
draw();
