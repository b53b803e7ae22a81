// Inputs of dialogs, each with its label and its hint.

import { html, useRef } from "../lib/ui.js";

let number = 0;

/** A labeled input; `onChange` gets its text. */
export function Field({ label, value, onChange, hint, type = "text", ...rest }) {
  const id = useRef(`field-${(number += 1)}`).current;
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type=${type} value=${value} autocomplete="off" spellcheck="false" dir="auto"
      aria-describedby=${hint ? `${id}-hint` : undefined} onInput=${(event) => onChange(event.target.value)}
          ...${rest} />
    ${hint && html`<span class="s3" id=${`${id}-hint`}>${hint}</span>`}</div>`;
}

/** A labeled text of several lines. */
export function Text({ label, value, onChange, hint, rows }) {
  const id = useRef(`field-${(number += 1)}`).current;
  return html`<div class="field"><label for=${id}>${label}</label>
    <textarea id=${id} rows=${rows} spellcheck="false" dir="auto" value=${value}
      aria-describedby=${hint ? `${id}-hint` : undefined} onInput=${(event) => onChange(event.target.value)}></textarea>
    ${hint && html`<span class="s3" id=${`${id}-hint`}>${hint}</span>`}</div>`;
}

/** A labeled choice of {value: text}. */
export function Select({ label, value, onChange, choices }) {
  const id = useRef(`field-${(number += 1)}`).current;
  const options = Object.entries(choices).map(
    ([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`,
  );
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} onChange=${(event) => onChange(event.target.value)}>${options}</select></div>`;
}

/** Whether a text is empty or a number that is not negative. */
export const isNumber = (text) => /^([0-9]+(\.[0-9]+)?)?$/.test(text.trim());
