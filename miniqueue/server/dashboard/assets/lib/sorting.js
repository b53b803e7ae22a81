// The order of small tables that are in memory; large ones are sorted by the broker.

import { isKnown } from "./format.js";

/** Return `{key, isDescending}` of a sort as it is in the URL: "-ready" is descending. */
export function parseSort(text, fallback) {
  const sort = text || fallback;
  return sort.startsWith("-") ? { key: sort.slice(1), isDescending: true } : { key: sort, isDescending: false };
}

/** Return the next sort after a click on the head of a column: first as it is best read, then reversed. */
export function nextSort(current, key, isNumber) {
  const { key: now, isDescending } = current;
  if (now !== key) return isNumber ? `-${key}` : key;
  return isDescending ? key : `-${key}`;
}

/** Return rows in the order of a column; unknown values are last in either direction. */
export function sorted(rows, { key, isDescending }, valueOf = (row) => row[key]) {
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [valueOf(a), valueOf(b)];
    const [isLeft, isRight] = [isKnown(left), isKnown(right)];
    if (!isLeft || !isRight) return Number(isRight) - Number(isLeft);
    return sign * (typeof left === "string" ? left.localeCompare(right, "en") : left - right);
  });
}

/** Return new rows in the order of the old ones, by name; rows that are new come last. */
export function inOrderOf(names, rows, nameOf) {
  const byName = new Map(rows.map((row) => [nameOf(row), row]));
  const kept = names.filter((name) => byName.has(name)).map((name) => byName.get(name));
  const known = new Set(names);
  return [...kept, ...rows.filter((row) => !known.has(nameOf(row)))];
}
