// A filter that the broker applies: asked for when the typing pauses, and kept in the URL.

import { setQuery } from "../lib/navigation.js";
import { html, useEffect, useRef, useState } from "../lib/ui.js";

const TYPING_MS = 200;

/** An input whose text is the parameter `q` of the URL. */
export function Filter({ label, placeholder, value }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  useEffect(() => {
    if (timer.current === null) setText(value); // Back, or a link, has changed it
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (event) => {
    const typed = event.target.value;
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = null;
      setQuery({ q: typed, page: null }, { isTyping: true });
    }, TYPING_MS);
  };
  return html`<input class="grow" type="search" aria-label=${label} placeholder=${placeholder}
      dir="auto" spellcheck="false"
    value=${text} onInput=${type} />`;
}
