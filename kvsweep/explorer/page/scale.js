// Axes: from values to pixels, and where ticks are.

const ROUND_STEPS = [1, 2, 2.5, 5, 10];

// An axis is logarithmic if its values are more even so, and span this many times the smallest.
export const SPAN = 8;

export function linear(low, high, from, to) {
  const span = high - low || 1;
  const place = (value) => from + ((value - low) / span) * (to - from);
  place.back = (pixel) => low + ((pixel - from) / (to - from)) * span;
  place.low = low;
  place.high = high;
  return place;
}

export function logarithmic(low, high, from, to) {
  const inner = linear(Math.log(low), Math.log(high), from, to);
  const place = (value) => inner(Math.log(Math.max(value, low * 1e-6)));
  place.back = (pixel) => Math.exp(inner.back(pixel));
  place.low = low;
  place.high = high;
  place.isLogarithmic = true;
  return place;
}

// At most so many round numbers from low to high.
export function ticks(low, high, most) {
  const rough = (high - low) / most;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ROUND_STEPS.find((factor) => factor * power >= rough * 0.999999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) {
    found.push(Number((at * step).toPrecision(12)));
  }
  return found;
}

export function powers(low, high) {
  const found = [];
  for (let n = Math.ceil(Math.log10(low)); n <= Math.log10(high) + 1e-9; n += 1) found.push(10 ** n);
  return found.length > 1 ? found : [low, high];
}

// Whether ascending values of an axis are drawn by their logarithms: as plot/ticks.py has it.
export function isWide(values) {
  if (values.length < 3 || values[0] <= 0) return false;
  const gaps = (list) => list.slice(1).map((value, place) => value - list[place]);
  const steps = gaps(values.map(Math.log));
  if (steps.every((step) => step > Math.log(1.9))) return true;
  return values.at(-1) >= SPAN * values[0] && unevenness(steps) < unevenness(gaps(values));
}

function unevenness(steps) {
  const mean = steps.reduce((sum, step) => sum + step, 0) / steps.length;
  return Math.sqrt(steps.reduce((sum, step) => sum + (step - mean) ** 2, 0) / steps.length) / mean;
}

// Of a logarithmic axis: its values, or of many or fewer than two round numbers, so many pixels apart
// at least.
export function sweptTicks(values, place, apart) {
  const seen = values.filter((value) => value >= place.low && value <= place.high);
  const tried = seen.length < 2 || seen.length > 12 ? [[1, 2, 5], [1]].map((firsts) => roundNumbers(place, firsts)) : [seen];
  const kept = tried.map((found) => withRoom(found, place, apart));
  return kept.find((list, which) => list.length > 1 && list.length === tried[which].length) ?? kept[0];
}

function withRoom(values, place, apart) {
  const kept = [];
  for (const value of values) if (!kept.length || place(value) - place(kept.at(-1)) >= apart) kept.push(value);
  return kept;
}

function roundNumbers({ low, high }, firsts) {
  const found = [];
  for (let n = Math.floor(Math.log10(low)); n <= Math.log10(high); n += 1) {
    for (const first of firsts) found.push(Number((first * 10 ** n).toPrecision(1)));
  }
  return found.filter((value) => value >= low && value <= high);
}

// The values of an axis and others between, where curves that are straight are drawn bent.
export function denser(values) {
  const count = Math.ceil(120 / values.length);
  return values.slice(1).reduce((found, next, place) => {
    const from = values[place];
    for (let i = 1; i < count; i += 1) found.push(from * (next / from) ** (i / count));
    return found.concat(next);
  }, values.slice(0, 1));
}

// Where curves of some values are drawn: from 0 if they are not far from it; by ratios if they
// are far from each other, and `means`, whose intervals may reach 0, do not.
export function extent(values, wanted = [], means = values) {
  const known = values.concat(wanted).filter((value) => value !== null);
  if (!known.length) return { low: 0, high: 1, isLogarithmic: false };
  let low = Math.min(...known);
  let high = Math.max(...known);
  const least = Math.min(...means.concat(wanted).filter((value) => value !== null));
  if (least > 0 && high / least > 200) return { low: Math.max(low, least / 10) / 1.2, high: high * 1.2, isLogarithmic: true };
  if (low > -0.03 * high && low < 0.6 * high) low = 0; // an interval may end just below
  if (low === high) return low ? { low: low - 0.1 * Math.abs(low), high: high + 0.1 * Math.abs(high) } : { low: 0, high: 1 };
  const room = 0.06 * (high - low);
  return { low: low === 0 ? 0 : low - room, high: high + room, isLogarithmic: false };
}
