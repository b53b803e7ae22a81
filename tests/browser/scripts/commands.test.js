import assert from "node:assert/strict";
import { test } from "node:test";

import { commandsOf, quoted } from "../../../miniqueue/server/dashboard/assets/lib/commands.js";

const HERE = { host: "localhost", respPort: 6379, respTls: false };
const MESSAGE = { id: "0-7", state: "ready" };

test("a broker on this machine with the usual port needs no flags", () => {
  assert.deepEqual(commandsOf("orders", MESSAGE, HERE), [
    "miniqueue trace orders 0-7",
    "redis-cli PEEK orders ID 0-7",
    "redis-cli TRACE orders 0-7",
  ]);
});

test("host, port and TLS are named if they are not the usual ones", () => {
  const lines = (broker) => commandsOf("a b", MESSAGE, { ...HERE, ...broker }).slice(0, 2);
  assert.deepEqual(lines({ host: "127.0.0.1", respPort: 7000 }), [
    "miniqueue trace 'a b' 0-7 --url redis://localhost:7000",
    "redis-cli -p 7000 PEEK 'a b' ID 0-7",
  ]);
  assert.deepEqual(lines({ respTls: true }), [
    "miniqueue trace 'a b' 0-7 --url rediss://localhost:6379",
    "redis-cli --tls PEEK 'a b' ID 0-7",
  ]);
  assert.deepEqual(lines({ host: "queue.example", respPort: 7000, respTls: true }), [
    "miniqueue trace 'a b' 0-7 --url rediss://queue.example:7000",
    "redis-cli -h queue.example -p 7000 --tls PEEK 'a b' ID 0-7",
  ]);
  assert.deepEqual(lines({ host: "[2001:db8::1]" }), [
    "miniqueue trace 'a b' 0-7 --url redis://[2001:db8::1]:6379",
    "redis-cli -h 2001:db8::1 PEEK 'a b' ID 0-7",
  ]);
});

test("dead letters have a redrive, delayed messages can be made due", () => {
  const last = (message) => commandsOf("t", { ...MESSAGE, ...message }, HERE).at(-1);
  assert.equal(last({ origin: { topic: "orders" } }), "redis-cli MESSAGE REDRIVE t 0-7");
  assert.equal(last({ state: "delayed" }), "redis-cli MESSAGE DUE t 0-7");
});

test("words are quoted for a shell", () => {
  assert.equal(quoted("orders-1.a:b"), "orders-1.a:b");
  assert.equal(quoted("it's"), "'it'\\''s'");
});
