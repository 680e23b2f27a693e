// The whole page: it sends what is asked for, and draws what comes, the last request last.

import { Chart } from "./chart.js";
import { Controls } from "./controls.js";
import { element, sentence, withUnit } from "./format.js";
import { headline } from "./headline.js";
import { Lives } from "./lives.js";
import { Saving } from "./saving.js";
import { isWide, linear, logarithmic } from "./scale.js";
import { State } from "./state.js";

export class View {
  // channel: {send(message), keep(text), kept()}.
  constructor(root, channel, hello) {
    this.root = root;
    this.channel = channel;
    this.hello = hello;
    this.state = new State(hello, channel.kept());
    this.generation = 0;
    this.sent = new Map();
    this.lastKey = null;
    this.shared = { zoom: null, pointed: null, zoomTo: (zoom) => this.zoomTo(zoom), pointAt: (place) => this.pointAt(place) };
    this.build();
    this.ask();
  }

  build() {
    const { hello, state } = this;
    this.saving = new Saving((what) => this.save(what), hello.source === "sweep");
    this.controls = new Controls(state, (control, value) => this.moved(control, value));
    this.tabs = element("div", { class: "tabs" });
    this.alert = element("p", { class: "alert", role: "alert", hidden: true });
    this.cards = element("div", { class: "cards" });
    this.status = element("p", { class: "status faint", role: "status" });
    this.notes = element("ul", { class: "notes" });
    this.charts = state.measures.map((_, place) => new Chart(this.shared, place ? 190 : 330));
    this.difference = new Chart(this.shared, 170);
    const panels = this.charts.map((chart, place) => this.panel(chart, place));
    this.apart = element("figure", { class: "panel", hidden: true }, element("figcaption", {}, ""), this.difference.node);
    this.close = element("button", { type: "button", onclick: () => this.zoomToCliff() }, "Close-up of the cliff");
    this.whole = element("button", { type: "button", hidden: true, onclick: () => this.zoomTo(null) }, "Whole range");
    panels[0].querySelector("figcaption").append(element("span", { class: "right" }, this.close, this.whole));
    this.xLabel = element("p", { class: "x-label" });
    const settings = element("aside", { "aria-label": "Settings" }, this.tabs, this.controls.node);
    const top = element("div", { class: "first" }, element("div", { class: "heading" }, this.cards, this.alert), panels[0], this.xLabel);
    this.lives = new Lives(state, (message) => this.sendLife(message));
    this.lives.node.hidden = hello.source !== "sweep";
    const rest = element("div", { class: "rest" }, this.apart, element("div", { class: "beside" }, ...panels.slice(1)), this.notes, this.lives.node);
    const question = hello.question ? [element("p", { class: "question" }, hello.question)] : [];
    const title = element("div", {}, element("h1", {}, hello.title), ...question);
    this.root.replaceChildren(
      element("header", {}, title, this.saving.node),
      element("div", { class: "body" }, settings, top, rest),
      element("footer", {}, this.status, element("span", { class: "faint name" }, hello.name)));
    this.drawTabs();
  }

  // A chart with the measure that is chosen for it; the first also has axis and threshold.
  panel(chart, place) {
    const { hello, state } = this;
    const options = hello.measures.map((measure) => element("option", { value: measure.name, title: measure.label, selected: measure.name === state.measures[place] }, measure.name));
    const choose = element("select", { "aria-label": `measure ${place + 1}`, onchange: () => {
      state.measures = state.measures.with(place, choose.value);
      if (place === 0) {
        state.threshold = choose.value === hello.shown[0] ? hello.threshold : null;
        this.limit.value = state.threshold ?? "";
      }
      this.ask();
    } }, ...options);
    const caption = element("figcaption", {}, choose, element("span", { class: "meaning faint" }));
    if (place === 0) caption.append(...this.limits());
    return element("figure", { class: place ? "panel" : "panel main" }, caption, chart.node);
  }

