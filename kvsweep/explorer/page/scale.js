// Axes: from values to pixels, and where ticks are.

const ROUND_STEPS = [1, 2, 2.5, 5, 10];

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

// Where curves of some values are drawn: from 0 if they are not far from it; by ratios if they
// are far from each other.
export function extent(values, wanted = []) {
  const known = values.concat(wanted).filter((value) => value !== null);
  if (!known.length) return { low: 0, high: 1, isLogarithmic: false };
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (low > 0 && high / low > 200) return { low: low / 1.2, high: high * 1.2, isLogarithmic: true };
  if (low > -0.03 * high && low < 0.6 * high) low = 0; // an interval may end just below
  if (low === high) return low ? { low: low - 0.1 * Math.abs(low), high: high + 0.1 * Math.abs(high) } : { low: 0, high: 1 };
  const room = 0.06 * (high - low);
  return { low: low === 0 ? 0 : low - room, high: high + room, isLogarithmic: false };
}
