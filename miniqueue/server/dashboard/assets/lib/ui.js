// Preact and htm as one import, and the few hooks that all parts share.

import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.module.js";

export { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** Return the value of a store, and render again when it changes. */
export function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(store.value);
    return store.subscribe(setValue);
  }, [store]);
  return value;
}

/** Return a number that grows once a second, so that ages and the clock continue to count. */
export function useSeconds(isRunning = true) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return seconds;
}

/** Whether loading takes longer than 300 ms, so that gray bars are worth to be shown. */
export function useIsSlow(isLoading) {
  const [isSlow, setIsSlow] = useState(false);
  useEffect(() => {
    if (!isLoading) {
      setIsSlow(false);
      return undefined;
    }
    const timer = setTimeout(() => setIsSlow(true), 300);
    return () => clearTimeout(timer);
  }, [isLoading]);
  return isSlow && isLoading;
}
