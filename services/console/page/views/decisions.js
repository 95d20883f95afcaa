/** What was decided, the newest first: what was bought or saved, against what bound, and what was rejected. */

import { clock, count, hourly } from "../model/words.js";
import { get, wordsOf } from "../net/api.js";
import { h, setText } from "../parts/dom.js";
import { Keyed } from "../parts/keyed.js";
import { PolledView } from "../parts/polled_view.js";

/**
 * @typedef {object} Decision
 * @property {string} id
 * @property {number} at
 * @property {string} kind
 * @property {string} text
 * @property {number} pods
 * @property {string[]} machines
 * @property {number|null} cost
 * @property {number|null} bound
 * @property {{what: string, why: string}[]} rejected
 */

export class DecisionsView extends PolledView {
  list = h("ol", { class: "cards" });
  none = h("p", { class: "quiet empty" }, "Nothing was decided yet.");
  items = new Keyed(this.list, card);

  constructor() {
    super("decisions", "Decisions", "decisions");
  }

  /** @override */
  build() {
    return [this.none, this.list];
  }

  /** @override @param {{decisions: Decision[]}} answer */
  show({ decisions }) {
    this.none.hidden = decisions.length > 0;
    this.items.show(decisions, (decision) => decision.id);
  }
}

/** @param {Decision} decision */
function card(decision) {
  const { at, kind, text, pods, cost } = decision;
  const sum = h("summary", {}, h("time", { class: "quiet" }, clock(at)), h("span", { class: "badge" }, kind), h("span", { class: "what" }, text),
    h("span", { class: "sum" }, pods ? h("span", { class: "quiet" }, count(pods, "pod")) : null, cost === null ? null : h("strong", {}, costWords(cost))));
  const policies = h("p", { class: "quiet", role: "status" });
  const details = h("details", {}, sum, h("div", { class: "more" }, ...more(decision), policies));
  // Only when somebody opens it: the scheduler plans again for the answer.
  if (kind === "plan" && cost) details.addEventListener("toggle", () => showPolicies(decision.id, policies), { once: true });
  return h("li", { class: "card" }, details);
}

/** @param {string} id @param {HTMLElement} place the line that gets the price of this plan by each policy */
async function showPolicies(id, place) {
  setText(place, "Planning it again by each policy …");
  try {
    const { policies, problem } = await get("decision", { id });
    const each = Object.entries(policies).map(([name, { cost, machines }]) => `${name} ${hourly(cost)} with ${count(machines, "machine")}`);
    setText(place, each.length ? `By each policy: ${each.join(", ")}` : problem);
  } catch (error) {
    setText(place, wordsOf(error));
  }
}

/** @param {number} cost positive: bought */
const costWords = (cost) => (cost < 0 ? `saves ${hourly(-cost)}` : `costs ${hourly(cost)}`);

/** @param {Decision} decision @returns {HTMLElement[]} */
function more({ machines, cost, bound, rejected }) {
  return [
    ...list("Machines", machines.map((machine) => h("li", {}, h("code", {}, machine)))),
    ...list("Rejected", rejected.map(({ what, why }) => h("li", {}, h("strong", {}, what), ` ${why}`))),
    ...(bound === null ? [] : [h("p", {}, "Proven lower bound: ", h("strong", {}, hourly(bound)), cost && bound > 0 ? ` (${above(cost, bound)})` : "")]),
    ...(machines.length || rejected.length || bound !== null ? [] : [h("p", { class: "quiet" }, "No more is known of it.")]),
  ];
}

/** @param {number} cost @param {number} bound */
const above = (cost, bound) => `the decision is ${Math.max(0, (100 * (cost - bound)) / bound).toFixed(1)} % above it`;

/** @param {string} title @param {HTMLElement[]} items */
const list = (title, items) => (items.length ? [h("h3", {}, title), h("ul", { class: "words" }, items)] : []);
