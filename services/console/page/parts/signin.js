/** The form that asks for the token, shown when the server answers that one is needed. */

import { signIn, wordsOf } from "../net/api.js";
import { byId, setText } from "./dom.js";

/** @param {() => void} done called when the token was accepted */
export function makeSignIn(done) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("sign-in"));
  const input = /** @type {HTMLInputElement} */ (byId("token"));
  document.addEventListener("unauthorized", () => { if (!dialog.open) dialog.showModal(); });
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  byId("sign-in-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = await signIn(input.value.trim()).catch(wordsOf);
    setText(byId("sign-in-problem"), problem);
    if (problem) return;
    input.value = "";
    dialog.close();
    done();
  });
}
