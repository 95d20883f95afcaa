/** Parts that the details of nodes and of pods share. */

import { clock } from "../model/words.js";
import { h } from "../parts/dom.js";

/** @param {string} title @param {HTMLElement[]} children @returns {HTMLElement} */
export const section = (title, children) =>
  h("section", { class: "part", hidden: children.length === 0 }, h("h3", {}, title), children);

/** @param {[string, string][]} pairs those without a value are left out */
export const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

/** @param {string} name @param {number} part @param {number} whole @param {string} text */
export function meter(name, part, whole, text) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%`;
  return h("div", { class: "meter" }, h("span", {}, name), h("span", { class: "track", "aria-hidden": "true" }, fill), h("span", { class: "quiet" }, text));
}

/** @param {Record<string, string>} labels @returns {HTMLElement[]} */
export function labelList(labels) {
  const entries = Object.entries(labels ?? {}).sort(([a], [b]) => a.localeCompare(b));
  return entries.length ? [h("ul", { class: "words labels" }, entries.map(([key, value]) => h("li", {}, h("code", {}, `${key}=${value}`))))] : [];
}

/** @param {{at: number, type: string, reason: string, message: string, count: number}[]} events @returns {HTMLElement[]} */
export function eventList(events) {
  const newest = [...events].sort((a, b) => b.at - a.at);
  return newest.length ? [h("ol", { class: "timeline" }, newest.map((event) => h("li", { "data-type": event.type },
    h("time", {}, clock(event.at)), " ", h("strong", {}, event.type === "Warning" ? `Warning: ${event.reason}` : event.reason),
    ` ${event.message}`, event.count > 1 ? h("span", { class: "quiet" }, ` (${event.count} times)`) : null)))] : [];
}