  limits() {
    const { hello, state } = this;
    this.limit = element("input", { type: "text", inputmode: "decimal", class: "limit", value: state.threshold === null ? "" : String(state.threshold), placeholder: "none", onchange: () => {
      const text = this.limit.value.trim();
      const value = Number(text);
      this.limit.classList.toggle("refused", text !== "" && !Number.isFinite(value));
      if (!Number.isFinite(value)) return;
      state.threshold = text === "" ? null : value;
      this.ask();
    } });
    const made = [element("label", {}, "threshold ", this.limit)];
    if (hello.alongs.length > 1) {
      const along = element("select", { onchange: () => {
        state.moveAlong(along.value);
        this.shared.zoom = null;
        this.controls.draw();
        this.ask();
      } }, ...hello.alongs.map(({ name }) => element("option", { value: name, selected: name === state.along }, name)));
      made.push(element("label", {}, "along ", along));
    }
    return made;
  }

  drawTabs() {
    const { state } = this;
    const isPair = state.scenarios.length > 1;
    const tab = (place) => element("button", { type: "button", class: `tab ${"ab"[place]}`, "aria-pressed": String(state.active === place), onclick: () => {
      state.active = place;
      this.redraw();
      if (this.answer) this.lives.follow(this.answer);
    } }, "AB"[place]);
    const compare = element("button", { type: "button", title: "A second scenario beside this one, with the same seeds", onclick: () => {
      state.compare(!isPair);
      this.redraw();
      this.ask();
    } }, isPair ? "End comparison" : "Compare");
    const reset = element("button", { type: "button", title: "All settings as in the file", onclick: () => {
      state.reset();
      this.redraw();
      this.ask();
    } }, "Reset");
    this.tabs.replaceChildren(...(isPair ? [tab(0), tab(1)] : [element("strong", {}, "Settings")]), element("span", { class: "right" }, compare, reset));
  }

  redraw() {
    this.drawTabs();
    this.controls.draw();
  }

  moved(control, value) {
    this.state.set(control, value);
    this.lastKey = control.key;
    this.ask();
  }

  // One request for all that changes within a frame.
  ask() {
    if (this.waiting) return;
    this.waiting = true;
    this.root.dataset.state = "asked";
    requestAnimationFrame(() => {
      this.waiting = false;
      this.generation += 1;
      this.sent.set(this.generation, performance.now());
      this.channel.send(this.state.request(this.generation));
      this.channel.keep(this.state.keep());
      this.say("asking …", true);
    });
  }

  save(what) {
    this.channel.send({ kind: "save", generation: this.generation, what, scenario: this.state.active });
  }

  sendLife(message) {
    this.channel.send(message);
    this.channel.keep(this.state.keep());
  }

  take(answer) {
    if (answer.kind === "curves") this.show(answer);
    else if (answer.kind === "life") this.lives.take(answer);
    else if (answer.kind === "saved") this.saving.take(answer, this.state.scenarios.length > 1 ? ` of ${"AB"[this.state.active]}` : "");
    else if (answer.kind === "refused") this.refuse(answer);
    else if (answer.generation === this.generation) this.say(`${answer.text} …`, true);
  }

  refuse(answer) {
    if (answer.generation >= 0 && answer.generation < this.generation) return;
    this.alert.textContent = answer.text;
    this.alert.hidden = false;
    this.controls.refuse([this.lastKey], true);
    this.root.classList.add("stale");
    this.root.dataset.state = "refused";
    this.say("refused: the curves are those of the last valid settings", false);
  }

  show(answer) {
    if (answer.generation < (this.answer?.generation ?? 0)) return;
    this.answer = answer;
    this.root.answer = answer;
    if (answer.generation === this.generation) {
      this.alert.hidden = true;
      this.controls.refuse([], false);
      this.root.classList.remove("stale");
    }
    this.cards.replaceChildren(...headline(answer));
    this.close.disabled = !answer.cliff?.groups.some((group) => group.value !== null);
    answer.measures.forEach((measure, place) => this.draw(measure, place));
    this.drawDifference(answer.measures[0]);
    const below = answer.axis.gib ? "; below: GiB on each GPU" : "";
    this.xLabel.textContent = withUnit(sentence(answer.axis.label), answer.axis.units) + below;
    this.notes.replaceChildren(...answer.notes.map((note) => element("li", {}, note)));
    this.tell(answer);
    if (answer.generation === this.generation) this.lives.follow(answer);
  }

