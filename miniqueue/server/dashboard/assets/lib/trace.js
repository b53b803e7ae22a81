// The steps of a trace as a history: a delivery and its outcome are one entry, waits are entries in between.
//
//   published, committed, delivered, nacked, delivered, acknowledged
//   ──▶ published, committed, delivery 1 (nacked, held 2.1 s), wait 1.5 s, delivery 2 (acknowledged, held 5 ms)

const RETURNS = new Set(["nacked", "backed", "dacked", "timed_out", "disconnected"]);
const ENDS = new Set(["acknowledged", "rejected", "expired", "dropped", "purged", "missed", "dead_lettered"]);

const OUTCOMES = {
  nacked: "returned (NACK)",
  backed: "returned (BACK)",
  dacked: "returned (DACK)",
  timed_out: "lease expired",
  disconnected: "disconnected",
  acknowledged: "acknowledged",
  rejected: "rejected",
  expired: "expired",
  dropped: "dropped",
  purged: "purged",
  missed: "missed",
  dead_lettered: "dead-lettered",
};

/** Return {entries, held, firstMs, lastMs, heldMs, deliveries} of the steps that the API returns. */
export function historyOf(steps) {
  const entries = [];
  const open = new Map(); // the delivery of each group that has no outcome yet
  const returned = new Map(); // the last return of each group: when, and how
  let deliveries = 0;
  for (const step of steps) {
    const group = step.group ?? "";
    if (step.event === "delivered") {
      const before = returned.get(group);
      if (before) entries.push({ kind: "wait", ms: step.atMs - before.atMs, outcome: before.outcome });
      returned.delete(group);
      deliveries += 1;
      const entry = { kind: "delivery", atMs: step.atMs, number: deliveries, step, outcome: null, heldMs: null };
      open.set(group, entry);
      entries.push(entry);
      continue;
    }
    const delivery = open.get(group);
    const isOutcome = RETURNS.has(step.event) || ENDS.has(step.event);
    if (delivery && isOutcome) {
      delivery.outcome = OUTCOMES[step.event];
      delivery.event = step.event;
      delivery.reason = step.reason;
      delivery.heldMs = step.atMs - delivery.atMs;
      open.delete(group);
      if (RETURNS.has(step.event)) returned.set(group, { atMs: step.atMs, outcome: delivery.outcome });
      if (step.event !== "dead_lettered") continue;
    }
    entries.push({ kind: "step", atMs: step.atMs, step });
  }
  const times = steps.map((step) => step.atMs).filter((ms) => ms !== undefined);
  const held = entries.filter((entry) => entry.kind === "delivery" && entry.heldMs !== null);
  return {
    entries,
    deliveries,
    held: held.map((entry) => [entry.atMs, entry.atMs + entry.heldMs]),
    heldMs: covered(held.map((entry) => [entry.atMs, entry.atMs + entry.heldMs])),
    firstMs: Math.min(...times),
    lastMs: Math.max(...times),
  };
}

/** Return how long at least one of some spans lasts: groups hold a message at the same time. */
function covered(spans) {
  let sum = 0;
  let end = -Infinity;
  for (const [from, to] of [...spans].sort(([a], [b]) => a - b)) {
    sum += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return sum;
}
