import assert from "node:assert/strict";
import { test } from "node:test";

import { base64Of, bytesOf, headOf, hexLines,
  textOf } from "../../../miniqueue/server/dashboard/assets/lib/payload.js";
import {
  padded,
  scaleTo,
  sentence,
  spanOf,
  sparkline,
  timesOf,
} from "../../../miniqueue/server/dashboard/assets/lib/series.js";
import { settingText, settingValue } from "../../../miniqueue/server/dashboard/assets/lib/setting_values.js";
import { inOrderOf, nextSort, parseSort, sorted } from "../../../miniqueue/server/dashboard/assets/lib/sorting.js";

test("payloads: base64, UTF-8, and hex", () => {
  const all = Uint8Array.from({ length: 256 }, (_, at) => at);
  assert.deepEqual(bytesOf(base64Of(all)), all);
  assert.equal(textOf(new TextEncoder().encode("{é}\n")), "{é}\n");
  assert.equal(textOf(Uint8Array.of(0xff, 0xfe)), null);
  assert.equal(textOf(Uint8Array.of(0x61, 0x00)), null);
  assert.deepEqual(hexLines(new TextEncoder().encode('{"order":1}\n12345'), 99), [
    ["0000", "7b 22 6f 72 64 65 72 22  3a 31 7d 0a 31 32 33 34".padEnd(48), '{"order":1}.1234'],
    ["0010", "35".padEnd(48), "5"],
  ]);
  assert.deepEqual(hexLines(new Uint8Array(0), 10), []);
  const euros = new TextEncoder().encode("a€€");
  assert.deepEqual(
    [1, 2, 3, 4, 5, 99].map((max) => headOf(euros, max)),
    ["a", "a", "a", "a€", "a€", "a€€"],
  );
});

test("values of settings", () => {
  assert.equal(settingText([1, 5, 30]), "1, 5, 30");
  assert.equal(settingText(null), "");
  assert.equal(settingText({ a: 1 }), '{"a":1}');
  assert.deepEqual(settingValue("list", "1, 5m, 30"), [1, "5m", 30]);
  assert.equal(settingValue("number", " 5 "), 5);
  assert.equal(settingValue("number", "1h30m"), "1h30m");
  assert.equal(settingValue("flag", "false"), false);
  assert.equal(settingValue("text", ""), null);
  assert.deepEqual(settingValue("json", '{"a":[1]}'), { a: [1] });
  assert.throws(() => settingValue("json", "{"), /must be a JSON object/);
});

test("tables: unknown values are last in either direction", () => {
  const rows = [{ n: 2 }, { n: null }, { n: 3 }];
  assert.deepEqual(
    sorted(rows, parseSort("n")).map(({ n }) => n),
    [2, 3, null],
  );
  assert.deepEqual(
    sorted(rows, parseSort("-n")).map(({ n }) => n),
    [3, 2, null],
  );
  assert.equal(nextSort(parseSort("-n"), "n", true), "n");
  assert.equal(nextSort(parseSort("a"), "n", true), "-n");
  assert.equal(nextSort(parseSort("a"), "a", false), "-a");
});

test("tables: rows keep their order, and new ones are last", () => {
  assert.deepEqual(
    inOrderOf(["b", "x", "a"], ["a", "b", "c"], (row) => row),
    ["b", "a", "c"],
  );
});

test("charts: scales, times, gaps, sentences", () => {
  assert.deepEqual([0, 3, 684, 51406, 0.2].map(scaleTo), [4, 4, 800, 60_000, 0.2]);
  assert.deepEqual(timesOf({ firstMs: 1000, stepSeconds: 20, series: { a: [1, 2], b: [1] } }), [1, 21]);
  assert.equal(sparkline([1, 2, null, 3, 4]).length, 2);
  assert.deepEqual(sparkline([null, 1]), []);
  assert.equal(sentence("Ready", [null, 5, 9, 7], String), "Ready begins at 5, ends at 7, lowest 5, highest 9.");
  assert.equal(sentence("Ready", [4, 4], String), "Ready stays at 4.");
  assert.equal(sentence("Ready", [null], String), "Ready: no history yet.");
});

test("small lines cover the whole range, also if the history is short", () => {
  assert.deepEqual(padded([1, 2], 4), [null, null, 1, 2]);
  assert.deepEqual(padded([1, 2, 3], 2), [2, 3]);
});

test("charts: one without history ends now, and not in 1970", () => {
  assert.deepEqual(spanOf(undefined, 900, 5000), [4100, 5000]);
  assert.deepEqual(spanOf(null, 900, 5000), [4100, 5000]);
  assert.deepEqual(spanOf(4800, 900, 5000), [3900, 4800]);
});