  tell(answer) {
    const began = this.sent.get(answer.generation);
    if (began !== undefined && this.root.dataset.shown !== String(answer.generation)) {
      this.root.dataset.latency = String(Math.round(performance.now() - began));
    }
    for (const known of this.sent.keys()) if (known < answer.generation) this.sent.delete(known);
    this.root.dataset.shown = answer.generation;
    const seeds = answer.seeds === 1 ? "1 seed" : `${answer.seeds} seeds`;
    const runs = `${answer.runs.toLocaleString("en-US")} runs`;
    const told = `${seeds} at ${answer.axis.values.length} points, ${runs}`;
    if (answer.generation !== this.generation || this.waiting) return;
    this.root.dataset.state = answer.done ? "done" : "refining";
    this.say(answer.done ? told : `${told}; refining …`, !answer.done);
  }

  say(text, isBusy) {
    this.status.textContent = text;
    this.status.classList.toggle("busy", isBusy);
  }

  draw(measure, place) {
    const { answer } = this;
    const isPair = measure.curves.length > 1;
    const kinds = measure.curves.map((_, n) => "ab"[n]);
    const curves = measure.curves.map((curve, n) => ({ ...curve, kind: kinds[n], name: isPair ? "AB"[n] : "" }));
    const isFirst = place === 0 && answer.cliff;
    const cliffs = isFirst ? answer.cliff.groups.map((group, n) => ({ ...group, kind: kinds[n] })) : [];
    const better = measure.better && `; ${measure.better} is better`;
    const caption = this.charts[place].node.parentElement.querySelector(".meaning");
    caption.textContent = `${withUnit(sentence(measure.label), measure.units)}${better}`;
    this.charts[place].show({ axis: { ...answer.axis, gib: place ? null : answer.axis.gib }, curves, cliffs, units: measure.units, label: measure.label, threshold: isFirst ? answer.cliff.threshold : null });
  }

  drawDifference(measure) {
    const { answer } = this;
    this.apart.hidden = !measure.difference;
    if (!measure.difference) return;
    this.apart.querySelector("figcaption").textContent = `B minus A: ${withUnit(measure.label, measure.units)}, paired by seed`;
    const curves = [{ ...measure.difference, kind: "both", name: "" }];
    this.difference.show({ axis: { ...answer.axis, gib: null }, curves, cliffs: [], threshold: null, zero: true, units: measure.units, label: "B minus A" });
  }

  pointAt(place) {
    this.shared.pointed = place;
    for (const chart of [...this.charts, this.difference]) chart.mark(place);
  }

  zoomTo(zoom) {
    this.shared.zoom = zoom;
    this.whole.hidden = !zoom;
    for (const chart of [...this.charts, this.difference]) chart.draw();
  }

  zoomToCliff() {
    const values = this.answer?.axis.values ?? [];
    const places = (this.answer?.cliff?.groups ?? []).map((group) => group.value).filter((value) => value !== null);
    if (!places.length) return;
    const across = (isWide(values) ? logarithmic : linear)(values[0], values.at(-1), 0, 1);
    const ends = [Math.min(...places.map(across)) - 0.06, Math.max(...places.map(across)) + 0.06];
    this.zoomTo([across.back(Math.max(0, ends[0])), across.back(Math.min(1, ends[1]))]);
  }

  end(text) {
    this.alert.textContent = text;
    this.alert.hidden = false;
    this.root.classList.add("stale");
    this.root.dataset.state = "ended";
    this.say("ended", false);
  }
}
