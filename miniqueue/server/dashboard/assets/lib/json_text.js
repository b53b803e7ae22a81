// JSON as a tree of its own text: numbers, the order of keys, and repeated keys stay as they were published.
// JSON.parse would turn 248480010225057793 into ...7800.
//
//   {"a":[1,2]}  ──▶  {type: "object", items: [{key: '"a"', node: {type: "array", items: […]}}], text: '{"a":[1,2]}'}

const MAX_DEPTH = 100;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;

/** Return the tree of a JSON text, or null if the text is not JSON or nested too deeply. */
export function jsonTree(text) {
  const reader = { text, at: 0 };
  try {
    const node = readValue(reader, 0);
    skip(reader, SPACE);
    return reader.at === text.length ? node : null;
  } catch (error) {
    if (error instanceof NotJson || error instanceof RangeError) return null;
    throw error;
  }
}

class NotJson extends Error {}

function readValue(reader, depth) {
  skip(reader, SPACE);
  const start = reader.at;
  const first = reader.text[start];
  let node;
  if (first === "{" || first === "[") {
    if (depth >= MAX_DEPTH) throw new NotJson();
    node = { type: first === "{" ? "object" : "array", items: readItems(reader, first, depth) };
  } else if (skip(reader, STRING)) node = { type: "string" };
  else if (skip(reader, NUMBER)) node = { type: "number" };
  else if (skip(reader, LITERAL)) node = { type: "literal" };
  else throw new NotJson();
  node.text = reader.text.slice(start, reader.at);
  return node;
}

function readItems(reader, opening, depth) {
  const closing = opening === "{" ? "}" : "]";
  const items = [];
  reader.at += 1;
  skip(reader, SPACE);
  if (reader.text[reader.at] === closing) {
    reader.at += 1;
    return items;
  }
  for (;;) {
    let key = null;
    if (opening === "{") {
      skip(reader, SPACE);
      const start = reader.at;
      if (!skip(reader, STRING)) throw new NotJson();
      key = reader.text.slice(start, reader.at);
      skip(reader, SPACE);
      expect(reader, ":");
    }
    items.push({ key, node: readValue(reader, depth + 1) });
    skip(reader, SPACE);
    if (reader.text[reader.at] === closing) {
      reader.at += 1;
      return items;
    }
    expect(reader, ",");
  }
}

function skip(reader, pattern) {
  pattern.lastIndex = reader.at;
  const match = pattern.exec(reader.text);
  if (!match) return false;
  reader.at += match[0].length;
  return true;
}

function expect(reader, character) {
  if (reader.text[reader.at] !== character) throw new NotJson();
  reader.at += 1;
}

/** Whether a container is short and flat enough to be shown on one line. */
export function isShort(node) {
  return node.text.length <= 72 && node.items.every((item) => !item.node.items || item.node.items.length === 0);
}
