"use strict";
// Draws what is in view of the data below, again after each zoom and pan. Times are in ms.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const svg = document.querySelector("svg.life");
  const tip = document.getElementById("tip");
  const packed = document.getElementById("packed");
  const NAME = "http://www.w3.org/2000/svg";
  const LEFT = 84, RIGHT = 12, ROWS = 480, GAP = 34, USED = 130, AXIS = 40;
  const rows = data.ids.length;
  const lanes = data.lane.reduce((most, lane) => Math.max(most, lane), 0) + 1;
  const own = data.ids.map((_, i) => i);
  let view;
  packed.checked = data.packed;

  const place = () => (packed.checked ? data.lane : own);
  const count = () => (packed.checked ? lanes : rows);
  const all = () => { view = { x0: 0, x1: data.last * 1.005 || 1, y0: 0, y1: count() }; };
  const width = () => svg.clientWidth - LEFT - RIGHT;
  const X = (time) => LEFT + (time - view.x0) / (view.x1 - view.x0) * width();
  const Y = (row) => (row - view.y0) / (view.y1 - view.y0) * ROWS;
  const clampX = (x) => Math.min(Math.max(x, LEFT), LEFT + width());
  const grouped = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 6 });

  function add(name, attributes, text) {
    const made = document.createElementNS(NAME, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
    return made;
  }

  function steps(low, high, most) {
    const raw = (high - low) / most, ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= raw);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high; n += 1) found.push(n * step);
    return found;
  }

  function drawRows() {
    const at = place(), paths = data.phases.map(() => []);
    const high = Math.max(Y(1) - Y(0), 0.1), thick = high > 2 ? 0.84 * high : high;
    for (let i = 0; i < data.row.length; i += 1) {
      const row = at[data.row[i]];
      if (data.end[i] < view.x0 || data.start[i] > view.x1 || row + 1 < view.y0) continue;
      if (row > view.y1) continue;
      const from = clampX(X(data.start[i])), to = clampX(X(data.end[i]));
      const top = Math.max(Y(row) + (high - thick) / 2, 0);
      const foot = Math.min(Y(row) + (high + thick) / 2, ROWS);
      if (foot <= top) continue;
      const wide = Math.max(to - from, 0.4).toFixed(2);
      paths[data.phase[i]].push(
        `M${from.toFixed(2)} ${top.toFixed(2)}h${wide}v${(foot - top).toFixed(2)}h-${wide}z`);
    }
    paths.forEach((parts, n) => {
      if (parts.length) add("path", { class: `phase p${n}`, d: parts.join("") });
    });
  }

  function drawNames() {
    const at = place();
    let begin = 0;
    for (let i = 1; i <= rows; i += 1) {
      if (i < rows && data.instance[i] === data.instance[begin]) continue;
      const within = at.slice(begin, i);
      const low = Math.min(...within), high = Math.max(...within) + 1;
      const middle = (Math.max(low, view.y0) + Math.min(high, view.y1)) / 2;
      if (low < view.y1 && high > view.y0 && data.used.length > 1) {
        const name = data.instance[begin] < 0 ? "not routed" : `instance ${data.instance[begin]}`;
        add("text", { x: LEFT - 8, y: Y(middle) + 4, "text-anchor": "end" }, name);
        if (high < view.y1) {
          add("line", { class: "edge", x1: LEFT, x2: LEFT + width(), y1: Y(high), y2: Y(high) });
        }
      }
      begin = i;
    }
    if (data.used.length === 1 && !packed.checked) {
      for (const row of steps(view.y0, view.y1, 8)) {
        if (Number.isInteger(row) && row < rows) {
          const y = Y(row + 0.5) + 4;
          add("text", { x: LEFT - 8, y, "text-anchor": "end" }, grouped(row));
        }
      }
    }
  }

  function drawUsed() {
    const top = ROWS + GAP, foot = top + USED, most = 1.15 * data.blocks;
    const height = (blocks) => foot - blocks / most * USED;
    for (const blocks of steps(0, most, 4)) {
      const y = height(blocks);
      add("line", { x1: LEFT, x2: LEFT + width(), y1: y, y2: y });
      add("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, grouped(blocks));
    }
    data.used.forEach(([times, used], n) => {
      let d = "";
      for (let i = 0; i < times.length; i += 1) {
        const until = i + 1 < times.length ? times[i + 1] : data.last;
        if (until < view.x0 || times[i] > view.x1) continue;
        const y = height(used[i]).toFixed(2);
        d += `${d ? "L" : "M"}${clampX(X(times[i])).toFixed(2)} ${y}`;
        d += `H${clampX(X(until)).toFixed(2)}`;
      }
      if (d) add("path", { class: `used u${n % 4}`, d });
    });
    const y = height(data.blocks);
    add("line", { class: "all", x1: LEFT, x2: LEFT + width(), y1: y, y2: y });
    add("text", { x: LEFT + width(), y: y - 4, "text-anchor": "end" }, data.all);
    add("text", { x: 0, y: top - 10, class: "faint" }, data.used_label);
    add("line", { class: "edge", x1: LEFT, x2: LEFT + width(), y1: foot, y2: foot });
    const span = (view.x1 - view.x0) / 1000;
    for (const time of steps(view.x0 / 1000, view.x1 / 1000, Math.max(2, width() / 110))) {
      const shown = grouped(Number(time.toFixed(span < 0.01 ? 6 : 4)));
      const x = X(1000 * time);
      add("line", { class: "edge", x1: x, x2: x, y1: foot, y2: foot + 4 });
      add("text", { x, y: foot + 17, "text-anchor": "middle" }, shown);
    }
    add("text", { x: LEFT + width() / 2, y: foot + 35, "text-anchor": "middle" }, "time (s)");
  }

  function draw() {
    svg.setAttribute("height", ROWS + GAP + USED + AXIS);
    svg.replaceChildren();
    drawRows();
    drawNames();
    drawUsed();
  }

  function keep() {
    const least = { x: data.last / 1e6 || 1e-6, y: 1 }, most = { x: data.last * 1.005 || 1, y: count() };
    for (const axis of ["x", "y"]) {
      const [a, b] = [`${axis}0`, `${axis}1`];
      const span = Math.min(Math.max(view[b] - view[a], least[axis]), most[axis]);
      view[a] = Math.min(Math.max(view[a], 0), most[axis] - span);
      view[b] = view[a] + span;
    }
    draw();
  }

  function zoom(axis, factor, share = 0.5) {
    const [a, b] = [`${axis}0`, `${axis}1`], span = view[b] - view[a];
    view[a] += share * span * (1 - factor);
    view[b] = view[a] + span * factor;
    keep();
  }

  function tell(event) {
    const box = svg.getBoundingClientRect();
    const row = view.y0 + (event.clientY - box.top) / ROWS * (view.y1 - view.y0);
    const time = view.x0 + (event.clientX - box.left - LEFT) / width() * (view.x1 - view.x0);
    const at = place();
    const hit = data.row.findIndex(
      (r, i) => at[r] === Math.floor(row) && data.start[i] <= time && time < data.end[i]);
    if (hit < 0) { tip.textContent = data.hint; return; }
    const [from, to] = [data.start[hit], data.end[hit]];
    tip.textContent = `request ${data.ids[data.row[hit]]}: ${data.phases[data.phase[hit]]} from `
      + `${grouped(from / 1000)} s for ${grouped(Math.round(1000 * (to - from)) / 1000)} ms`;
  }

  let held = null;
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect(), factor = Math.exp((event.deltaY || event.deltaX) / 400);
    if (event.shiftKey) zoom("y", factor, Math.min(1, (event.clientY - box.top) / ROWS));
    else zoom("x", factor, (event.clientX - box.left - LEFT) / width());
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, view: { ...view } };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held) { tell(event); return; }
    const x = (event.clientX - held.x) / width() * (view.x1 - view.x0);
    const y = (event.clientY - held.y) / ROWS * (view.y1 - view.y0);
    view = { x0: held.view.x0 - x, x1: held.view.x1 - x, y0: held.view.y0 - y, y1: held.view.y1 - y };
    keep();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    svg.addEventListener(name, () => { held = null; });
  }
  svg.addEventListener("dblclick", () => { all(); draw(); });
  document.getElementById("in").addEventListener("click", () => zoom("x", 0.5));
  document.getElementById("out").addEventListener("click", () => zoom("x", 2));
  document.getElementById("all").addEventListener("click", () => { all(); draw(); });
  packed.addEventListener("change", () => { all(); draw(); });
  window.addEventListener("resize", draw);
  all();
  draw();
  tip.textContent = data.hint;
})();
