/** What the nodes cost: now, over time, and against the proven lower bound. */

import { hourly, percent } from "../model/words.js";
import { Chart } from "../parts/chart.js";
import { h, setText } from "../parts/dom.js";
import { PolledView } from "../parts/polled_view.js";
import { table } from "../parts/table.js";

/** @typedef {"byPool"|"byCapacityType"|"byNamespace"} Part */
/** @typedef {{name: string, cost: number, total: number}} Row */

const PARTS = /** @type {const} */ ([["byPool", "Pool"], ["byCapacityType", "Capacity type"], ["byNamespace", "Namespace"]]);
// More lines than this cannot be told apart.
const MOST_LINES = 6;

export class CostView extends PolledView {
  total = h("strong", { class: "big" });
  bound = h("strong", { class: "big" });
  distance = h("span", { class: "quiet" });
  policies = h("p", { class: "quiet" });
  boundText = h("p", { class: "quiet" });
  choice = h("select", {}, PARTS.map(([key, title]) => h("option", { value: key }, title.toLowerCase())));
  tables = PARTS.map(([key, title]) => ({ key, ...table(`By ${title.toLowerCase()}`, [title, "$/h#", "Share#"], rowCells) }));
  /** @type {any} */ answer = null;
  /** @type {Chart|null} */ totals = null;
  /** @type {Chart|null} */ parts = null;

  constructor() {
    super("cost", "Cost", "cost");
    this.choice.addEventListener("change", () => this.#drawParts());
  }

  /** @override */
  build() {
    const [totals, parts] = [h("div", { class: "chart" }), h("div", { class: "chart" })];
    this.totals = new Chart(totals, "Cost of all nodes over time, with the proven lower bound");
    this.parts = new Chart(parts, "Cost over time, in parts");
    return [
      h("div", { class: "facts-row" }, h("p", {}, h("span", { class: "quiet" }, "Now "), this.total),
        h("p", {}, h("span", { class: "quiet" }, "Proven lower bound "), this.bound, " ", this.distance)),
      this.boundText,
      this.policies,
      h("div", { class: "columns" },
        h("section", { class: "card" }, h("h3", {}, "Cost and lower bound over time"), totals),
        h("section", { class: "card" }, h("h3", {}, h("label", {}, "Over time by ", this.choice)), parts)),
      h("div", { class: "columns" }, this.tables.map(({ element }) => h("section", { class: "card" }, element))),
    ];
  }

  /** @override @param {any} answer */
  show(answer) {
    this.answer = answer;
    const { now, bound, boundText, series, policies } = answer;
    setText(this.total, hourly(now.total));
    setText(this.bound, hourly(bound));
    setText(this.distance, bound > 0 ? `${Math.max(0, (100 * (now.total - bound)) / bound).toFixed(1)} % above it` : "");
    setText(this.boundText, boundText ?? "");
    setText(this.policies, policyWords(policies ?? {}));
    this.totals?.show(series.at, [{ label: "Cost", values: series.total, filled: true }, { label: "Lower bound", values: series.bound, dashed: true }]);
    this.#drawParts();
    for (const { key, rows } of this.tables) rows.show(rowsOf(now[key], now.total), (row) => row.name);
  }

  /** Draws the charts again in the colours of another theme. */
  recolour() {
    if (this.answer) this.show(this.answer);
  }

  #drawParts() {
    if (!this.answer) return;
    const { series, now } = this.answer;
    const part = /** @type {Part} */ (this.choice.value);
    const names = Object.keys(series[part] ?? {}).sort((a, b) => (now[part]?.[b] ?? 0) - (now[part]?.[a] ?? 0)).slice(0, MOST_LINES);
    this.parts?.show(series.at, names.map((name) => ({ label: name || "none", values: series[part][name] })));
  }
}

/**
 * What new machines for the same pods would cost by each packing policy.
 * @param {Record<string, number>} policies
 */
function policyWords(policies) {
  const each = Object.entries(policies).map(([name, cost]) => `${name} ${hourly(cost)}`);
  return each.length ? `New machines for the same pods: ${each.join(", ")}` : "";
}

/** @param {Record<string, number>} costs @param {number} total @returns {Row[]} the dearest first */
const rowsOf = (costs, total) => Object.entries(costs ?? {}).map(([name, cost]) => ({ name, cost, total })).sort((a, b) => b.cost - a.cost);

/** @param {Row} row */
const rowCells = ({ name, cost, total }) => [name || "none", hourly(cost), percent(cost, total)];
