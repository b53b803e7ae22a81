// Which rights a user has: the broker decides; this only keeps buttons away that would be refused.

const ROLE_RIGHTS = {
  publisher: ["publish"],
  subscriber: ["consume"],
  monitor: ["monitor"],
  admin: ["publish", "consume", "monitor", "admin"],
};

/** The role that a view or an act requires, by its right. */
export const ROLE_OF = { publish: "publisher", consume: "subscriber", monitor: "monitor", admin: "admin" };

/** Whether a pattern with * for any characters matches a topic. */
export function matches(pattern, topic) {
  const parts = pattern.split("*");
  if (parts.length === 1) return pattern === topic;
  const last = parts.pop();
  const first = parts.shift();
  if (topic.length < first.length + last.length || !topic.startsWith(first) || !topic.endsWith(last)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = topic.indexOf(part, at);
    if (found < 0 || found + part.length > topic.length - last.length) return false;
    at = found + part.length;
  }
  return true;
}

/** Return the rights of a session on a topic; on the whole broker if the topic is null. */
export function rightsOn(session, topic) {
  if (!session) return new Set();
  if (!session.needsSignIn && !session.user) return new Set(ROLE_RIGHTS.admin);
  const roles = (session.roles ?? []).filter(({ topics }) =>
    topics.some((pattern) => (topic === null ? pattern === "*" : matches(pattern, topic))),
  );
  return new Set(roles.flatMap(({ role }) => ROLE_RIGHTS[role] ?? []));
}

/** Return the roles in words: admin of orders.*, monitor of *. */
export function rolesText(session) {
  return (session?.roles ?? []).map(({ role, topics }) => `${role} of ${topics.join(", ")}`).join(", ");
}
