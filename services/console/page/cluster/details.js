/** The panel with all that is known of one node or one pod. */

import { get, wordsOf } from "../net/api.js";
import { byId, h } from "../parts/dom.js";
import { nodeDetails } from "./node_details.js";
import { podDetails } from "./pod_details.js";

/**
 * @typedef {import("../frame/address.js").Address} Address
 * @typedef {import("../frame/source.js").Source} Source
 */

export class Details {
  /** @type {Element|null} where the focus returns to */ #opener = null;
  /** @type {AbortController|null} */ #request = null;
  #shown = "";

  /** @param {Address} address @param {Source} source */
  constructor(address, source) {
    this.address = address;
    this.source = source;
    this.panel = byId("details");
    this.body = byId("details-body");
    byId("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => this.#escape(event));
    address.onChange(() => this.show());
  }

  close() {
    this.address.go({ node: "", pod: "" });
    if (this.#opener instanceof HTMLElement && this.#opener.isConnected) this.#opener.focus();
    else byId("node-list").focus();
  }

  /** Shows what the address names; loads it once, and again with `reload`. */
  show(reload = false) {
    const { node, pod, view } = this.address.place;
    const wanted = view === "cluster" ? (pod ? `pod ${pod}` : node ? `node ${node}` : "") : "";
    if (wanted === this.#shown && !reload) return;
    const opened = wanted !== this.#shown;
    this.#shown = wanted;
    this.#request?.abort();
    this.panel.hidden = wanted === "";
    if (!wanted) return;
    if (opened) this.#open(pod || node);
    this.#load(pod ? "pod" : "node");
  }

  /** @param {string} title */
  #open(title) {
    if (!this.panel.contains(document.activeElement)) this.#opener = document.activeElement;
    byId("details-title").textContent = title;
    this.body.replaceChildren(h("p", { class: "quiet", role: "status" }, "Loading …"));
    this.panel.focus();
  }

  /** @param {"pod"|"node"} kind */
  async #load(kind) {
    // One request at a time: to plan a pending pod again costs the scheduler seconds.
    const request = new AbortController();
    this.#request = request;
    const { node, pod } = this.address.place;
    if (kind === "pod") this.#sayPlanning(pod);
    try {
      const details = await get(kind, kind === "pod" ? { name: pod } : { id: node }, request.signal);
      if (!request.signal.aborted) this.#fill(kind, details);
    } catch (error) {
      if (!request.signal.aborted) this.body.replaceChildren(h("p", { class: "problem", role: "alert" }, `No details: ${wordsOf(error)}`), this.#again());
    }
  }

  /** @param {string} name */
  #sayPlanning(name) {
    const pending = [...this.source.cluster.pending.values()].some((pod) => pod.name === name);
    if (pending) this.body.replaceChildren(h("p", { class: "progress", role: "status" }, "The scheduler plans this pod again; this may take some seconds …"));
  }

  /** @param {"pod"|"node"} kind @param {any} details */
  #fill(kind, details) {
    const now = this.source.now();
    const choose = { pod: (/** @type {string} */ name) => this.address.go({ pod: name }), node: (/** @type {string} */ id) => this.address.go({ node: id, pod: "" }),
      moment: (/** @type {number} */ at) => this.address.go({ at }) };
    const parts = kind === "pod" ? podDetails(details, now, choose) : nodeDetails(details, now, choose);
    this.body.replaceChildren(...this.#pastNote(), ...parts, this.#again());
    this.body.scrollTop = 0;
  }

  #pastNote() {
    return this.source.player ? [h("p", { class: "quiet" }, "The picture shows the past; these details are those of now.")] : [];
  }

  #again() {
    return h("p", {}, h("button", { type: "button", class: "plain", onclick: () => this.show(true) }, "Load again"));
  }

  /** @param {KeyboardEvent} event */
  #escape(event) {
    if (event.key === "Escape" && !this.panel.hidden && !event.defaultPrevented) this.close();
  }
}
