import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../miniqueue/server/dashboard/assets/lib/format.js";

const eachOf = (rows, text) =>
  rows.forEach(([value, expected]) => assert.equal(text(value), expected, String(value)));

test("counts are exact below 10 million, then three digits", () => {
  eachOf(
    [
      [0, "0"],
      [999, "999"],
      [1000, "1,000"],
      [51406, "51,406"],
      [9_999_999, "9,999,999"],
      [10_000_000, "10.0 M"],
      [2_411_873_204, "2.41 G"],
      [999_700_000, "1.00 G"],
      [null, "–"],
      [undefined, "–"],
    ],
    format.count,
  );
});

test("rates have one decimal below 10", () => {
  eachOf(
    [
      [0, "0"],
      [0.05, "< 0.1"],
      [0.1, "0.1"],
      [2.14, "2.1"],
      [2, "2"],
      [9.94, "9.9"],
      [9.96, "10"],
      [684.3, "684"],
      [null, "–"],
    ],
    format.rate,
  );
});

test("sizes are binary", () => {
  eachOf(
    [
      [0, "0 B"],
      [250, "250 B"],
      [1023, "1023 B"],
      [1024, "1 KiB"],
      [2150, "2.1 KiB"],
      [61 * 2 ** 30, "61 GiB"],
      [1_048_575, "1 MiB"],
      [null, "–"],
    ],
    format.bytes,
  );
});

test("ages have a second unit only if the first is under 10", () => {
  eachOf(
    [
      [0, "0 ms"],
      [0.64, "640 ms"],
      [2.14, "2.1 s"],
      [32.4, "32 s"],
      [59.6, "1 min"],
      [288, "4 min 48 s"],
      [600, "10 min"],
      [1920, "32 min"],
      [3599, "59 min"],
      [8040, "2 h 14 min"],
      [7200, "2 h"],
      [36_000, "10 h"],
      [12 * 86400, "12 d"],
      [2 * 86400 + 3600, "2 d 1 h"],
      [-5, "0 ms"],
      [null, "–"],
    ],
    format.age,
  );
});

test("durations of traces have three digits", () => {
  eachOf(
    [
      [2, "2 ms"],
      [820, "820 ms"],
      [1560, "1.56 s"],
      [30_500, "30.5 s"],
      [60_500, "60.5 s"],
      [107_000, "1 min 47 s"],
      [null, "–"],
    ],
    format.span,
  );
});

test("times are short today, longer this year, and whole otherwise", () => {
  const now = Date.UTC(2026, 2, 17, 14, 32, 7, 404);
  assert.equal(format.time(now - 60_000, now, "utc"), "14:31:07");
  assert.equal(format.time(Date.UTC(2026, 0, 5, 9, 3), now, "utc"), "5 Jan 09:03");
  assert.equal(format.time(Date.UTC(2025, 10, 3, 14, 32), now, "utc"), "2025-11-03 14:32");
  assert.equal(format.clockMs(now, "utc"), "14:32:07.404");
  assert.equal(format.iso(now, "utc"), "2026-03-17T14:32:07.404Z");
  assert.equal(new Date(format.iso(now, "local")).getTime(), now);
});

test("the age of an unknown time is unknown", () => {
  assert.equal(format.secondsSince(null, 5), null);
  assert.equal(format.secondsSince(1000, 4000), 3);
  assert.equal(format.secondsSince(5000, 4000), 0);
});
