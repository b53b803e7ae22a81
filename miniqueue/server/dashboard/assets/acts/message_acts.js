// Acts on one message, by its id: redrive, delete, move to the front, make due now.

import { act } from "../lib/api.js";
import { html } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { say } from "../parts/toast.js";

const ACTS = {
  redrive: {
    title: "Redrive the dead letter?",
    verb: "Redrive",
    text: () => "It returns to the end of the topic that it came from, for the group that dead-lettered it.",
    done: (id) => `${id} was moved back to its topic.`,
  },
  front: {
    title: "Move the message to the front?",
    verb: "Move to the front",
    text: () => "It is delivered next, before all other messages of the group. Its counts stay.",
    done: (id) => `${id} is at the front.`,
  },
  due: {
    title: "Make the message due now?",
    verb: "Make due now",
    text: () => "It becomes ready now instead of at its time.",
    done: (id) => `${id} is due.`,
  },
};

/** Ask before an act on a message. */
export function MessageAct({ name, topic, id, group, onEnd }) {
  const { title, verb, text, done } = ACTS[name];
  const run = () => act("POST", ["topics", topic, "messages", id, name], { group });
  const end = () => {
    say(done(id));
    onEnd?.();
  };
  return html`<${Ask} title=${title} verb=${verb} run=${run} onDone=${end}>
    <p class="s2">Message <code>${id}</code> of <b><${Name}>${topic}<//></b>. ${text()}</p><//>`;
}

/** Ask before a message is deleted. */
export function DeleteMessage({ topic, id, onEnd }) {
  const run = () => act("DELETE", ["topics", topic, "messages", id]);
  const end = () => {
    say(`${id} was deleted.`);
    onEnd?.();
  };
  return html`<${Ask} title="Delete the message?" verb="Delete message" isDanger=${true} run=${run} onDone=${end}>
    <p class="s2">Message <code>${id}</code> of <b>
      <${Name}>${topic}<//></b> is removed in every group. This cannot be undone.</p><//>`;
}
