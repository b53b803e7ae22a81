import assert from "node:assert/strict";
import { test } from "node:test";

import { matches, rightsOn } from "../../../miniqueue/server/dashboard/assets/lib/rights.js";

test("patterns", () => {
  const rows = [
    ["orders", "orders", true],
    ["orders", "orders2", false],
    ["*", "", true],
    ["orders.*", "orders.eu", true],
    ["orders.*", "orders", false],
    ["*.dlq", "a.dlq", true],
    ["a*b*c", "aXbYc", true],
    ["a*b*c", "abc", true],
    ["a*bc", "abXbc", true],
    ["a*a", "a", false],
    ["*b*b*", "ab", false],
  ];
  for (const [pattern, topic, expected] of rows) assert.equal(matches(pattern, topic), expected,
    `${pattern} ${topic}`);
});

test("without users, every client has all rights", () => {
  const open = { user: null, signedIn: true, needsSignIn: false };
  assert.deepEqual([...rightsOn(open, "t")], ["publish", "consume", "monitor", "admin"]);
});

test("rights on a topic, and on the whole broker", () => {
  const ada = {
    user: "ada",
    signedIn: true,
    roles: [
      { role: "admin", topics: ["orders.*"] },
      { role: "monitor", topics: ["*"] },
    ],
  };
  assert.ok(rightsOn(ada, "orders.eu").has("admin"));
  assert.deepEqual([...rightsOn(ada, "mails")], ["monitor"]);
  assert.deepEqual([...rightsOn(ada, null)], ["monitor"]);
  assert.deepEqual([...rightsOn(null, "t")], []);
});
