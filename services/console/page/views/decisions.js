/** What was decided, the newest first: why, what was bought or saved, against what bound and what other price, and what was rejected. */

import { causeOf, clock, count, hourly } from "../model/words.js";
import { get, wordsOf } from "../net/api.js";
import { h, setText } from "../parts/dom.js";
import { Keyed } from "../parts/keyed.js";
import { PolledView } from "../parts/polled_view.js";

/**
 * @typedef {Record<string, {cost: number, machines: number}>} Policies
 * @typedef {object} Decision
 * @property {string} id
 * @property {number} at
 * @property {string} kind
 * @property {string} text
 * @property {string} [reason]
 * @property {number} pods
 * @property {string[]} machines
 * @property {number|null} cost
 * @property {number|null} bound
 * @property {boolean} [comparable] whether the scheduler knows for a while what it costs by each policy
 * @property {Policies} [policies]
 * @property {{what: string, why: string}[]} rejected
 */

export class DecisionsView extends PolledView {
  list = h("ol", { class: "cards" });
  none = h("p", { class: "quiet empty" }, "Nothing was decided yet.");
  items = new Keyed(this.list, (/** @type {Decision} */ decision) => this.#card(decision));
  /** @type {Set<string>} decisions that are open: a card that is made anew stays open */ open = new Set();

  /** @param {import("../frame/address.js").Address} address */
  constructor(address) {
    super("decisions", "Decisions", "decisions");
    this.address = address;
  }

  /** @override */
  build() {
    return [this.none, this.list];
  }

  /** @override @param {{decisions: Decision[], problem: string}} answer */
  show({ decisions, problem }) {
    this.none.hidden = decisions.length > 0 || problem !== "";
    const listed = new Set(decisions.map((decision) => decision.id));
    for (const id of this.open) if (!listed.has(id)) this.open.delete(id);
    this.items.show(decisions, (decision) => decision.id);
  }

  /** @param {Decision} decision */
  #card(decision) {
    const policies = h("p", { class: "policies", role: "status" }, policyWords(decision.policies ?? {}));
    const details = h("details", { open: this.open.has(decision.id) }, summary(decision),
      h("div", { class: "more" }, ...more(decision), policies, this.#moment(decision.at)));
    details.addEventListener("toggle", () => {
      if (details.open) this.open.add(decision.id); else this.open.delete(decision.id);
      if (details.open && !policies.textContent) showPolicies(decision, policies);
    });
    return h("li", { class: "card" }, details);
  }

  /** @param {number} at */
  #moment(at) {
    const show = () => this.address.go({ view: "cluster", at: at - 1 });
    return h("p", {}, h("button", { type: "button", class: "plain", onclick: show }, "Show the cluster at this moment"));
  }
}

/** @param {Decision} decision */
function summary({ at, kind, text, pods, cost }) {
  return h("summary", {}, h("time", { class: "quiet" }, clock(at)), h("span", { class: "badge" }, kind), h("span", { class: "what" }, text),
    h("span", { class: "sum" }, pods ? h("span", { class: "quiet" }, count(pods, "pod")) : null, cost ? h("strong", {}, costWords(cost)) : null));
}

/** @param {Decision} decision @param {HTMLElement} place the line that gets the price of this decision by each policy */
async function showPolicies({ id, comparable }, place) {
  if (!comparable) return setText(place, "It buys no machine, so its price is the same by each packing policy.");
  setText(place, "Planning it again by each packing policy …");
  try {
    const { policies, problem } = await get("decision", { id });
    setText(place, policyWords(policies) || problem);
  } catch (error) {
    setText(place, wordsOf(error));
  }
}

/** @param {Policies} policies @returns {string} what the new machines cost by each policy; "" when it is not known */
function policyWords(policies) {
  const each = Object.entries(policies).map(([name, { cost, machines }]) => `${name} ${hourly(cost)} with ${count(machines, "machine")}`);
  return each.length ? `New machines by each packing policy: ${each.join(", ")}` : "";
}

/** @param {number} cost positive: bought */
const costWords = (cost) => (cost < 0 ? `saves ${hourly(-cost)}` : `costs ${hourly(cost)}`);

/** @param {Decision} decision @returns {HTMLElement[]} */
function more({ machines, cost, bound, rejected, reason }) {
  return [
    ...(reason ? [h("p", {}, h("span", { class: "quiet" }, "Why: "), reason)] : []),
    ...list("Machines", machines.map((machine) => h("li", {}, h("code", {}, machine)))),
    ...(bound === null ? [] : [h("p", {}, "Proven lower bound: ", h("strong", {}, hourly(bound)), cost && bound > 0 ? ` (${above(cost, bound)})` : "")]),
    ...list("Rejected", byReason(rejected).map(rejection)),
    ...(rejected.length ? [] : [h("p", { class: "quiet" }, "No rejection is noted.")]),
  ];
}

/** @param {Decision["rejected"]} rejected @returns {[string, string[]][]} why, and what was rejected for it */
function byReason(rejected) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { what, why } of rejected) found.set(why, [...(found.get(why) ?? []), what]);
  return [...found];
}

/** @param {[string, string[]]} reason what is wrong first, then what was looked for */
function rejection([why, whats]) {
  const cause = causeOf(why);
  return h("li", {}, h("strong", {}, whats.join(", ")), ` ${cause}`, cause === why ? null : h("p", { class: "quiet small" }, why));
}

/** @param {number} cost @param {number} bound */
const above = (cost, bound) => `the decision is ${Math.max(0, (100 * (cost - bound)) / bound).toFixed(1)} % above it`;

/** @param {string} title @param {HTMLElement[]} items */
const list = (title, items) => (items.length ? [h("h3", {}, title), h("ul", { class: "words" }, items)] : []);
