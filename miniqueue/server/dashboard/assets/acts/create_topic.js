// Create a topic, with partitions and without further settings; those have their own view.

import { act, get } from "../lib/api.js";
import { go } from "../lib/navigation.js";
import { topicUrl } from "../lib/routes.js";
import { html, useState } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { say } from "../parts/toast.js";
import { Field } from "./fields.js";

export function CreateTopic() {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const run = async () => {
    await refuseExisting(name);
    await act("PUT", ["topics", name], {}, partitions === "1" ? {} : { partitions: Number(partitions) });
    return name;
  };
  const done = () => {
    say(`${name} was created.`);
    go(topicUrl(name, "settings"));
  };
  return html`<${Ask} title="Create a topic" verb="Create" run=${run} onDone=${done}
      isReady=${name !== "" && /^[0-9]+$/.test(partitions)}>
    <p class="s2">The first publish creates a topic, too, with the default settings.</p>
    <${Field} label="Name" value=${name} onChange=${setName} />
    <${Field} label="Partitions" value=${partitions} onChange=${setPartitions}
        inputmode="numeric" hint="They can be increased later, never decreased." />
  <//>`;
}

/** A PUT would restore the default settings of a topic that exists. */
async function refuseExisting(name) {
  const existing = await get(["topics", name]).catch((error) => {
    if (error.code === "NOTOPIC") return null;
    throw error;
  });
  if (existing) throw new Error(`the topic exists already: ${name}`);
}
