/** What rules of workloads cost, and what consolidations saved against what they promised. */

import { count, duration, hourly, money } from "../model/words.js";
import { h, setText } from "../parts/dom.js";
import { PolledView } from "../parts/polled_view.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{workload: string, costPerHour: number, rule: string, pricePerHour: number|null, pricePerMonth: number|null, placesMore: number}} Rule
 * @typedef {{plannedPerHour: number, podsWithoutAPlace: number, nodesHeld: number, rules: Rule[], workloadsLeft: number}} Constraints
 * @typedef {object} Command
 * @property {string} id
 * @property {string} at RFC 3339
 * @property {string[]} pools
 * @property {string} reason
 * @property {number|null} promisedPerHour
 * @property {number} seconds
 * @property {number|null} promised
 * @property {number} saved
 * @property {number} movedPods
 * @property {number} net
 * @property {string} until
 * @typedef {{pools: string[], reason: string, commands: number, promised: number, saved: number, movedPods: number, net: number, regretted: number}} Total
 * @typedef {{from: string, to: string, commands: Command[], totals: Total[], gaps: number}} Regret
 * @typedef {{constraints: Constraints|null, regret: Regret|null, problems: Record<string, string>}} Answer
 */

const RULES = ["Workload", "It costs#", "Rule", "The rule costs#", "A month#", ""];
const COMMANDS = ["Started", "Pool", "Reason", "Promised#", "For#", "Saved#", "Pods moved#", "Net#", "Until"];
const TOTALS = ["Pool", "Reason", "Commands#", "Saved#", "Of promised#", "Pods moved#", "Net#", "Regretted#"];

export class LedgersView extends PolledView {
  rules = table("Rules by price", RULES, ruleCells);
  totals = table("Consolidations by pool and reason", TOTALS, totalCells);
  commands = table("Consolidations, the newest first", COMMANDS, commandCells);
  rulesText = h("p", { class: "quiet", role: "status" });
  regretText = h("p", { class: "quiet", role: "status" });

  constructor() {
    super("ledgers", "Ledgers", "ledgers");
  }

  /** @override */
  build() {
    return [
      h("section", { class: "card" }, h("h3", {}, "What rules of workloads cost"), this.rulesText, this.rules.element),
      h("section", { class: "card" }, h("h3", {}, "What consolidations saved in the last day"), this.regretText, this.totals.element, this.commands.element),
    ];
  }

  /** @override @param {Answer} answer */
  show({ constraints, regret, problems }) {
    setText(this.rulesText, problems.constraints ?? (constraints ? rulesWords(constraints) : "The scheduler is planning without each rule …"));
    this.rules.rows.show(constraints?.rules ?? [], ({ workload, rule }) => `${workload} ${rule}`);
    this.rules.element.hidden = !constraints?.rules.length;
    setText(this.regretText, problems.regret ?? (regret ? regretWords(regret) : "The scheduler is reading its records …"));
    this.totals.rows.show(regret?.totals ?? [], ({ pools, reason }) => `${pools.join(" ")} ${reason}`);
    this.commands.rows.show(regret?.commands ?? [], ({ id }) => id);
    for (const { element } of [this.totals, this.commands]) element.hidden = !regret?.commands.length;
  }
}

/** @param {Constraints} answer */
function rulesWords({ plannedPerHour, nodesHeld, rules, workloadsLeft }) {
  if (!rules.length) return "No workload has a rule that could cost anything.";
  const held = nodesHeld ? ` ${count(nodesHeld, "node")} may not be drained and ${nodesHeld === 1 ? "stays" : "stay"}.` : "";
  const left = workloadsLeft ? ` ${count(workloadsLeft, "workload")} left out: see dovetail ledger constraints.` : "";
  return `Planned anew, the cluster costs ${hourly(plannedPerHour)}; each price is what a plan without the rule saves. They do not add up.${held}${left}`;
}

/** @param {Regret} answer */
function regretWords({ commands, gaps }) {
  const lacks = gaps ? ` Not complete: ${count(gaps, "series", "series")} of the log lack a part.` : "";
  if (!commands.length) return `No consolidation started in the last day.${lacks}`;
  return `Net is what was saved less the assumed cost of the moves; a negative one is a regret. Longer periods: dovetail ledger regret --from 720h.${lacks}`;
}

/** @param {Rule} row */
const ruleCells = ({ workload, costPerHour, rule, pricePerHour, pricePerMonth, placesMore }) => [
  workload, hourly(costPerHour), rule, hourly(pricePerHour), money(pricePerMonth),
  pricePerHour === null ? `without it ${count(Math.abs(placesMore), "pod")} ${placesMore > 0 ? "more" : "fewer"} would have a place` : "",
];

/** @param {Total} row */
const totalCells = ({ pools, reason, commands, saved, promised, movedPods, net, regretted }) => [
  pools.join(", "), reason, commands, money(saved), money(promised), movedPods, signed(net), regretted ? h("strong", { class: "bad" }, regretted) : 0,
];

/** @param {Command} row */
const commandCells = ({ at, pools, reason, promisedPerHour, seconds, saved, movedPods, net, until }) => [
  new Date(at).toLocaleString(), pools.join(", "), reason, hourly(promisedPerHour), duration(seconds), money(saved), movedPods, signed(net), until,
];

/** @param {number} net in US dollars */
const signed = (net) => (net < 0 ? h("strong", { class: "bad" }, money(net)) : money(net));
