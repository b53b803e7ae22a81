// What was done, and its opposite if there is one: for 8 s, longer under the pointer or the focus.

import { acted, announcement, storeOf } from "../lib/store.js";
import { html, useEffect, useState, useStore } from "../lib/ui.js";
import { Icon } from "./marks.js";

const SHOWN_MS = 8000;
const toasts = storeOf([]);
let number = 0;

/** Say what was done; `opposite` is {label, run}. */
export function say(text, opposite = null) {
  number += 1;
  toasts.set([...toasts.value.slice(-2), { id: number, text, opposite }]);
  announcement.set(text);
}

const remove = (id) => toasts.set(toasts.value.filter((toast) => toast.id !== id));

/** The toasts, at the lower edge of the page. */
export function Toasts() {
  const shown = useStore(toasts);
  return html`<div class="toasts">${shown.map((toast) => html`<${Toast} key=${toast.id} toast=${toast} />`)}</div>`;
}

function Toast({ toast }) {
  const [isHeld, setIsHeld] = useState(false);
  useEffect(() => {
    if (isHeld) return undefined;
    const timer = setTimeout(() => remove(toast.id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isHeld]);
  const undo = async () => {
    remove(toast.id);
    await toast.opposite.run();
    acted.set(acted.value + 1);
  };
  const hold = (held) => () => setIsHeld(held);
  return html`<div class="note toast" onMouseEnter=${hold(true)} onMouseLeave=${hold(false)} onfocusin=${hold(true)}
      onfocusout=${hold(false)}>
    <${Icon} name="ok" /><span class="words">${toast.text}</span>
    ${toast.opposite && html`<button class="link" onClick=${undo}>${toast.opposite.label}</button>`}
    <button class="link" aria-label="Close the message" onClick=${() => remove(toast.id)}>✕</button>
  </div>`;
}
