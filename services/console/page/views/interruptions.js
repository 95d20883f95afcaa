/** Nodes that the cloud takes away: when, and where their pods go. */

import { count, duration } from "../model/words.js";
import { countDown, countdown } from "../parts/countdown.js";
import { h } from "../parts/dom.js";
import { Keyed } from "../parts/keyed.js";
import { PolledView } from "../parts/polled_view.js";

/**
 * @typedef {{name: string, goesTo: string, waits: boolean}} Moving
 * @typedef {{node: string, name: string, kind: string, deadline: number|null, since: number, state: string, pods: Moving[]}} Interruption
 */

export class InterruptionsView extends PolledView {
  list = h("ol", { class: "cards beside" });
  none = h("p", { class: "quiet empty" }, "No node is being interrupted.");
  items = new Keyed(this.list, (/** @type {Interruption} */ item) => this.#card(item));

  /** @param {import("../frame/address.js").Address} address @param {() => number} now */
  constructor(address, now) {
    super("interruptions", "Interruptions", "interruptions");
    this.address = address;
    this.now = now;
    setInterval(() => { if (!this.section.hidden) countDown(this.list, now()); }, 1000);
  }

  /** @override */
  build() {
    return [this.none, this.list];
  }

  /** @override @param {{interruptions: Interruption[]}} answer */
  show({ interruptions }) {
    this.none.hidden = interruptions.length > 0;
    // What ends first stands first; what has no deadline stands last.
    const sorted = [...interruptions].sort((a, b) => (a.deadline ?? Infinity) - (b.deadline ?? Infinity) || a.since - b.since);
    this.items.show(sorted, (item) => `${item.node} ${item.kind}`);
    countDown(this.list, this.now());
  }

  /** @param {Interruption} item */
  #card({ node, name, kind, deadline, since, state, pods }) {
    const open = () => this.address.go({ view: "cluster", node, pod: "" });
    return h("li", { class: "card" },
      h("div", { class: "card-head" },
        h("button", { type: "button", class: "plain", onclick: open }, name || node), h("span", { class: "badge", "data-kind": "warn" }, kind),
        h("span", { class: "badge", "data-state": state }, state), h("span", { class: "quiet" }, `for ${duration(this.now() - since)}`),
        h("strong", { class: "sum" }, countdown(deadline, this.now()))),
      pods.length ? h("ul", { class: "words" }, pods.map(moving)) : h("p", { class: "quiet" }, "No pods have to go."),
      h("p", { class: "quiet" }, pods.length ? goingWords(pods) : ""));
  }
}

/** @param {Moving} pod */
const moving = ({ name, goesTo, waits }) =>
  h("li", {}, name, h("span", { class: "quiet" }, goesTo ? ` → ${goesTo}` : ""),
    waits ? h("span", { class: "waits", "data-waits": "capacity" }, goesTo ? "waits for it" : "no place yet") : null);

/** @param {Moving[]} pods */
function goingWords(pods) {
  const placed = pods.filter((pod) => pod.goesTo).length;
  return `${placed} of ${count(pods.length, "pod")} with a place to go to`;
}
