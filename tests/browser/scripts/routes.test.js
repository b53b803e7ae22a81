import assert from "node:assert/strict";
import { test } from "node:test";

import {
  apiUrl,
  parseRoute,
  safeNext,
  TABS,
  topicUrl,
  viewUrl,
} from "../../../miniqueue/server/dashboard/assets/lib/routes.js";

const NAMES = [
  "orders",
  ".",
  "..",
  "?",
  "#",
  "%",
  "a/b",
  "a b",
  "مرحبا",
  "n".repeat(255),
  "%2e",
  "<img src=x>",
  "&=+",
  "\\",
  "...",
];

const parsed = (url) => {
  const { pathname, search } = new URL(url, "http://localhost");
  return parseRoute(pathname, search);
};

test("every name leads to its topic, after the browser has normalized the URL", () => {
  for (const name of NAMES) {
    for (const tab of TABS) {
      const { view, topic, tab: shown } = parsed(topicUrl(name, tab));
      assert.deepEqual([view, topic, shown], ["topic", name, tab]);
    }
    const route = parsed(topicUrl(name, "messages", { as: "hex" }, "0.high-17"));
    assert.deepEqual([route.view, route.topic, route.id, route.query], ["message", name, "0.high-17", { as: "hex" }]);
  }
});

test("every name reaches the API, after the browser has normalized the URL", () => {
  for (const name of NAMES) {
    const { pathname, searchParams } = new URL(
      apiUrl(["topics", name, "messages"], { state: "dead" }),
      "http://localhost",
    );
    const isInQuery = pathname === "/ui/api";
    const path = isInQuery ? searchParams.get("path").split("?")[0] : pathname.slice("/ui/api".length);
    assert.equal(isInQuery, name === "." || name === "..");
    assert.equal(decodeURIComponent(path.split("/")[2]), name);
    assert.equal(path.split("/")[3], "messages");
  }
});

test("views without a topic", () => {
  for (const view of ["overview", "topics", "dead", "schedules", "consumers", "broker"])
    assert.equal(parsed(viewUrl(view)).view, view);
  assert.deepEqual(parsed(viewUrl("topics", { q: "a b", page: null, state: "" })).query, { q: "a b" });
});

test("other paths are no views", () => {
  for (const path of [
    "/ui/nope",
    "/ui/topics/a/nope",
    "/ui/topics/a/groups/b",
    "/ui/topics/a/messages/1/2",
    "/ui/topics/%ff",
    "/ui/topic",
  ])
    assert.equal(parsed(path).view, "unknown", path);
});

test("a sign-in leads only to the page itself", () => {
  for (const next of ["/ui/topics", "/ui/?range=1h", "/ui", "/ui?x=1"]) assert.equal(safeNext(next), next);
  for (const next of [
    "//evil",
    "/ui//evil",
    "https://evil",
    "/uix",
    "/other",
    "/ui\\evil",
    "/ui/\\evil",
    undefined,
    "javascript:alert(1)",
  ])
    assert.equal(safeNext(next), "/ui/");
});
