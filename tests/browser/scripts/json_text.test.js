import assert from "node:assert/strict";
import { test } from "node:test";

import { isShort, jsonTree } from "../../../miniqueue/server/dashboard/assets/lib/json_text.js";

/** The text of a tree without white space, from its keys and scalars alone. */
function rebuilt(node) {
  if (!node.items) return node.text;
  const items = node.items.map(({ key, node: child }) => (key === null ? "" : `${key}:`) + rebuilt(child)).join(",");
  return node.type === "object" ? `{${items}}` : `[${items}]`;
}

test("numbers, the order of keys, and repeated keys stay as they are", () => {
  const text = '{"b":248480010225057793,"a":1.50,"b":-0,"c":1E+2}';
  assert.equal(rebuilt(jsonTree(text)), text);
});

test("white space and escapes", () => {
  const tree = jsonTree(' { "a\\"\\u00e9" : [ true , null , "x\\ny" ] } \n');
  assert.equal(rebuilt(tree), '{"a\\"\\u00e9":[true,null,"x\\ny"]}');
});

test("agrees with JSON.parse about what is JSON", () => {
  const texts = [
    "",
    "{",
    "[1,]",
    "{a:1}",
    "01",
    "1.",
    "tru",
    "'a'",
    '"\t"',
    "[1 2]",
    "{} x",
    '{"a"}',
    "null",
    "[]",
    "{}",
    '"\\x"',
    "-",
    "--1",
    "[[[]]]",
    '{"a":{"b":[]}}',
    "1e5",
    "\ufeff{}",
  ];
  for (const text of texts) {
    let isJson = true;
    try {
      JSON.parse(text);
    } catch {
      isJson = false;
    }
    assert.equal(jsonTree(text) !== null, isJson, text);
  }
});

test("nesting beyond the limit is not shown as a tree", () => {
  assert.equal(jsonTree("[".repeat(101) + "]".repeat(101)), null);
  assert.equal(jsonTree("[".repeat(100_000)), null);
  assert.notEqual(jsonTree("[".repeat(100) + "]".repeat(100)), null);
});

test("short containers without others in them are on one line", () => {
  const [short, nested, long] = ['{"a":1,"b":[]}', '{"a":{"b":1}}', JSON.stringify({ text: "x".repeat(80) })].map(
    jsonTree,
  );
  assert.deepEqual([short, nested, long].map(isShort), [true, false, false]);
});
