// The cliff of each scenario in a number, and what two have to do with each other.

import { element, number, range, unit } from "./format.js";

function card(kind, heading, big, ...rest) {
  return element("div", { class: `card ${kind}` }, element("h2", {}, heading), element("p", { class: "big" }, big), ...rest);
}

function small(...content) {
  return element("p", { class: "faint" }, ...content);
}

// Words that a narrow page leaves out.
function wide(text) {
  return element("span", { class: "wide" }, text);
}

function cliffCard(group, kind, heading, axis, seeds) {
  if (group.outcome !== "crosses") {
    return card(kind, heading, "none here", small(group.sentence.replace(/^[AB]: /, "")));
  }
  const few = seeds > 1 ? "too few seeds have a value near it" : "one seed";
  const interval = group.has_interval ? [wide("95% interval "), range(group.low, group.high)] : [`${few}: no interval`];
  const gib = group.gib ? [` · ${number(Number((group.value * group.gib).toPrecision(3)))} GiB`, wide(" on each GPU")] : [];
  const big = `${number(group.value)}${unit(axis.units, group.value)}`;
  const made = card(kind, heading, big, small(...interval, ...gib));
  made.title = `${group.sentence}; ${seeds} seeds`;
  return made;
}

function ratioCard(cliff, axis) {
  const [a, b] = cliff.groups;
  const heading = "B against A";
  if (!cliff.ratio) return card("both", heading, "–", small("needs a cliff in both"));
  const { value, low, high, has_interval: known } = cliff.ratio;
  const apart = b.value - a.value;
  const interval = !known ? ["no interval"] : [wide("95% interval "), range(low, high), wide(", paired by seed")];
  const sign = apart > 0 ? "+" : "";
  return card("both", heading, `× ${number(value)}`, small(`${sign}${number(apart)}${unit(axis.units, apart)} · `, ...interval));
}

export function headline(answer) {
  const { cliff, axis, seeds } = answer;
  if (!cliff) return [card("none", "Cliff", "–", small("give a threshold to see where it is passed"))];
  const isPair = cliff.groups.length > 1;
  const made = cliff.groups.map((group, place) => cliffCard(group, "ab"[place], isPair ? `Cliff of ${"AB"[place]}` : "Cliff", axis, seeds));
  return isPair ? [...made, ratioCard(cliff, axis)] : made;
}
