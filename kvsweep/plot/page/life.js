// The life of requests, a row each, and the blocks in use below. Draws what is in view of its data,
// again after each zoom and pan. Times are in ms.

const NAME = "http://www.w3.org/2000/svg";
const LEFT_OF = 84, RIGHT_OF = 12, GAP = 34, USED = 130, BELOW = 40;
const LEAST = 1, CROSS = 3.5; // pixels: of a bar, half of a cross

function marks(low, high, most) {
  const raw = (high - low) / most, ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= raw);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high; n += 1) found.push(n * step);
  return found;
}

const grouped = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 6 });

export class LifeChart {
  // `svg` is drawn into, `tip` tells of what is pointed at; `high`: pixels of the rows;
  // `zooms`: whether a turn of the wheel, an event, is to zoom rather than to scroll.
  constructor(svg, tip, { high, zooms }) {
    Object.assign(this, { svg, tip, high, zooms, data: null, packed: false, held: null });
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.press(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      svg.addEventListener(name, () => { this.held = null; });
    }
    svg.addEventListener("dblclick", () => this.all());
    new ResizeObserver(() => {
      if (this.data && svg.clientWidth !== this.drawnAt) this.draw();
    }).observe(svg);
  }

  show(data) {
    this.data = data;
    this.rows = data.ids.length;
    this.lanes = data.lane.reduce((most, lane) => Math.max(most, lane), 0) + 1;
    this.own = data.ids.map((_, i) => i);
    this.pack(data.packed);
    this.tip.textContent = data.hint;
  }

  // Several requests in a row, or a row for each.
  pack(isPacked) {
    this.packed = isPacked;
    this.all();
  }

  all() {
    this.view = { x0: 0, x1: this.data.last * 1.005 || 1, y0: 0, y1: this.count };
    this.draw();
  }

  zoom(axis, factor, share = 0.5) {
    const [a, b] = [`${axis}0`, `${axis}1`], span = this.view[b] - this.view[a];
    this.view[a] += share * span * (1 - factor);
    this.view[b] = this.view[a] + span * factor;
    this.keep();
  }

  get place() { return this.packed ? this.data.lane : this.own; }

  get count() { return this.packed ? this.lanes : this.rows; }

  get width() { return this.svg.clientWidth - LEFT_OF - RIGHT_OF; }

  x(time) { return LEFT_OF + (time - this.view.x0) / (this.view.x1 - this.view.x0) * this.width; }

  y(row) { return (row - this.view.y0) / (this.view.y1 - this.view.y0) * this.high; }

  within(x) { return Math.min(Math.max(x, LEFT_OF), LEFT_OF + this.width); }

