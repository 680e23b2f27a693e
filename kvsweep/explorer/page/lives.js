// A request's life: one simulation of what the sliders show, at one value of the axis.

import { LifeChart } from "./life.js";
import { element, number, shape, unit } from "./format.js";

const HINT = "Drag to move, Ctrl and the wheel to zoom, with Shift rows. Point at a bar to ask.";

export class Lives {
  // `send` sends a request; `state` is the page's.
  constructor(state, send) {
    this.state = state;
    this.send = send;
    this.generation = 0;
    this.answer = null;
    this.slider = element("input", { type: "range", min: "0", max: "0", "aria-label": "where on the axis", oninput: () => this.chosen(Number(this.slider.value)) });
    this.where = element("output", { class: "chosen" });
    this.seed = element("input", { type: "text", inputmode: "numeric", class: "limit", "aria-label": "seed", onchange: () => this.seeded() });
    const svg = shape("svg", { class: "life", role: "img" });
    this.tip = element("p", { class: "tip faint" });
    this.told = element("p", { class: "told", role: "status" });
    this.key = element("p", { class: "life-key" });
    this.chart = new LifeChart(svg, this.tip, { high: 360, zooms: (event) => event.ctrlKey });
    this.packed = element("input", { type: "checkbox", onchange: () => this.chart.pack(this.packed.checked) });
    const button = (text, title, onclick) => element("button", { type: "button", title, onclick }, text);
    this.tools = element("span", { class: "right" },
      element("label", {}, this.packed, " several in a row"),
      button("−", "Zoom out", () => this.chart.zoom("x", 2)),
      button("+", "Zoom in", () => this.chart.zoom("x", 0.5)),
      button("All", "The whole", () => this.chart.all()));
    this.drawn = element("div", {}, this.key, svg, this.tip);
    const where = element("label", {}, "at ", this.slider, this.where);
    const bar = element("div", { class: "life-bar" }, where, element("label", {}, "seed ", this.seed), this.tools);
    this.node = element("details", { class: "lives", open: state.lives.open, ontoggle: () => this.toggled() },
      element("summary", {}, "A request's life", element("span", { class: "faint" }, " · what every request does when, at one size and seed")),
      bar, this.told, this.drawn);
  }

  // Curves have come: the axis may be another one, or have more points.
  follow(answer) {
    const isFirst = this.answer === null;
    this.answer = answer;
    const { values } = answer.axis;
    this.slider.max = String(values.length - 1);
    this.slider.value = String(values.indexOf(this.value));
    this.write();
    const asked = JSON.stringify(this.question);
    if (this.node.open && (isFirst || asked !== this.asked)) this.ask();
  }

  // Where it was put; else a tenth beyond the cliff, where there is something to see.
  get value() {
    const { axis: { values }, cliff, measures } = this.answer;
    const which = Math.min(this.state.active, measures[0].curves.length - 1);
    const place = cliff?.groups[which].value ?? null;
    const first = measures[0].curves[which].mean[0];
    const isLow = cliff !== null && (first > cliff.threshold) === (cliff.past === "above");
    const beyond = place === null ? values[Math.floor(values.length / 2)] : place * (isLow ? 0.9 : 1.1);
    const wanted = this.state.lives.value ?? beyond;
    return values.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
  }

  get question() {
    const { along, settings, lives } = this.state;
    return { along, settings, value: this.value, seed: lives.seed ?? this.answer.first_seed };
  }

  write() {
    const { axis } = this.answer;
    const gib = axis.gib ? ` · ${number(Number((this.value * axis.gib).toPrecision(3)))} GiB` : "";
    this.where.textContent = `${number(this.value)}${unit(axis.units, this.value)}${gib}`;
    this.slider.setAttribute("aria-valuetext", this.where.textContent);
    this.seed.value = String(this.question.seed);
  }

  chosen(place) {
    this.state.lives.value = this.answer.axis.values[place];
    this.write();
    this.ask();
  }

  seeded() {
    const seed = Number(this.seed.value.trim() || this.answer.first_seed);
    const isRight = Number.isInteger(seed) && seed >= 0;
    this.seed.classList.toggle("refused", !isRight);
    if (!isRight) return;
    this.state.lives.seed = seed;
    this.ask();
  }

  toggled() {
    this.state.lives.open = this.node.open;
    if (this.node.open && this.answer) this.ask();
  }

  // One request for all that changes within a frame.
  ask() {
    if (this.waiting) return;
    this.waiting = true;
    this.node.dataset.state = "asked";
    requestAnimationFrame(() => {
      this.waiting = false;
      this.generation += 1;
      this.asked = JSON.stringify(this.question);
      this.send({ kind: "life", generation: this.generation, ...this.question });
    });
  }

  take(answer) {
    if (answer.generation !== this.generation || this.waiting) return;
    this.node.dataset.state = answer.refused ? "refused" : "shown";
    this.drawn.hidden = this.tools.hidden = Boolean(answer.refused);
    this.told.classList.toggle("alerting", Boolean(answer.refused));
    this.told.textContent = answer.refused ?? answer.told;
    if (answer.refused) return;
    const { data, present } = answer;
    this.packed.checked = data.packed;
    const lost = data.lost.length ? [element("span", {}, element("b", { "aria-hidden": "true" }, "×"), ` ${data.lost_label}`)] : [];
    this.key.replaceChildren(
      ...present.map((phase) => element("span", {}, element("i", { class: `p${phase}` }), data.phases[phase])),
      ...lost,
      ...data.lines.map((name, n) => element("span", {}, element("u", { class: `u${n}` }), name)));
    this.chart.show({ ...data, hint: HINT });
    this.chart.svg.setAttribute("aria-label", answer.told);
    this.node.answer = answer;
  }
}
