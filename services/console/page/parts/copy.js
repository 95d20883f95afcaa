/** A command with a button that copies it. */

import { h } from "./dom.js";

/** @param {string} command */
export function copyable(command) {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy: ${command}`, onclick: () => copy(command, button) }, "Copy");
  return h("div", { class: "command" }, h("pre", { tabindex: "0" }, h("code", {}, command)), button);
}

/** @param {string} text @param {HTMLButtonElement} button */
async function copy(text, button) {
  const done = await write(text);
  const code = button.parentElement?.querySelector("code");
  if (!done && code) getSelection()?.selectAllChildren(code);
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

/** @param {string} text @returns {Promise<boolean>} false when the browser does not allow it, as over plain HTTP */
export async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