  add(name, attributes, text) {
    const made = document.createElementNS(NAME, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    this.svg.append(made);
  }

  draw() {
    this.drawnAt = this.svg.clientWidth;
    this.svg.setAttribute("height", this.high + GAP + USED + BELOW);
    this.svg.replaceChildren();
    if (this.width < 50) return;
    this.drawRows();
    this.drawLost();
    this.drawNames();
    this.drawUsed();
    this.drawTimes();
  }

  drawRows() {
    const { data, view, place: at } = this, paths = data.phases.map(() => []);
    const high = Math.max(this.y(1) - this.y(0), 0.1), thick = high > 2 ? 0.84 * high : high;
    for (let i = 0; i < data.row.length; i += 1) {
      const row = at[data.row[i]];
      if (data.end[i] < view.x0 || data.start[i] > view.x1 || row + 1 < view.y0) continue;
      if (row > view.y1) continue;
      const from = this.within(this.x(data.start[i])), to = this.within(this.x(data.end[i]));
      const top = Math.max(this.y(row) + (high - thick) / 2, 0);
      const foot = Math.min(this.y(row) + (high + thick) / 2, this.high);
      if (foot <= top) continue;
      const wide = Math.max(to - from, LEAST).toFixed(2);
      paths[data.phase[i]].push(
        `M${from.toFixed(2)} ${top.toFixed(2)}h${wide}v${(foot - top).toFixed(2)}h-${wide}z`);
    }
    paths.forEach((parts, n) => {
      if (parts.length) this.add("path", { class: `phase p${n}`, d: parts.join("") });
    });
  }

  // A cross at the end of each request that did not complete; of one that never arrived, none.
  drawLost() {
    const { data, view } = this, d = [];
    data.lost.forEach((row, n) => {
      const time = data.lost_at[n], middle = this.place[row] + 0.5;
      if (time < Math.max(view.x0, 0) || time > view.x1 || middle < view.y0 || middle > view.y1) return;
      const from = (this.x(time) - CROSS).toFixed(2), y = this.y(middle), wide = 2 * CROSS;
      d.push(`M${from} ${(y - CROSS).toFixed(2)}l${wide} ${wide}m${-wide} 0l${wide} ${-wide}`);
    });
    if (d.length) this.add("path", { class: "lost", d: d.join("") });
  }

  drawNames() {
    const { data, view, place: at, width } = this;
    let begin = 0;
    for (let i = 1; i <= this.rows; i += 1) {
      if (i < this.rows && data.instance[i] === data.instance[begin]) continue;
      const own = at.slice(begin, i);
      const low = Math.min(...own), high = Math.max(...own) + 1;
      const middle = (Math.max(low, view.y0) + Math.min(high, view.y1)) / 2;
      if (low < view.y1 && high > view.y0 && data.used.length > 1) {
        const name = data.instance[begin] < 0 ? "not routed" : `instance ${data.instance[begin]}`;
        this.add("text", { x: LEFT_OF - 8, y: this.y(middle) + 4, "text-anchor": "end" }, name);
        if (high < view.y1) {
          const y = this.y(high);
          this.add("line", { class: "edge", x1: LEFT_OF, x2: LEFT_OF + width, y1: y, y2: y });
        }
      }
      begin = i;
    }
    if (data.used.length > 1 || this.packed) return;
    for (const row of marks(view.y0, view.y1, 8)) {
      if (Number.isInteger(row) && row < this.rows) {
        const y = this.y(row + 0.5) + 4;
        this.add("text", { x: LEFT_OF - 8, y, "text-anchor": "end" }, grouped(row));
      }
    }
  }

  drawUsed() {
    const { data, view, width } = this;
    const top = this.high + GAP, foot = top + USED, most = 1.15 * data.limits[0][0];
    const height = (blocks) => foot - blocks / most * USED;
    for (const blocks of marks(0, most, 4)) {
      const y = height(blocks);
      this.add("line", { x1: LEFT_OF, x2: LEFT_OF + width, y1: y, y2: y });
      this.add("text", { x: LEFT_OF - 8, y: y + 4, "text-anchor": "end" }, grouped(blocks));
    }
    data.used.forEach(([times, used], n) => {
      let d = "";
      for (let i = 0; i < times.length; i += 1) {
        const until = i + 1 < times.length ? times[i + 1] : data.last;
        if (until < view.x0 || times[i] > view.x1) continue;
        d += `${d ? "L" : "M"}${this.within(this.x(times[i])).toFixed(2)} ${height(used[i]).toFixed(2)}`;
        d += `H${this.within(this.x(until)).toFixed(2)}`;
      }
      const kind = data.lines.length ? n : 0;
      if (d) this.add("path", { class: `used u${kind}`, d });
    });
    for (const [blocks, text] of data.limits) {
      const y = height(blocks);
      this.add("line", { class: "all", x1: LEFT_OF, x2: LEFT_OF + width, y1: y, y2: y });
      this.add("text", { x: LEFT_OF + width, y: y - 4, "text-anchor": "end" }, text);
    }
    this.add("text", { x: 0, y: top - 10, class: "faint" }, data.used_label);
  }

  drawTimes() {
    const { view, width } = this, foot = this.high + GAP + USED;
    this.add("line", { class: "edge", x1: LEFT_OF, x2: LEFT_OF + width, y1: foot, y2: foot });
    const span = (view.x1 - view.x0) / 1000;
    for (const time of marks(view.x0 / 1000, view.x1 / 1000, Math.max(2, width / 110))) {
      const x = this.x(1000 * time);
      this.add("line", { class: "edge", x1: x, x2: x, y1: foot, y2: foot + 4 });
      const told = grouped(Number(time.toFixed(span < 0.01 ? 6 : 4)));
      this.add("text", { x, y: foot + 17, "text-anchor": "middle" }, told);
    }
    const middle = LEFT_OF + width / 2;
    this.add("text", { x: middle, y: foot + 35, "text-anchor": "middle" }, "time (s)");
  }

  // Keep within the data.
  keep() {
    const { data, view } = this;
    const least = { x: data.last / 1e6 || 1e-6, y: 1 };
    const most = { x: data.last * 1.005 || 1, y: this.count };
    for (const axis of ["x", "y"]) {
      const [a, b] = [`${axis}0`, `${axis}1`];
      const span = Math.min(Math.max(view[b] - view[a], least[axis]), most[axis]);
      view[a] = Math.min(Math.max(view[a], 0), most[axis] - span);
      view[b] = view[a] + span;
    }
    this.draw();
  }

  wheel(event) {
    if (!this.data || !this.zooms(event)) return;
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    const factor = Math.exp((event.deltaY || event.deltaX) / 400);
    if (event.shiftKey) this.zoom("y", factor, Math.min(1, (event.clientY - box.top) / this.high));
    else this.zoom("x", factor, (event.clientX - box.left - LEFT_OF) / this.width);
  }

  press(event) {
    if (!this.data) return;
    this.held = { x: event.clientX, y: event.clientY, view: { ...this.view } };
    this.svg.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.data) return;
    if (!this.held) {
      this.tell(event);
      return;
    }
    const { x, y, view } = this.held;
    const right = (event.clientX - x) / this.width * (view.x1 - view.x0);
    const down = (event.clientY - y) / this.high * (view.y1 - view.y0);
    this.view = {
      x0: view.x0 - right, x1: view.x1 - right, y0: view.y0 - down, y1: view.y1 - down,
    };
    this.keep();
  }

  tell(event) {
    const { data, view, place: at } = this;
    const box = this.svg.getBoundingClientRect();
    const row = view.y0 + (event.clientY - box.top) / this.high * (view.y1 - view.y0);
    const share = (event.clientX - box.left - LEFT_OF) / this.width;
    const time = view.x0 + share * (view.x1 - view.x0);
    const near = 1.5 * CROSS / this.width * (view.x1 - view.x0);
    const lost = data.lost.findIndex((r, n) => at[r] === Math.floor(row)
      && data.lost_at[n] >= 0 && Math.abs(data.lost_at[n] - time) < near);
    if (lost >= 0) {
      this.tip.textContent = `request ${data.ids[data.lost[lost]]}: ${data.lost_label}, `
        + `ended at ${grouped(data.lost_at[lost] / 1000)} s`;
      return;
    }
    const hit = data.row.findIndex(
      (r, i) => at[r] === Math.floor(row) && data.start[i] <= time && time < data.end[i]);
    if (hit < 0) {
      this.tip.textContent = data.hint;
      return;
    }
    const [from, to] = [data.start[hit], data.end[hit]];
    this.tip.textContent = `request ${data.ids[data.row[hit]]}: ${data.phases[data.phase[hit]]} from `
      + `${grouped(from / 1000)} s for ${grouped(Math.round(1000 * (to - from)) / 1000)} ms`;
  }
}
