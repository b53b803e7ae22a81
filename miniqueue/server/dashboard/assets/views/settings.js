// The settings of a topic, with their meaning; each can be changed by itself.

import * as format from "../lib/format.js";
import { act } from "../lib/api.js";
import { useRead } from "../lib/models.js";
import { settingText, settingValue } from "../lib/setting_values.js";
import { html, useState } from "../lib/ui.js";
import { Field, Select, Text } from "../acts/fields.js";
import { Ask, openDialog } from "../parts/dialog.js";
import { Card } from "../parts/states.js";
import { say } from "../parts/toast.js";
import { secondsNote } from "./topic_summary.js";

export function Settings({ topic, model, rights }) {
  const [text, setText] = useState("");
  const [isChangedOnly, setIsChangedOnly] = useState(false);
  const { answer, error, isLoading, reload } = useRead("settings");
  const changed = new Set(model.changed ?? []);
  const rows = (answer?.settings ?? []).filter(
    ({ name, meaning }) =>
      (!isChangedOnly || changed.has(name)) && `${name} ${meaning}`.toLowerCase().includes(text.toLowerCase()),
  );
  const edit = (setting) => () =>
    openDialog(() => html`<${Edit} topic=${topic} setting=${setting} value=${model.settings[setting.name]} />`);
  return html`<div class="bar">
    <input class="grow" type="search" aria-label="Filter settings" placeholder="Filter: a name or a word"
      value=${text} onInput=${(event) => setText(event.target.value)} />
    <label class="check">
      <input type="checkbox" checked=${isChangedOnly} onChange=${() => setIsChangedOnly(!isChangedOnly)} />
      Only those not at their defaults (${changed.size})</label></div>
    <${Card} label="Settings" error=${error} isLoading=${isLoading && !answer} retry=${reload} rows=${12}>${
      answer &&
      html`<dl class="settings">${rows.map(
        (setting) => html`<div key=${setting.name}>
      <dt><code>${setting.name}</code>${changed.has(setting.name) && html` <span class="pill">changed</span>`}</dt>
      <dd class="value">${shownValue(setting, model.settings[setting.name])}
        ${secondsNote(setting.name, model.settings[setting.name])}</dd>
      <dd class="meaning">${capitalized(setting.meaning)}.<br />
        <span class="s3">Allowed: ${setting.value}. Default: ${setting.default || "none"}.</span></dd>
      <dd class="edit">${
        rights.has("admin") &&
        html`<button class="btn" aria-label=${`Change ${setting.name}`} onClick=${edit(setting)}>Change…</button>`
      }
          </dd></div>`,
      )}
      ${rows.length === 0 && html`<p class="pad s2">No setting matches.</p>`}</dl>`
    }<//>`;
}

const capitalized = (text) => (/^[a-z]+_/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

function shownValue(setting, value) {
  const text = settingText(value);
  if (text === "") return html`<span class="s3">${setting.default || "none"}</span>`;
  return setting.name.startsWith("paused_") && typeof value === "number" && value > 0
    ? value >= format.FOREVER_MS
      ? "until it is resumed"
      : format.iso(value, "utc")
    : text;
}

function Edit({ topic, setting, value }) {
  const { name, kind, choices } = setting;
  const [text, setText] = useState(settingText(value));
  const run = () => act("PATCH", ["topics", topic], {}, { [name]: settingValue(kind, text) });
  const before = value;
  const done = () => say(`${name} of ${topic} was changed.`, { label: "Undo", run: () => undo(topic, name, before) });
  const hint = `${setting.value}. Empty: the default, ${setting.default || "none"}.`;
  const options = kind === "flag" ? ["true", "false"] : choices;
  const field = options
    ? html`<${Select} label="Value" value=${text} onChange=${setText}
        choices=${Object.fromEntries([
          ...options.map((option) => [option, option]),
          ["", `the default: ${setting.default || "none"}`],
        ])} />`
    : kind === "json"
      ? html`<${Text} label="Value" rows="8" value=${text} onChange=${setText} hint=${hint} />`
      : html`<${Field} label="Value" value=${text} onChange=${setText} hint=${hint} />`;
  return html`<${Ask} title=${html`Change <code>${name}</code>`} verb="Change" run=${run} onDone=${done}
      isReady=${text !== settingText(value)}>
    <p class="s2">${capitalized(setting.meaning)}. It takes effect at once.
      ${setting.onlyGrows && " It can only be increased."}</p>${field}<//>`;
}

async function undo(topic, name, value) {
  try {
    await act("PATCH", ["topics", topic], {}, { [name]: value ?? null });
    say(`${name} of ${topic} is as it was.`);
  } catch (error) {
    say(`${name} of ${topic} was not changed back: ${error.message}`);
  }
}
