import assert from "node:assert/strict";
import { test } from "node:test";

import {
  keepPage,
  listOf,
  listUrl,
  listView,
  messageUrl,
  neighborsOf,
  pageBefore,
  pageOf,
} from "../../../miniqueue/server/dashboard/assets/lib/message_list.js";
import { parseRoute } from "../../../miniqueue/server/dashboard/assets/lib/routes.js";

const parsed = (url) => {
  const { pathname, search } = new URL(url, "http://localhost");
  return parseRoute(pathname, search);
};
const pageWith = (ids, next = null) => ({ messages: ids.map((id) => ({ id })), next });

test("the URL of a message names its list, which has a URL of its own", () => {
  const query = { state: "dead", reason: "a&b", after: "0-4" };
  for (const place of ["orders.dlq", "..", "a/b?", "orders"]) {
    const { topic, id, query: shown } = parsed(messageUrl("orders", query, "0-7", place));
    assert.deepEqual([topic, id], [place, "0-7"]);
    assert.deepEqual(listOf(topic, shown), { topic: "orders", query });
  }
  const { view, topic, tab, query: shown } = parsed(listUrl("orders", query));
  assert.deepEqual([view, topic, tab, shown], ["topic", "orders", "messages", query]);
});

test("ready messages are the default, which is not in the URL of a list", () => {
  assert.equal(listUrl("orders", { state: "ready" }), "/ui/topics/orders/messages");
  assert.equal(messageUrl("orders", { state: "ready" }, "0-1"), "/ui/topics/orders/messages/0-1?state=ready");
});

test("a message that was reached by its id is of no list", () => {
  assert.equal(listOf("orders", { as: "hex", group: "mail" }), null);
});

test("a message has the neighbors of its page", () => {
  const page = pageWith(["0-1", "0-2", "0-3"]);
  assert.deepEqual(neighborsOf(page, "0-1"), { previous: null, next: "0-2", isLast: false });
  assert.deepEqual(neighborsOf(page, "0-3"), { previous: "0-2", next: null, isLast: true });
  assert.deepEqual(neighborsOf(page, "0-9"), { previous: null, next: null, isLast: false });
  assert.deepEqual(neighborsOf(null, "0-1"), { previous: null, next: null, isLast: false });
});

test("the page before is known if it was shown with the same conditions", () => {
  const shown = { state: "ready", key: "k" };
  keepPage(listView("orders", shown, 50), "", pageWith(["0-1", "0-2"], "0-2"));
  keepPage(listView("orders", { state: "ready" }, 50), "", pageWith(["0-1", "0-8"], "0-8"));
  assert.deepEqual(pageBefore("orders", { ...shown, after: "0-2" }, 50), { after: undefined, id: "0-2" });
  assert.equal(pageBefore("orders", { state: "ready", after: "0-2" }, 50), null);
  assert.equal(pageBefore("mails", { ...shown, after: "0-2" }, 50), null);
  assert.equal(pageBefore("orders", { ...shown, after: "0-2" }, 100), null);
});

test("a limited number of pages is kept, those that were shown last", () => {
  for (let number = 0; number < 30; number += 1) keepPage(`view ${number}`, "", pageWith([`0-${number}`]));
  assert.equal(pageOf("view 0"), null);
  assert.equal(pageOf("view 29").messages[0].id, "0-29");
});
