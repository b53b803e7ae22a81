import assert from "node:assert/strict";
import { test } from "node:test";

import { historyOf } from "../../../miniqueue/server/dashboard/assets/lib/trace.js";

const step = (event, atMs, more = {}) => ({ event, atMs, topic: "orders", id: "0-1", ...more });

test("a delivery and its outcome are one entry, and waits stand in between", () => {
  const history = historyOf([
    step("published", 0),
    step("committed", 2),
    step("delivered", 10, { group: "g" }),
    step("nacked", 2010, { group: "g", reason: "busy" }),
    step("delivered", 3010, { group: "g" }),
    step("acknowledged", 3020, { group: "g" }),
  ]);
  assert.deepEqual(
    history.entries.map(({ kind }) => kind),
    ["step", "step", "delivery", "wait", "delivery"],
  );
  const [, , first, wait, second] = history.entries;
  assert.deepEqual([first.outcome, first.heldMs, first.reason], ["returned (NACK)", 2000, "busy"]);
  assert.deepEqual([wait.ms, second.outcome, history.heldMs, history.deliveries], [1000, "acknowledged", 2010, 2]);
  assert.deepEqual([history.firstMs, history.lastMs], [0, 3020]);
});

test("groups that hold a message at the same time count once", () => {
  const history = historyOf([
    step("delivered", 0, { group: "a" }),
    step("delivered", 2, { group: "b" }),
    step("acknowledged", 5, { group: "b" }),
    step("acknowledged", 9, { group: "a" }),
  ]);
  assert.equal(history.heldMs, 9);
});

test("groups do not mix", () => {
  const history = historyOf([
    step("delivered", 0, { group: "a" }),
    step("delivered", 1, { group: "b" }),
    step("acknowledged", 5, { group: "b" }),
    step("nacked", 9, { group: "a" }),
  ]);
  assert.deepEqual(
    history.entries.map(({ outcome }) => outcome),
    ["returned (NACK)", "acknowledged"],
  );
});

test("the end in the dead letters is shown by itself, with its destination", () => {
  const to = { topic: "orders.dlq", id: "0-7" };
  const history = historyOf([
    step("delivered", 0, { group: "g" }),
    step("dead_lettered", 4, { group: "g", reason: "max_deliveries", to }),
  ]);
  assert.equal(history.entries[0].outcome, "dead-lettered");
  assert.deepEqual(history.entries[1].step.to, to);
});

test("a message that is still leased has no outcome", () => {
  assert.equal(historyOf([step("delivered", 0)]).entries[0].outcome, null);
});
