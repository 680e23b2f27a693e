// Sliders and selectors, one for each key that is shown.

import { element, number, sentence, unit } from "./format.js";

const STEPS = 240; // of a slider

const HEADINGS = {
  axes: "Axes of the sweep",
  workload: "Workload",
  cluster: "Cluster",
  engine: "Engine",
  cache: "Cache",
  latency: "Latency",
  model: "Model",
  slo: "Service levels",
};

// Place of a value on a slider, and the value of a place: by ratios where the range is wide.
function toPlace(control, value) {
  const { low, high, logarithmic } = control;
  const share = logarithmic
    ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value - low) / (high - low);
  return Math.round(STEPS * Math.min(1, Math.max(0, share)));
}

function fromPlace(control, place) {
  const { low, high, logarithmic, whole } = control;
  const share = place / STEPS;
  const value = logarithmic ? low * (high / low) ** share : low + share * (high - low);
  if (place === 0) return low;
  if (place === STEPS) return high;
  return whole ? Math.round(rounded(value)) : rounded(value);
}

const rounded = (value) => Number(value.toPrecision(3));

// A number as it is typed; what is none goes to the schema as it is, which says what is wrong.
function typed(text) {
  const plain = text.trim().replaceAll(",", "").replace("−", "-");
  const value = Number(plain);
  return plain !== "" && Number.isFinite(value) ? value : text.trim();
}

// A value as it is read out where a slider stands, whose own places mean nothing.
function spoken(control, value) {
  return value === null ? "not set" : `${value}${unit(control.unit, value)}`;
}

// A row of one control, its inputs below its name; `moved` is called with a new value.
function row(state, control, moved) {
  const value = state.value(control);
  const id = `kvsweep-${control.key}`;
  const input = { number: numberInput, switch: switchInput, choice: choiceInput }[control.kind];
  const parts = input(control, value, id, (next) => moved(control, next));
  const reset = element("button", {
    class: "reset", type: "button", title: `Back to ${control.value ?? "not set"}, as in the file`,
    "aria-label": `reset ${control.key}`, hidden: !state.isChanged(control), onclick: () => moved(control, control.value),
  }, "↺");
  const name = element("label", { for: id }, sentence(control.meaning || control.key), element("code", {}, control.key));
  const classes = ["control", state.isChanged(control) ? "changed" : "", state.differs(control) ? "differs" : ""];
  const made = element("div", { class: classes.join(" ").trim() }, element("div", { class: "top" }, name, reset), element("div", { class: "inputs" }, ...parts));
  made.dataset.key = control.key;
  return made;
}

function numberInput(control, value, id, moved) {
  const box = element("input", {
    type: "text", inputmode: "decimal", id, value: value === null ? "" : String(value), placeholder: "not set", autocomplete: "off",
    onchange: () => {
      const next = box.value.trim() === "" ? control.value : typed(box.value);
      if (typeof next === "number") slider.value = String(toPlace(control, next));
      tell(next);
      moved(next);
    },
  });
  const slider = element("input", {
    type: "range", min: "0", max: String(STEPS), value: String(value === null ? 0 : toPlace(control, value)), "aria-label": control.key,
    oninput: () => {
      const next = fromPlace(control, Number(slider.value));
      box.value = String(next);
      tell(next);
      moved(next);
    },
  });
  const units = element("span", { class: "unit" });
  const tell = (now) => {
    units.textContent = unit(control.unit, now).trim();
    slider.setAttribute("aria-valuetext", spoken(control, now));
  };
  tell(value);
  return [slider, box, units];
}

function switchInput(control, value, id, moved) {
  const box = element("input", { type: "checkbox", id, checked: value === true, onchange: () => moved(box.checked) });
  return [box];
}

function choiceInput(control, value, id, moved) {
  const numeric = control.choices.length > 2 && control.choices.every((choice) => typeof choice === "number");
  if (numeric) return placeInput(control, value, id, moved);
  const options = control.choices.map((choice, place) => element("option", { value: String(place), selected: choice === value }, String(choice)));
  if (value === null) options.unshift(element("option", { value: "", selected: true }, "not set"));
  const box = element("select", { id, onchange: () => moved(box.value === "" ? null : control.choices[Number(box.value)]) }, ...options);
  return [box];
}

// A slider over the values that there are, as those of a store's axis.
function placeInput(control, value, id, moved) {
  const shown = element("output", { for: id, class: "chosen" });
  const slider = element("input", {
    type: "range", id, min: "0", max: String(control.choices.length - 1), value: String(control.choices.indexOf(value)),
    oninput: () => {
      const next = control.choices[Number(slider.value)];
      tell(next);
      moved(next);
    },
  });
  const tell = (now) => {
    shown.textContent = `${number(now)}${unit(control.unit, now)}`;
    slider.setAttribute("aria-valuetext", spoken(control, now));
  };
  tell(value);
  return [slider, shown];
}

// All rows, by group; and a field to add a key that the file does not have.
export class Controls {
  constructor(state, moved) {
    this.state = state;
    this.moved = moved;
    this.node = element("div", { class: "groups" });
    this.rows = new Map();
    this.draw();
  }

  isShown(control) {
    return control.shown || this.state.added.includes(control.key) || this.state.scenarios.some((s) => Object.hasOwn(s, control.key));
  }

  draw() {
    this.rows.clear();
    const groups = new Map();
    for (const control of this.state.controls.filter((each) => this.isShown(each))) {
      const made = row(this.state, control, (changed, value) => this.change(changed, value));
      this.rows.set(control.key, made);
      groups.set(control.group, [...(groups.get(control.group) ?? []), made]);
    }
    const sections = [...groups].map(([group, rows]) => element("fieldset", {}, element("legend", {}, HEADINGS[group] ?? group), ...rows));
    this.node.replaceChildren(...sections, ...this.adding());
  }

  // Marks follow while a slider is held; the row itself stays, or the slider would be lost.
  change(control, value) {
    this.moved(control, value);
    const made = this.rows.get(control.key);
    made.classList.toggle("changed", this.state.isChanged(control));
    made.classList.toggle("differs", this.state.differs(control));
    made.querySelector(".reset").hidden = !this.state.isChanged(control);
    if (value === control.value) this.draw();
  }

  refuse(keys, isRefused) {
    for (const [key, made] of this.rows) made.classList.toggle("refused", isRefused && keys.includes(key));
  }

  adding() {
    const others = this.state.controls.filter((control) => !this.isShown(control));
    if (!others.length) return [];
    const list = element("datalist", { id: "kvsweep-keys" }, ...others.map((control) => element("option", { value: control.key }, control.meaning)));
    const field = element("input", {
      type: "text", list: "kvsweep-keys", id: "kvsweep-add", placeholder: "cluster.instances, engine.watermark …", autocomplete: "off",
      onchange: () => {
        const found = others.find((control) => control.key === field.value.trim());
        field.classList.toggle("refused", !found && field.value.trim() !== "");
        if (!found) return;
        this.state.added.push(found.key);
        this.draw();
        this.rows.get(found.key).scrollIntoView({ block: "center" });
        this.rows.get(found.key).querySelector("input, select").focus();
      },
    });
    const label = element("label", { for: "kvsweep-add" }, `Add one of ${others.length} more settings`);
    return [element("fieldset", { class: "add" }, label, field, list)];
  }
}
