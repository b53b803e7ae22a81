// Going somewhere pushes history, typing in a filter replaces it; links of the page do not load it again.

import { parseRoute, queryString } from "./routes.js";
import { route } from "./store.js";

/** Show the view of the current URL. */
export function readLocation() {
  route.set({ topic: undefined, tab: undefined, id: undefined, ...parseRoute(location.pathname, location.search) });
}

/** Go to a URL of the page. */
export function go(url) {
  history.pushState(null, "", url);
  readLocation();
  scrollTo(0, 0);
}

/** Go to a URL of the page without an entry in the history. */
export function replace(url) {
  history.replaceState(null, "", url);
  readLocation();
}

/** Go back to the page of a list from which this one was reached, or to the first one, after a reload of a link. */
export function previousPage() {
  if (history.state?.isNextPage) history.back();
  else setQuery({ after: null });
}

/** Change parameters of the current view; values that are null or "" are removed. */
export function setQuery(changes, { isTyping = false, isNextPage = false } = {}) {
  const query = { ...Object.fromEntries(new URLSearchParams(location.search)), ...changes };
  const url = location.pathname + queryString(query);
  if (isTyping) replace(url);
  else {
    history.pushState({ isNextPage }, "", url);
    readLocation();
  }
}

/** Follow clicks on links of the page, and the Back button. */
export function followLinks() {
  addEventListener("popstate", readLocation);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (
      !link ||
      event.defaultPrevented ||
      event.button ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const url = new URL(link.href, location.href);
    const isOfPage =
      url.origin === location.origin && /^\/ui(\/|$)/.test(url.pathname) &&
        !/^\/ui\/(assets|api)\//.test(url.pathname);
    if (!isOfPage || link.target || link.hasAttribute("download") || url.hash) return;
    event.preventDefault();
    go(url.pathname + url.search);
  });
}
