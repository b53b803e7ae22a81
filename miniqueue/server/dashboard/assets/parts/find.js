// Find a topic: the names that match are from the broker, so that 10,000 topics cost what ten cost.

import { read } from "../lib/api.js";
import { count } from "../lib/format.js";
import { go } from "../lib/navigation.js";
import { queryString, topicUrl, viewUrl } from "../lib/routes.js";
import { html, useEffect, useRef, useState } from "../lib/ui.js";
import { Icon, Name } from "./marks.js";

const SHOWN = 8;
const TYPING_MS = 150;
let number = 0;

const modelOf = (text) => `topics${queryString({ q: text, sort: "topic", count: SHOWN })}`;

/** An input with the topics that match below it. */
export function FindTopic({ isFirst = false, onChoose }) {
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState(null);
  const [at, setAt] = useState(-1);
  const [isOpen, setIsOpen] = useState(false);
  const id = useRef(`find-${(number += 1)}`).current;
  useEffect(() => {
    if (!text) {
      setAnswer(null);
      return undefined;
    }
    const aborter = new AbortController();
    const ask = () => read(modelOf(text), aborter.signal).then(setAnswer, () => {});
    const timer = setTimeout(ask, TYPING_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [text]);
  const names = answer ? answer.topics.map(({ topic }) => topic) : [];
  const choose = (name) => {
    setText("");
    setIsOpen(false);
    onChoose?.();
    go(topicUrl(name));
  };
  /** Go to the topic of this name or to the only one that matches, else to the list; the answer may be on its way. */
  const enter = async () => {
    const { topics } = await read(modelOf(text)).catch(() => ({ topics: [] }));
    const found = topics.map(({ topic }) => topic);
    if (found.includes(text) || found.length === 1) choose(found.includes(text) ? text : found[0]);
    else {
      onChoose?.();
      go(viewUrl("topics", { q: text }));
    }
  };
  const press = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && names.length) {
      event.preventDefault();
      setAt((at + by + names.length) % names.length);
    } else if (event.key === "Enter" && text) {
      event.preventDefault();
      if (at >= 0) choose(names[at]);
      else enter();
    } else if (event.key === "Escape" && isOpen && text) {
      event.preventDefault();
      event.stopPropagation();
      setText("");
    } else if (event.key === "Escape") event.target.blur();
  };
  const isListed = isOpen && answer !== null && text !== "";
  const input = (event) => {
    setText(event.target.value);
    setAt(-1);
    setIsOpen(true);
  };
  return html`<div class="find"><${Icon} name="find" />
    <input type="search" data-key=${isFirst ? undefined : "find"} data-first=${isFirst || undefined}
        role="combobox" aria-label="Find a topic" placeholder="Find a topic" aria-keyshortcuts="/" dir="auto"
      aria-expanded=${String(isListed)} aria-controls=${id}
          aria-activedescendant=${isListed && at >= 0 ? `${id}-${at}` : undefined}
            aria-autocomplete="list" autocomplete="off" spellcheck="false"
      value=${text} onInput=${input} onKeyDown=${press} onFocus=${() => setIsOpen(true)}
          onBlur=${() => setTimeout(() => setIsOpen(false), 150)} />
    ${!isFirst && !text && html`<kbd aria-hidden="true">/</kbd>`}
    <ul class=${isListed ? "found" : "found closed"} id=${id} role="listbox" aria-label="Topics">
      ${
        isListed &&
        names.map(
          (name, index) =>
            html`<li role="option" id=${`${id}-${index}`} aria-selected=${String(index === at)}
            onMouseDown=${(event) => event.preventDefault()} onClick=${() => choose(name)}><${Name}>${name}<//></li>`,
        )
      }
      ${
        isListed &&
        names.length === 0 &&
        html`<li class="s3" role="option" aria-disabled="true" aria-selected="false">No topic contains this</li>`
      }
      ${
        isListed &&
        answer.matching > names.length &&
        html`<li class="s3" role="option" aria-disabled="true" aria-selected="false">
          ${count(answer.matching - names.length)} more: press Enter</li>`
      }
    </ul></div>`;
}
