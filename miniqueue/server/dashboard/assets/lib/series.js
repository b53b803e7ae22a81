// The history of measures as charts need it, and as a sentence for people who cannot see the lines.

import { isKnown } from "./format.js";

/** Return the x values, in seconds since 1970, of a history of the broker. */
export function timesOf(history) {
  const length = Math.max(0, ...Object.values(history.series).map((values) => values.length));
  return Array.from({ length }, (_, at) => (history.firstMs + at * history.stepSeconds * 1000) / 1000);
}

/** Return a sentence: the first, last, lowest, and highest values of a line. */
export function sentence(label, values, format) {
  const known = values.filter(isKnown);
  if (known.length === 0) return `${label}: no history yet.`;
  const [first, last] = [known[0], known[known.length - 1]];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (low === high) return `${label} stays at ${format(last)}.`;
  const [begin, end, lowest, highest] = [first, last, low, high].map(format);
  return `${label} begins at ${begin}, ends at ${end}, lowest ${lowest}, highest ${highest}.`;
}

/** Ranges of charts, in seconds. */
export const RANGE_SECONDS = { "15m": 900, "1h": 3600, "24h": 86_400 };

/** Return the first and the last second of a chart: it ends with its history, or now if there is none yet. */
export function spanOf(lastSeconds, rangeSeconds, nowSeconds) {
  const end = lastSeconds ?? nowSeconds;
  return [end - rangeSeconds, end];
}

/** Return the values of a whole range, unknown ones first: a line begins where the history does. */
export function padded(values, length) {
  return [...Array(Math.max(0, length - values.length)).fill(null), ...values.slice(-length)];
}

/** Return the points of a small line in a box of 100 by 24, from 0; gaps split it: one string per part. */
export function sparkline(values) {
  const known = values.filter(isKnown);
  if (known.length < 2) return [];
  const high = Math.max(...known, 1e-9);
  const parts = [[]];
  values.forEach((value, at) => {
    if (!isKnown(value)) {
      if (parts[parts.length - 1].length) parts.push([]);
      return;
    }
    const x = (100 * at) / Math.max(1, values.length - 1);
    parts[parts.length - 1].push(`${x.toFixed(1)},${(23 - (21 * value) / high).toFixed(1)}`);
  });
  return parts.filter((part) => part.length > 1).map((part) => part.join(" "));
}

/** Return a rounded scale from 0 that contains a value, with 4 steps. */
export function scaleTo(value) {
  if (!(value > 0) || (value >= 1 && value <= 4)) return 4; // steps of whole messages
  const step = value / 4;
  const magnitude = 10 ** Math.floor(Math.log10(step));
  const nice = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((factor) => factor * magnitude >= step * 0.9999);
  return nice * magnitude * 4;
}
