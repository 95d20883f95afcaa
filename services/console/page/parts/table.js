/** Tables whose rows keep their elements. */

import { h } from "./dom.js";
import { Keyed } from "./keyed.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @template T
 * @param {string} caption @param {string[]} heads those that end in "#" hold numbers
 * @param {(item: T) => (Child|Child[])[]} cells the first one is the head of its row
 */
export function table(caption, heads, cells) {
  const numeric = heads.map((head) => head.endsWith("#"));
  const body = h("tbody");
  const head = h("tr", {}, heads.map((text, i) => h("th", { scope: "col", class: numeric[i] ? "num" : null }, text.replace("#", ""))));
  const cellOf = (/** @type {Child|Child[]} */ child, /** @type {number} */ i) =>
    i === 0 ? h("th", { scope: "row" }, ...[child].flat()) : h("td", { class: numeric[i] ? "num" : null }, ...[child].flat());
  const rows = new Keyed(body, (/** @type {T} */ item) => h("tr", {}, cells(item).map(cellOf)));
  // A wide table scrolls by itself, which must work with the keyboard too.
  const element = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, head), body));
  return { element, rows };
}
