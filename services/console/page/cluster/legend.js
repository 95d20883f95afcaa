/** Explains patterns, badges and bars of the picture. Each sample is painted by the painter of the picture itself. */

import { SHORT } from "../drawing/badges.js";
import { paintBox } from "../drawing/painter.js";
import { readPalette } from "../drawing/palette.js";
import { newSprite } from "../drawing/sprite.js";
import { byId, h } from "../parts/dom.js";

/** @typedef {import("../model/types.js").NodeState} NodeState */

const STATES = /** @type {NodeState[]} */ (["launching", "registering", "initializing", "ready", "draining", "terminating"]);
const BOX = { x: 0, y: 0, w: 34, h: 24 };

/** Fills the legend anew; also after the theme changed. */
export function showLegend() {
  const marks = Object.keys(SHORT).filter((word) => SHORT[word]?.startsWith("!"));
  byId("legend").replaceChildren(
    ...STATES.map((state) => h("span", {}, sample(state), state)),
    h("span", {}, `Marks: ${marks.map((mark) => `${SHORT[mark]} ${mark}`).join(", ")}`),
    h("span", {}, "Tiles: one per pod, its area is its share of the node, its colour its namespace; grey: pods of a DaemonSet; outlined: starts; stroke: terminates"),
    h("span", {}, "Bars: requested cpu, memory and pods against what the node can give"),
  );
}

/** @param {NodeState} state */
function sample(state) {
  const canvas = h("canvas", { width: BOX.w * 2, height: BOX.h * 2, "aria-hidden": "true" });
  canvas.style.width = `${BOX.w}px`;
  canvas.style.height = `${BOX.h}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(2, 2);
  const node = {
    id: "", name: "", machine: "", pool: "", type: "", zone: "", capacityType: "", price: null, created: 0, state, marks: [], why: "", deadline: null,
    cpu: 0, memory: 0, podLimit: 0,
  };
  paintBox(context, { ...newSprite(node, BOX), shown: 1 }, { palette: readPalette(context), now: 0, focused: "none", chosen: "none", pod: "" });
  return canvas;
}
