// Numbers, sizes, ages, and times as text. Unknown values are "–", never 0. No function here reads a clock.

export const UNKNOWN = "–";
/** The end of a pause that lasts until it is resumed, in ms since 1970. */
export const FOREVER_MS = 253402300799999;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS = 86_400_000;

/** Whether a figure is known. */
export const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** Group the digits of a whole number: 51,406. */
export function exact(value) {
  return !isKnown(value) ? UNKNOWN : String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The first count that is not shown exactly. */
export const FIRST_ROUNDED = 1e7;

/** A count: exact up to 10 million, then three digits and a unit: 2.41 G. */
export function count(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (Math.abs(value) < FIRST_ROUNDED) return exact(value);
  const [unit, size] = Math.abs(value) >= 999.5e9 ? ["T", 1e12] : Math.abs(value) >= 999.5e6 ? ["G", 1e9]
    : ["M", 1e6];
  return `${threeDigits(value / size)} ${unit}`;
}

/** A rate per second: one decimal below 10. */
export function rate(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0) return "0";
  if (value < 0.1) return "< 0.1";
  return value < 9.95 ? String(Number(value.toFixed(1))) : exact(value);
}

/** A size in binary units: 2.1 KiB. */
export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  let size = value;
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (size >= 1023.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 9.95 ? Number(size.toFixed(1)) : Math.round(size)} ${units[unit]}`;
}

/** The parts of an age, as pairs of number and unit: [["4", "min"], ["48", "s"]]. */
export function ageParts(seconds) {
  if (!isKnown(seconds)) return [[UNKNOWN, ""]];
  const value = Math.max(0, seconds);
  if (value < 0.9995) return [[String(Math.round(value * 1000)), "ms"]];
  if (value < 9.95) return [[String(Number(value.toFixed(1))), "s"]];
  if (value < 59.5) return [[String(Math.round(value)), "s"]];
  const whole = Math.round(value);
  for (const [unit, size, smaller, smallerSize] of [
    ["min", 60, "s", 1],
    ["h", 3600, "min", 60],
    ["d", 86400, "h", 3600],
  ]) {
    const first = Math.floor(whole / size);
    if (first >= (unit === "min" ? 60 : unit === "h" ? 24 : Infinity)) continue;
    const second = Math.floor((whole - first * size) / smallerSize);
    return first < 10 && second
      ? [
          [String(first), unit],
          [String(second), smaller],
        ]
      : [[exact(first), unit]];
  }
  return [[UNKNOWN, ""]];
}

/** An age: a second unit only if the first is under 10, as in 4 min 48 s. */
export function age(seconds) {
  return ageParts(seconds)
    .map(([number, unit]) => (unit ? `${number} ${unit}` : number))
    .join(" ");
}

/** The age of a time, in seconds; null if the time is unknown. */
export const secondsSince = (ms, nowMs) => (!isKnown(ms) ? null : Math.max(0, (nowMs - ms) / 1000));

/** A duration in a trace, with three digits: 60.5 s; from 100 s on as an age. */
export function span(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return ms < 99_950 ? `${threeDigits(ms / 1000)} s` : age(ms / 1000);
}

function threeDigits(value) {
  return Number(value).toPrecision(3);
}

const two = (value) => String(value).padStart(2, "0");

function fields(ms, zone) {
  const date = new Date(ms);
  const [year, month, day, hour, minute, second] =
    zone === "utc"
      ? [
          date.getUTCFullYear(),
          date.getUTCMonth(),
          date.getUTCDate(),
          date.getUTCHours(),
          date.getUTCMinutes(),
          date.getUTCSeconds(),
        ]
      : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  return { year, month, day, hour, minute, second, ms: ((ms % 1000) + 1000) % 1000 };
}

/** The time of day: 14:32:07. */
export function clock(ms, zone) {
  if (!isKnown(ms)) return UNKNOWN;
  const at = fields(ms, zone);
  return `${two(at.hour)}:${two(at.minute)}:${two(at.second)}`;
}

/** The time of day without seconds, as on axes: 14:32. */
export function minuteOfDay(ms, zone) {
  return clock(ms, zone).slice(0, 5);
}

/** The time of day with milliseconds, as in traces: 14:27:19.404. */
export function clockMs(ms, zone) {
  return !isKnown(ms) ? UNKNOWN : `${clock(ms, zone)}.${String(Math.floor(fields(ms, zone).ms)).padStart(3, "0")}`;
}

/** A time as it is read beside now: 14:32:07, 17 Mar 14:32, or 2025-11-03 14:32. */
export function time(ms, nowMs, zone) {
  if (!isKnown(ms)) return UNKNOWN;
  const at = fields(ms, zone);
  const now = fields(nowMs, zone);
  if (at.year === now.year && at.month === now.month && at.day === now.day) return clock(ms, zone);
  const minutes = `${two(at.hour)}:${two(at.minute)}`;
  if (at.year === now.year && Math.abs(ms - nowMs) < 366 * DAY_MS) return `${at.day} ${MONTHS[at.month]} ${minutes}`;
  return `${at.year}-${two(at.month + 1)}-${two(at.day)} ${minutes}`;
}

/** A time as it is copied, with its zone: 2026-03-17T14:27:19.404Z. */
export function iso(ms, zone) {
  if (!isKnown(ms)) return UNKNOWN;
  if (zone === "utc") return new Date(ms).toISOString();
  const at = fields(ms, zone);
  const offset = -new Date(ms).getTimezoneOffset();
  const sign = offset < 0 ? "-" : "+";
  const date = `${at.year}-${two(at.month + 1)}-${two(at.day)}T${clockMs(ms, zone)}`;
  return `${date}${sign}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
}

/** A number and its noun: 1 message, 2 messages. */
export function plural(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}
