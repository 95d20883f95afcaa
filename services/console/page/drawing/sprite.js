/** One node on the screen: where it is, where it goes, and the same for its tiles. */

import { layoutTiles } from "../model/tiles.js";
import { namespaceOf } from "../model/words.js";
import { anatomyOf } from "./anatomy.js";
import { tileColour } from "./palette.js";

/**
 * @typedef {import("../model/types.js").ClusterNode} ClusterNode
 * @typedef {import("../model/types.js").Pod} Pod
 * @typedef {import("../model/types.js").Rect} Rect
 * @typedef {import("../model/state.js").Usage} Usage
 * @typedef {{pod: Pod, colour: keyof import("./palette.js").Colours, now: Rect, to: Rect, leaving: boolean}} Tile now, to: relative to the box
 * @typedef {object} Sprite
 * @property {ClusterNode} node
 * @property {{cpu: number, memory: number, pods: number}} used
 * @property {Rect} now
 * @property {Rect} to
 * @property {number} shown 0 to 1
 * @property {boolean} leaving
 * @property {Map<string, Tile>} tiles
 * @property {Tile[]|null} ordered the tiles by colour, or null when they must be ordered again
 * @property {"no"|"node"|"pods"} match
 * @property {Set<string>|null} found ids of pods that match when only some do
 */

/** @param {ClusterNode} node @param {Rect} to @returns {Sprite} */
export const newSprite = (node, to) => ({
  node, used: { cpu: 0, memory: 0, pods: 0 }, now: { ...to }, to, shown: 0, leaving: false, tiles: new Map(), ordered: null, match: "node", found: null,
});

/** @param {Rect} rect @returns {Rect} nothing, in the middle of its lower edge */
const pointOf = (rect) => ({ x: rect.x + rect.w / 2, y: rect.y + rect.h, w: 0, h: 0 });

/**
 * Tiles are painted in the measures of the size that the box will have: with another size they would leave the box on their way.
 * @param {Sprite} sprite @param {Rect} to the place that the box will have
 */
export function rescale(sprite, to) {
  const [x, y] = [to.w / sprite.to.w, to.h / sprite.to.h];
  for (const { now } of sprite.tiles.values()) Object.assign(now, { x: now.x * x, y: now.y * y, w: now.w * x, h: now.h * y });
}

/** @param {Sprite} sprite @param {Usage} usage sets where the tiles go */
export function retile(sprite, usage) {
  sprite.ordered = null;
  sprite.used = { cpu: usage.cpu, memory: usage.memory, pods: usage.pods.size };
  const targets = layoutTiles([...usage.pods.values()], sprite.node, anatomyOf(sprite.to.w, sprite.to.h).tiles);
  for (const [id, to] of targets) aimTile(sprite, /** @type {Pod} */ (usage.pods.get(id)), to);
  for (const [id, tile] of sprite.tiles) if (!targets.has(id)) dismiss(tile);
}

/** @param {Sprite} sprite @param {Pod} pod @param {Rect} to */
function aimTile(sprite, pod, to) {
  const tile = sprite.tiles.get(pod.id);
  if (tile) Object.assign(tile, { pod, to, leaving: false });
  else sprite.tiles.set(pod.id, { pod, colour: pod.daemon ? "daemon" : tileColour(namespaceOf(pod.name)), now: pointOf(to), to, leaving: false });
}

/** @param {Tile} tile */
function dismiss(tile) {
  if (tile.leaving) return;
  tile.leaving = true;
  tile.to = { x: tile.to.x + tile.to.w / 2, y: tile.to.y + tile.to.h / 2, w: 0, h: 0 };
}

/** @param {Sprite} sprite @returns {Tile[]} neighbours of one colour, which are painted faster; kept until a tile comes or goes */
export function orderedTiles(sprite) {
  sprite.ordered ??= [...sprite.tiles.values()].sort((a, b) => (a.colour < b.colour ? -1 : a.colour > b.colour ? 1 : 0));
  return sprite.ordered;
}

/** @param {Rect} now @param {Rect} to @param {number} part 0 to 1 @returns {boolean} whether it still moves */
export function approach(now, to, part) {
  let distance = 0;
  for (const side of /** @type {const} */ (["x", "y", "w", "h"])) {
    distance = Math.max(distance, Math.abs(to[side] - now[side]));
    now[side] += (to[side] - now[side]) * part;
  }
  if (distance > 0.5) return true;
  Object.assign(now, to);
  return false;
}

/** @param {Sprite} sprite @param {number} part @returns {boolean} whether a tile still moves */
export function stepTiles(sprite, part) {
  let moves = false;
  for (const [id, tile] of sprite.tiles) {
    const going = approach(tile.now, tile.to, part);
    if (tile.leaving && !going) {
      sprite.tiles.delete(id);
      sprite.ordered = null;
    }
    moves ||= going;
  }
  return moves;
}

/** @param {Sprite} sprite @param {number} part @returns {boolean} whether the box itself still moves, grows or fades */
export function stepBox(sprite, part) {
  const moves = approach(sprite.now, sprite.to, part);
  const goal = sprite.leaving ? 0 : 1;
  sprite.shown += (goal - sprite.shown) * part;
  if (Math.abs(goal - sprite.shown) > 0.02) return true;
  sprite.shown = goal;
  return moves;
}
