// Dialogs: the verb as the title, what is lost in numbers, what stays; Cancel has the focus.

import { act, ApiError, get } from "../lib/api.js";
import { exact } from "../lib/format.js";
import { acted, storeOf } from "../lib/store.js";
import { html, useEffect, useLayoutEffect, useRef, useState, useStore } from "../lib/ui.js";
import { Name } from "./marks.js";
import { ErrorLine } from "./states.js";

const shown = storeOf(null);

/** Show a dialog; `content` is a function that returns it. */
export const openDialog = (content) => shown.set({ content });
/** Close the dialog that is shown. */
const closeDialog = () => shown.set(null);

/** The place of the dialog in the page. */
export function DialogPlace() {
  const dialog = useStore(shown);
  return dialog && dialog.content();
}

/** A modal dialog; the browser keeps the focus in it, and returns it to where it came from. */
export function Dialog({ title, children, onClose = closeDialog }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog.showModal();
    dialog.querySelector("[data-first]")?.focus();
    return () => {
      dialog.close();
      if (opener?.isConnected) opener.focus();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} class="dlg"
      aria-labelledby="dialog-title" onCancel=${cancel}>
    <h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

/**
 * A question before an act.
 *
 * `run` does the act, and returns what to say, or `{task, done}` if it continues as a task of the broker.
 * With `confirm`, the button is off until this name is typed.
 */
export function Ask({ title, children, confirm, confirmNoun = "topic", verb, isDanger, run, isReady = true,
  onDone }) {
  const [typed, setTyped] = useState("");
  const [state, setState] = useState({ isBusy: false, error: null, task: null });
  const isMounted = useRef(true);
  useEffect(() => () => (isMounted.current = false), []);
  const isOff = state.isBusy || !isReady || (confirm !== undefined && typed !== confirm);
  const start = async (event) => {
    event.preventDefault();
    if (isOff) return;
    setState({ isBusy: true, error: null, task: null });
    try {
      const result = await run();
      if (result?.task) {
        if (isMounted.current) setState({ isBusy: true, error: null, task: result });
        return;
      }
      if (isMounted.current) closeDialog();
      acted.set(acted.value + 1);
      onDone?.(result);
    } catch (error) {
      if (isMounted.current) setState({ isBusy: false, error, task: null });
    }
  };
  if (state.task) return html`<${Progress} title=${title} ...${state.task} onDone=${onDone} />`;
  return html`<${Dialog} title=${title}><form onSubmit=${start} class="form">${children}
    ${
      confirm !== undefined &&
      html`<div class="field">
        <label for="confirm">Type the name of the ${confirmNoun} to confirm: <${Name}>${confirm}<//></label>
        <input id="confirm" type="text" autocomplete="off" spellcheck="false" dir="auto" value=${typed}
          onInput=${(event) => setTyped(event.target.value)} /></div>`
    }
    <${ErrorLine} error=${state.error} />
    <div class="acts"><button type="button" class="btn" data-first onClick=${closeDialog}>Cancel</button>
      <button type="submit" class=${isDanger ? "btn dan full" : "btn pri"} disabled=${isOff}
          aria-busy=${state.isBusy}>${verb}</button></div>
  </form><//>`;
}

/** The progress of a task of the broker, and a button that stops it. */
function Progress({ title, task, of, done, onDone }) {
  const [state, setState] = useState({ count: 0, status: "running", error: null });
  useEffect(() => {
    let timer = null;
    let isGone = false;
    const look = async () => {
      try {
        const answer = await get(["tasks", task]);
        if (isGone) return;
        setState({ count: answer.count, status: answer.status, error: answer.error ? new Error(answer.error)
          : null });
        if (answer.status === "running") timer = setTimeout(look, 500);
        else acted.set(acted.value + 1);
        if (answer.status === "done") {
          closeDialog();
          onDone?.(done(answer.count));
        }
      } catch (error) {
        if (isGone) return;
        if (error instanceof ApiError) setState((before) => ({ ...before, status: "failed", error }));
        else timer = setTimeout(look, 2000);
      }
    };
    look();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [task]);
  const stop = () => act("DELETE", ["tasks", task]).catch((error) => setState((before) => ({ ...before, error })));
  const isRunning = state.status === "running";
  const words = { running: "in progress", cancelled: "stopped", failed: "failed", done: "done" }[state.status];
  return html`<${Dialog} title=${title}><div class="form" role="status">
    <p class="s2 n">${exact(state.count)}
      ${of ? ` of ${exact(of)}` : ""}: ${words}. What was done stays done if you stop.</p>
    <progress max=${of || undefined} value=${of ? state.count : undefined} aria-label="Progress"></progress>
    <${ErrorLine} error=${state.error} />
    <div class="acts">${isRunning && html`<button class="btn" data-first onClick=${stop}>Stop</button>`}
      <button class="btn" onClick=${closeDialog}>${isRunning ? "Continue in the background" : "Close"}</button></div>
  </div><//>`;
}

/** A button with a menu of rarer acts; what destroys is only here. */
export function More({ label, items }) {
  const [isOpen, setIsOpen] = useState(false);
  const root = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    root.current.querySelector('[role="menuitem"]')?.focus();
    const closeOutside = (event) => root.current?.contains(event.target) || setIsOpen(false);
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, [isOpen]);
  const kept = items.filter(Boolean);
  if (!kept.length) return null;
  const move = (event) => {
    const entries = [...root.current.querySelectorAll('[role="menuitem"]')];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      setIsOpen(false);
      root.current.querySelector("button").focus();
    } else if (by && isOpen) {
      event.preventDefault();
      entries[(entries.indexOf(document.activeElement) + by + entries.length) % entries.length]?.focus();
    }
  };
  const choose = (run) => () => {
    setIsOpen(false);
    root.current.querySelector("button").focus(); // where a dialog returns the focus to
    run();
  };
  return html`<div class="more" ref=${root} onKeyDown=${move}>
    <button class="btn" aria-label=${label} aria-haspopup="menu" aria-expanded=${String(isOpen)}
        onClick=${() => setIsOpen(!isOpen)}><svg aria-hidden="true"><use href="#i-more" /></svg></button>
    ${
      isOpen &&
      html`<div class="menu" role="menu" aria-label=${label}>
      ${kept.map(
        ([word, run, isDanger]) =>
          html`<button role="menuitem" class=${isDanger ? "dan" : ""} onClick=${choose(run)}>${word}</button>`,
      )}</div>`
    }
  </div>`;
}
