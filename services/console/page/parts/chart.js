/** Line charts over time, in the colours of the page. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { clock, money } from "../model/words.js";

/**
 * @typedef {{label: string, values: (number|null)[], dashed?: boolean, filled?: boolean}} Line
 */

const HEIGHT = 220;
const DASHES = [[], [8, 3], [2, 3], [8, 3, 2, 3], [14, 4], [4, 4]];

/** @param {string} name of a custom property */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class Chart {
  /** @type {uPlot|null} */ #plot = null;
  #shape = "";

  /** @param {HTMLElement} place @param {string} label for readers who do not see it */
  constructor(place, label) {
    this.place = place;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", label);
    new ResizeObserver(() => this.#fit()).observe(place);
  }

  /** @param {number[]} at @param {Line[]} lines */
  show(at, lines) {
    const data = /** @type {uPlot.AlignedData} */ ([at, ...lines.map((line) => line.values)]);
    const shape = JSON.stringify([lines.map((line) => line.label), colour("text"), colour("accent")]);
    // The plot is kept while only its values change, so that the reader's cursor stays.
    if (this.#plot && shape === this.#shape) return this.#plot.setData(data);
    this.#plot?.destroy();
    this.#shape = shape;
    this.#plot = new uPlot(optionsOf(lines, this.#width()), data, this.place);
  }

  #width() {
    return Math.max(240, this.place.clientWidth);
  }

  #fit() {
    if (this.place.clientWidth > 0) this.#plot?.setSize({ width: this.#width(), height: HEIGHT });
  }
}

/** @param {Line[]} lines @param {number} width @returns {uPlot.Options} */
function optionsOf(lines, width) {
  const line = { stroke: colour("bar-back"), width: 1 };
  const axis = { stroke: colour("muted"), grid: line, ticks: line, font: "11px system-ui, sans-serif" };
  return {
    width, height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _low, high) => [0, (high || 1) * 1.1] } },
    axes: [
      { ...axis, space: 76, values: (_plot, splits) => splits.map((at) => clock(at).slice(0, span(splits) < 300 ? 8 : 5)) },
      { ...axis, size: 62, values: (_plot, splits) => dollars(splits) },
    ],
    series: [{ label: "Time", value: (_plot, at) => (at ? clock(at) : "–") }, ...lines.map(seriesOf)],
  };
}

/** @param {number[]} splits @returns {number} seconds between the first and the last: with few of them, minutes would repeat */
const span = (splits) => (splits.at(-1) ?? 0) - (splits[0] ?? 0);

/** @param {number[]} splits @returns {string[]} all with as many digits as the distance between two needs */
function dollars(splits) {
  const step = Math.abs((splits[1] ?? 1) - (splits[0] ?? 0));
  const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step || 1) + 1e-9)) + (step < 1 ? 1 : 0));
  return splits.map((value) => `$${value.toFixed(digits)}`);
}

const COLOURS = ["accent", "initializing", "good", "warn", "bad", "registering"];

/** @param {Line} line @param {number} index @returns {uPlot.Series} lines differ in their dashes too, not only in colour */
function seriesOf(line, index) {
  const stroke = line.dashed ? colour("text") : colour(COLOURS[index % COLOURS.length] ?? "accent");
  const dash = line.dashed ? [6, 4] : DASHES[index % DASHES.length] ?? [];
  return { label: line.label, stroke, dash, width: 2, ...(line.filled ? { fill: `${stroke}22` } : {}), points: { show: false }, value: (_plot, value) => money(value) };
}
