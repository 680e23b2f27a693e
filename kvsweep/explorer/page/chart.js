// A chart: curves of one measure with their intervals, along the axis that all charts share.

import { apart, element, number, range, shape, unit } from "./format.js";
import { denser, extent, isWide, linear, logarithmic, powers, SPAN, sweptTicks, ticks } from "./scale.js";

const LEFT = 58;
const RIGHT = 26;
const TOP = 10;
const LETTER = 7; // pixels, of a number below the axis

let charts = 0;

export class Chart {
  // `shared` holds what all charts have in common: the zoom, and the point under the pointer.
  constructor(shared, height) {
    this.shared = shared;
    this.usual = height;
    this.height = height;
    this.clip = `kvsweep-clip-${(charts += 1)}`;
    this.svg = shape("svg", { class: "chart", height, role: "img" });
    this.readout = element("div", { class: "readout", hidden: true });
    this.node = element("div", { class: "plot", role: "group", tabindex: "0", onkeydown: (event) => this.key(event) }, this.svg, this.readout);
    this.node.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.node.addEventListener("blur", () => this.readout.removeAttribute("aria-live"));
    this.data = null;
    this.width = 0;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => shared.pointAt(null));
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("dblclick", () => shared.zoomTo(null));
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width !== this.width) {
        this.width = width;
        this.height = width < 500 ? Math.min(this.usual, 220) : this.usual;
        this.draw();
      }
    }).observe(this.node);
  }

  // axis: {values, units, gib}; curves: [{mean, low, high, kind}]; threshold: number or null;
  // cliffs: [{value, low, high}]; zero: whether 0 has a line; units; label.
  show(data) {
    this.data = data;
    this.draw();
  }

  draw() {
    if (!this.data || this.width < 80) return;
    const { axis, curves } = this.data;
    const bottom = axis.gib ? 38 : 24;
    const [left, right] = this.shared.zoom ?? [axis.values[0], axis.values.at(-1)];
    const seen = axis.values.map((value) => value >= left && value <= right);
    const isLong = isWide(axis.values.filter((_, place) => seen[place])) || (left > 0 && right >= SPAN * left);
    const across = isWide(axis.values) && isLong ? logarithmic : linear;
    const ends = (list) => [left, right].map((x) => between(axis.values, list, x));
    const inside = (list) => [...list.filter((_, place) => seen[place]), ...ends(list)];
    const values = curves.flatMap((c) => [...inside(c.mean), ...inside(c.low), ...inside(c.high)]);
    const wanted = this.data.threshold === null ? [] : [this.data.threshold];
    const span = extent(values, this.data.zero ? [0] : wanted, curves.flatMap((c) => inside(c.mean)));
    const scale = span.isLogarithmic ? logarithmic : linear;
    this.y = scale(span.low, span.high, this.height - bottom, TOP);
    const levels = this.y.isLogarithmic ? powers(this.y.low, this.y.high) : ticks(this.y.low, this.y.high, this.height > 200 ? 6 : 4);
    const texts = this.y.isLogarithmic ? levels.map(number) : apart(levels);
    this.levels = levels.map((value, place) => [value, texts[place]]);
    this.left = Math.max(LEFT, LETTER * Math.max(...texts.map((text) => text.length)) + 9);
    this.x = across(left, right, this.left, this.width - RIGHT);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("aria-label", this.data.label);
    this.node.setAttribute("aria-label", `${this.data.label}: arrow keys tell its values`);
    const frame = this.frame(bottom);
    const lines = shape("g", { "clip-path": `url(#${this.clip})` });
    curves.forEach((curve) => this.curve(lines, curve));
    this.cliffs(lines);
    this.hair = shape("line", { class: "hair", y1: TOP, y2: this.height - bottom, visibility: "hidden" });
    this.brush = shape("rect", { class: "brush", y: TOP, height: this.height - bottom - TOP, visibility: "hidden" });
    this.svg.replaceChildren(...frame, lines, this.hair, this.brush);
    this.mark(this.shared.pointed);
  }

  frame(bottom) {
    const low = this.height - bottom;
    const made = [];
    const clip = shape("clipPath", { id: this.clip });
    clip.append(shape("rect", { x: this.left - 3, y: TOP - 4, width: this.width - RIGHT - this.left + 6, height: low - TOP + 8 }));
    made.push(clip);
    for (const [value, text] of this.levels) {
      const y = this.y(value);
      made.push(shape("line", { class: "grid", x1: this.left, x2: this.width - RIGHT, y1: y, y2: y }));
      made.push(shape("text", { class: "tick", x: this.left - 6, y: y + 4, "text-anchor": "end" }, text));
    }
    made.push(shape("line", { class: "axis", x1: this.left, x2: this.width - RIGHT, y1: low, y2: low }));
    const most = Math.max(2, Math.floor((this.width - this.left - RIGHT) / 85));
    const places = this.x.isLogarithmic
      ? [sweptTicks(this.data.axis.values, this.x, (this.width - this.left - RIGHT) / (most + 1))]
      : [most, most + 2, most + 4].map((count) => ticks(this.x.low, this.x.high, count));
    const found = places.find((some) => some.length > 1) ?? places[0];
    const texts = this.x.isLogarithmic ? found.map(number) : apart(found);
    for (const [place, value] of found.entries()) {
      const x = this.x(value);
      const gib = this.data.axis.gib && `${number(Number((value * this.data.axis.gib).toPrecision(3)))} GiB`;
      const letters = Math.max(texts[place].length, gib ? gib.length : 0);
      const within = Math.min(x, this.width - LETTER * letters / 2);
      made.push(shape("line", { class: "axis", x1: x, x2: x, y1: low, y2: low + 4 }));
      made.push(shape("text", { class: "tick", x: within, y: low + 16, "text-anchor": "middle" }, texts[place]));
      if (gib) made.push(shape("text", { class: "tick faint", x: within, y: low + 30, "text-anchor": "middle" }, gib));
    }
    if (this.data.threshold !== null) {
      const y = this.y(this.data.threshold);
      made.push(shape("line", { class: "threshold", x1: this.left, x2: this.width - RIGHT, y1: y, y2: y }));
    }
    if (this.data.zero) {
      made.push(shape("line", { class: "axis", x1: this.left, x2: this.width - RIGHT, y1: this.y(0), y2: this.y(0) }));
    }
    return made;
  }

  curve(group, { mean, low, high, kind }) {
    const { values } = this.data.axis;
    const isBent = this.x.isLogarithmic && this.data.threshold !== null; // straight, as cliffs are found
    const points = isBent ? denser(values) : values;
    const drawn = (list) => (isBent ? points.map((x) => between(values, list, x)) : list);
    const places = points.map(this.x);
    const [middle, foot, top] = [mean, low, high].map(drawn);
    for (const [from, to] of runs(foot)) {
      const upper = path(places, top, this.y, from, to);
      const lower = path(places, foot, this.y, from, to).reverse();
      group.append(shape("path", { class: `band ${kind}`, d: `M${upper.concat(lower).join("L")}Z` }));
    }
    for (const [from, to] of runs(middle)) {
      group.append(shape("path", { class: `line ${kind}`, d: `M${path(places, middle, this.y, from, to).join("L")}` }));
    }
    const xs = values.map(this.x);
    const isAlone = (place) => (mean[place - 1] ?? null) === null && (mean[place + 1] ?? null) === null;
    for (const [from, to] of runs(low)) {
      if (to - from > 1) continue;
      group.append(shape("line", { class: `line ${kind}`, x1: xs[from], x2: xs[from], y1: this.y(low[from]), y2: this.y(high[from]) }));
    }
    if (mean.length <= 25 || mean.some((value, place) => value !== null && isAlone(place))) {
      mean.forEach((value, place) => {
        if (value !== null && (mean.length <= 25 || isAlone(place))) group.append(shape("circle", { class: `dot ${kind}`, cx: xs[place], cy: this.y(value), r: 2.2 }));
      });
    }
  }

  cliffs(group) {
    for (const cliff of this.data.cliffs ?? []) {
      if (cliff.value === null) continue;
      const y = this.y(this.data.threshold);
      const x = this.x(cliff.value);
      group.append(shape("line", { class: `drop ${cliff.kind}`, x1: x, x2: x, y1: y, y2: this.y(this.y.low) }));
      if (cliff.has_interval) {
        const [from, to] = [cliff.low ?? this.x.low, cliff.high ?? this.x.high].map(this.x);
        group.append(shape("line", { class: `spread ${cliff.kind}`, x1: from, x2: to, y1: y, y2: y }));
      }
      group.append(shape("circle", { class: `cliff ${cliff.kind}`, cx: x, cy: y, r: 4.5 }));
    }
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * this.width;
  }

  point(event) {
    if (!this.data || !this.x) return;
    const at = this.place(event);
    if (this.pressed !== undefined) {
      const [from, to] = [Math.min(at, this.pressed), Math.max(at, this.pressed)];
      this.brush.setAttribute("x", from);
      this.brush.setAttribute("width", to - from);
      this.brush.setAttribute("visibility", to - from > 6 ? "visible" : "hidden");
    }
    const distances = this.data.axis.values.map((value) => Math.abs(this.x(value) - at));
    this.shared.pointAt(distances.indexOf(Math.min(...distances)), this);
  }

  // The next point that is seen, the first and the last; nothing else of the page takes these keys.
  key(event) {
    if (!this.data || !this.x) return;
    const { values } = this.data.axis;
    const seen = [...values.keys()].filter((place) => values[place] >= this.x.low && values[place] <= this.x.high);
    const at = seen.indexOf(this.shared.pointed);
    const next = { ArrowLeft: at < 0 ? seen.length - 1 : Math.max(0, at - 1), ArrowRight: Math.min(seen.length - 1, at + 1), Home: 0, End: seen.length - 1, Escape: null }[event.key];
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.shared.pointAt(next === null ? null : seen[next] ?? null);
  }

  press(event) {
    if (event.button === 0) this.pressed = this.place(event);
  }

  release(event) {
    const [from, to] = [this.pressed, this.place(event)].sort((a, b) => a - b);
    this.pressed = undefined;
    if (to - from > 6) this.shared.zoomTo([this.x.back(Math.max(from, this.left)), this.x.back(Math.min(to, this.width - RIGHT))]);
    else this.brush?.setAttribute("visibility", "hidden");
  }

  // The hair line of all charts, and what the curves are there.
  mark(place) {
    if (!this.hair || !this.data) return;
    const { axis, curves, units } = this.data;
    const value = place === null ? undefined : axis.values[place];
    const x = value === undefined ? NaN : this.x(value);
    const isSeen = x >= this.left - 1 && x <= this.width - RIGHT + 1;
    this.hair.setAttribute("visibility", isSeen ? "visible" : "hidden");
    this.readout.hidden = !isSeen;
    if (!isSeen) return;
    this.hair.setAttribute("x1", x);
    this.hair.setAttribute("x2", x);
    const gib = axis.gib ? ` · ${number(Number((value * axis.gib).toPrecision(3)))} GiB` : "";
    const rows = curves.map(({ mean, low, high, kind, name }) => {
      const interval = low[place] === null || this.width < 420 ? "" : ` (${range(low[place], high[place])})`;
      const told = mean[place] === null ? "no value" : number(mean[place]) + unit(units, mean[place]);
      return element("div", { class: `row ${kind}` }, `${name ? `${name} ` : ""}${told}`, element("span", { class: "faint" }, interval));
    });
    this.readout.replaceChildren(element("div", { class: "where" }, `${number(value)}${unit(axis.units, value)}${gib}`), ...rows);
    const isRight = x > this.width / 2;
    this.readout.style.left = isRight ? "" : `${x + 10}px`;
    this.readout.style.right = isRight ? `${this.width - x + 10}px` : "";
  }
}

// What a curve is between two points, null where one of them has no value.
function between(values, list, x) {
  const next = values.findIndex((value) => value >= x);
  if (values[next] === x) return list[next];
  if (next < 1 || list[next - 1] === null || list[next] === null) return null;
  const share = (x - values[next - 1]) / (values[next] - values[next - 1]);
  return list[next - 1] + share * (list[next] - list[next - 1]);
}

// Stretches of a list without gaps, as [from, to).
function runs(list) {
  const found = [];
  list.forEach((value, place) => {
    if (value === null) return;
    if (place && list[place - 1] !== null) found.at(-1)[1] = place + 1;
    else found.push([place, place + 1]);
  });
  return found;
}

function path(xs, values, y, from, to) {
  const found = [];
  for (let place = from; place < to; place += 1) found.push(`${xs[place].toFixed(1)},${y(values[place]).toFixed(1)}`);
  return found;
}
