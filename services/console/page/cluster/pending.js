/** The pending pods, the oldest first: what each waits for, for how long, why, and the smallest change that would place it. */

import { bareName, causeOf, count, namespaceOf, requestsOf, shortDuration, waitsFor } from "../model/words.js";
import { byId, h, setText } from "../parts/dom.js";

/**
 * @typedef {import("../model/types.js").Pod} Pod
 * @typedef {{button: HTMLButtonElement, waits: HTMLElement, age: HTMLElement, verdict: HTMLElement, change: HTMLElement}} Row
 */

const MOST_ROWS = 100;
const SHORT = { "": "waits", scheduling: "not tried", capacity: "no room", nominated: "node coming" };

export class PendingList {
  /** @type {Map<string, Row>} by pod id; kept between renders so that focus stays */ #rows = new Map();

  /** @param {(pod: string) => void} choose called with the name of a pod */
  constructor(choose) {
    this.choose = choose;
    this.list = byId("pending-list");
  }

  /** @param {Map<string, Pod>} pending @param {number} now @param {string} chosen name of the pod whose details are open @param {string} missing what is not known */
  show(pending, now, chosen, missing) {
    const pods = [...pending.values()].sort((a, b) => a.since - b.since || (a.name < b.name ? -1 : 1));
    const shown = pods.slice(0, MOST_ROWS);
    const ids = new Set(shown.map((pod) => pod.id));
    for (const [id, row] of this.#rows) if (!ids.has(id)) this.#drop(id, row);
    shown.forEach((pod, index) => this.#place(pod, index, now, chosen));
    setText(byId("pending-more"), pods.length > MOST_ROWS ? `and ${count(pods.length - MOST_ROWS, "more pod")}` : "");
    setText(byId("pending-missing"), pods.length > 0 ? missing : "");
    byId("pending-none").hidden = pods.length > 0;
    setText(byId("pending-title-count"), pods.length ? pods.length.toLocaleString("en-US") : "");
  }

  /** @param {string} id @param {Row} row */
  #drop(id, row) {
    row.button.parentElement?.remove();
    this.#rows.delete(id);
  }

  /** @param {Pod} pod @param {number} index @param {number} now @param {string} chosen */
  #place(pod, index, now, chosen) {
    const row = this.#rows.get(pod.id) ?? this.#make(pod);
    setText(row.waits, SHORT[pod.waits] ?? pod.waits);
    row.waits.title = waitsFor(pod);
    row.waits.dataset.waits = pod.waits;
    setText(row.age, shortDuration(now - pod.since));
    show(row.verdict, causeOf(pod.verdict ?? ""), pod.verdict ?? "");
    show(row.change, pod.change ?? "", pod.change ?? "");
    row.button.setAttribute("aria-pressed", String(pod.name === chosen));
    const item = /** @type {HTMLElement} */ (row.button.parentElement);
    if (this.list.children[index] !== item) this.list.insertBefore(item, this.list.children[index] ?? null);
  }

  /** @param {Pod} pod @returns {Row} */
  #make(pod) {
    const waits = h("span", { class: "waits" });
    const age = h("span", { class: "age" });
    const [verdict, change] = [h("span", { class: "why" }), h("span", { class: "change" })];
    const button = h("button", { type: "button", class: "pending-pod", title: pod.name, onclick: () => this.choose(pod.name) },
      h("span", { class: "line" }, h("span", { class: "name" }, bareName(pod.name)), age),
      h("span", { class: "line" }, h("span", { class: "facts" }, `${namespaceOf(pod.name)} · ${requestsOf(pod)}`), waits), verdict, change);
    h("li", {}, button);
    const row = { button, waits, age, verdict, change };
    this.#rows.set(pod.id, row);
    return row;
  }
}

/** @param {HTMLElement} element @param {string} text hidden when empty @param {string} whole */
function show(element, text, whole) {
  setText(element, text);
  element.title = whole;
  element.hidden = text === "";
}
