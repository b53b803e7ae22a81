// Sign in: a user and a password, or a token. The session is a cookie that scripts cannot read.

import { request, Unreachable } from "../lib/api.js";
import { replace } from "../lib/navigation.js";
import { BASE, safeNext } from "../lib/routes.js";
import { route, session, setBrokerNow } from "../lib/store.js";
import { html, useEffect, useState, useStore } from "../lib/ui.js";
import { Icon } from "../parts/marks.js";

const TEXTS = {
  WRONGPASS: "The user does not exist, or the password is wrong.",
  TOOMANY: "There were too many failed attempts. Wait for a minute, then try again.",
};

export function SignIn() {
  const { view, query } = useStore(route);
  const known = useStore(session);
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · miniqueue";
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setIsBusy(true);
    setError(null);
    try {
      const answer = await request("POST", `${BASE}/session`, { body: { user, password: secret } });
      setBrokerNow(answer.nowMs);
      if (view === "sign-in") replace(safeNext(query.next));
      session.set({ hasEnded: false, ...answer });
    } catch (failure) {
      setIsBusy(false);
      setSecret("");
      setError(
        failure instanceof Unreachable
          ? "The broker does not answer. Try again."
          : (TEXTS[failure.code] ?? failure.message),
      );
    }
  };
  return html`<main class="sign-page" id="content"><form class="card sign" onSubmit=${submit}>
    <h1>Sign in to miniqueue</h1>
    ${
      known?.hasEnded &&
      !error &&
      html`<p class="note warn" role="status"><${Icon} name="warn" />
        <span>Your session has ended. Sign in to continue where you were.</span></p>`
    }
    <label>User<input type="text" name="user" autocomplete="username" spellcheck="false" autocapitalize="none"
      dir="auto" value=${user} onInput=${(event) => setUser(event.target.value)} />
        <span class="s3">Empty for a token</span></label>
    <label>Password or token<input type="password" name="password" autocomplete="current-password" required
      aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? "sign-error" : undefined} value=${secret}
          onInput=${(event) => setSecret(event.target.value)} /></label>
    ${error && html`<p class="err" id="sign-error" role="alert"><${Icon} name="crit" /><span>${error}</span></p>`}
    <button class="btn pri" type="submit" disabled=${isBusy}>${isBusy ? "Signing in …" : "Sign in"}</button></form>
      </main>`;
}
