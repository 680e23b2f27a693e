// Numbers and elements as the page writes them.

// Four significant digits, thousands separated, no needless zeros: as kvsweep's tables have them.
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const decimals = Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))));
  if (decimals > 7) return value.toExponential(2);
  const text = value.toLocaleString("en-US", { maximumFractionDigits: decimals });
  return text.replace("-", "−");
}

// Numbers of an axis, with more digits where they would read alike, or stand beside their places.
export function apart(values) {
  const texts = values.map(number);
  const step = Math.min(...values.slice(1).map((value, place) => Math.abs(value - values[place])));
  const read = (text) => Number(text.replaceAll(",", "").replace("−", "-"));
  const isClear = (list) => list.every((text, place) => Math.abs(read(text) - values[place]) <= 0.02 * step);
  if (isClear(texts)) return texts;
  for (let digits = 0; digits <= 15; digits += 1) {
    const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    const more = values.map((value) => value.toLocaleString("en-US", fixed).replace("-", "−"));
    if (isClear(more)) return more;
  }
  return texts;
}

// Both ends to two digits of their distance; what differs by rounding alone does not differ.
export function range(low, high) {
  if (low === null && high === null) return "outside the range";
  const rounding = 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  const half = low === null || high === null || high - low <= 2 * rounding ? null : 0.5 * (high - low);
  const places = half > 0 ? Math.max(0, 1 - Math.floor(Math.log10(half))) : 0;
  const end = (value) => {
    if (value === null) return "outside";
    if (!half) return number(value);
    const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
    return value.toLocaleString("en-US", digits).replace("-", "−");
  };
  return `${end(low)} to ${end(high)}`;
}

const COUNTED = ["block", "token", "request", "step", "instance"];

// The unit behind a number; pure numbers have none.
export function unit(units, value) {
  if (units === "1" || units === "") return "";
  return COUNTED.includes(units) && value !== 1 ? ` ${units}s` : ` ${units}`;
}

export function withUnit(label, units) {
  const said = units.length > 2 && label.split(" ").some((word) => word.startsWith(units));
  return units === "1" || units === "" || said ? label : `${label} (${units})`;
}

export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// An element with attributes, listeners (on...) and content; text is never taken for markup.
export function element(tag, attributes = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...content);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

// A download of text or bytes.
export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
