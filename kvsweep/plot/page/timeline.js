// The page of a timeline: one chart, its buttons, and the data below.

import { LifeChart } from "./life.js";

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const packed = byId("packed");
const chart = new LifeChart(document.querySelector("svg.life"), byId("tip"), {
  high: 480,
  zooms: () => true,
});
packed.checked = data.packed;
packed.addEventListener("change", () => chart.pack(packed.checked));
byId("in").addEventListener("click", () => chart.zoom("x", 0.5));
byId("out").addEventListener("click", () => chart.zoom("x", 2));
byId("all").addEventListener("click", () => chart.all());
chart.show(data);
