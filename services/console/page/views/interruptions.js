/** Nodes that the cloud takes away: when, and where their pods go. */

import { count, duration } from "../model/words.js";
import { countDown, countdown } from "../parts/countdown.js";
import { h } from "../parts/dom.js";
import { Keyed } from "../parts/keyed.js";
import { PolledView } from "../parts/polled_view.js";

/**
 * @typedef {{name: string, state: "there"|"left"|"moved", goesTo: string, target: string, type: string}} Moving
 * @typedef {object} Interruption
 * @property {string} node
 * @property {string} name
 * @property {string} kind
 * @property {number|null} deadline
 * @property {number|null} goneAt
 * @property {number} since
 * @property {string} state
 * @property {Moving[]} pods
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

  /** @override @param {{interruptions: Interruption[], problem: string}} answer */
  show({ interruptions, problem }) {
    this.none.hidden = interruptions.length > 0 || problem !== "";
    // What ends first stands first, then what has no deadline; what is gone stands last.
    const order = (/** @type {Interruption} */ item) => (item.state === "gone" ? 2 : item.deadline === null ? 1 : 0);
    const sorted = [...interruptions].sort((a, b) => order(a) - order(b) || (a.deadline ?? 0) - (b.deadline ?? 0) || b.since - a.since);
    this.items.show(sorted, (item) => `${item.node} ${item.kind}`);
    countDown(this.list, this.now());
  }

  /** @param {Interruption} item */
  #card({ node, name, kind, deadline, goneAt, since, state, pods }) {
    const gone = state === "gone";
    const title = gone ? h("strong", {}, name || node) : this.#link(node, name || node);
    return h("li", { class: "card" },
      h("div", { class: "card-head" }, title, h("span", { class: "badge", "data-kind": "warn" }, kind),
        gone ? null : h("span", { class: "badge", "data-state": state }, state),
        h("strong", { class: "sum" }, gone ? goneWords(goneAt, deadline) : countdown(deadline, this.now(), since))),
      deadline !== null && !gone ? h("div", { class: "track left", "aria-hidden": "true" }, barOf(since, deadline)) : null,
      pods.length ? h("ul", { class: "words" }, groups(pods).map((group) => this.#group(group))) : h("p", { class: "quiet" }, "It had no pods but those of DaemonSets."));
  }

  /** @param {{goesTo: string, target: string, type: string, pods: Moving[]}} group pods with one place to go to */
  #group({ goesTo, target, type, pods }) {
    const still = pods.filter((pod) => pod.state === "there").length;
    const left = h("span", { class: "quiet" }, still ? ` ${still} still here` : " all left");
    return h("li", {}, h("details", {},
      h("summary", {}, h("strong", {}, count(pods.length, "pod")), ...this.#place(goesTo, target, type), left),
      h("ul", { class: "more" }, pods.map(({ name, state }) => h("li", {}, name, h("span", { class: "quiet" }, state === "moved" ? " runs there" : ""))))));
  }

  /** @param {string} goesTo @param {string} target @param {string} type @returns {import("../parts/dom.js").Child[]} */
  #place(goesTo, target, type) {
    if (!goesTo) return [" ", h("span", { class: "waits", "data-waits": "capacity" }, "no place yet")];
    const words = [type, target ? "" : "planned"].filter(Boolean).join(" · ");
    return [h("span", { class: "hidden-text" }, "go to"), h("span", { "aria-hidden": "true" }, "→"), target ? this.#link(target, goesTo) : h("code", {}, goesTo),
      h("span", { class: "quiet" }, words)];
  }

  /** @param {string} id @param {string} text */
  #link(id, text) {
    return h("button", { type: "button", class: "plain", onclick: () => this.address.go({ view: "cluster", node: id, pod: "" }) }, text);
  }
}

/** @param {number} since @param {number} deadline */
const barOf = (since, deadline) => h("span", { class: "fill", "data-from": since, "data-to": deadline });

/** @param {number|null} goneAt @param {number|null} deadline */
function goneWords(goneAt, deadline) {
  if (goneAt === null || deadline === null) return h("span", { class: "quiet" }, "gone");
  const early = deadline - goneAt;
  return h("span", { class: "quiet" }, early >= 0 ? `gone ${duration(early)} before its deadline` : `gone ${duration(-early)} after its deadline`);
}

/** @param {Moving[]} pods */
function groups(pods) {
  /** @type {Map<string, {goesTo: string, target: string, type: string, pods: Moving[]}>} */
  const found = new Map();
  for (const pod of pods) {
    const group = found.get(pod.goesTo) ?? { goesTo: pod.goesTo, target: pod.target, type: pod.type, pods: [] };
    group.pods.push(pod);
    found.set(pod.goesTo, group);
  }
  return [...found.values()].sort((a, b) => Number(a.goesTo !== "") - Number(b.goesTo !== "") || b.pods.length - a.pods.length);
}
