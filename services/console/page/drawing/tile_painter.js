/** Paints the tiles of one box: many small rectangles, so that the fill colour is set once per colour and not once per tile. */

import { orderedTiles } from "./sprite.js";

/**
 * @typedef {import("./sprite.js").Sprite} Sprite
 * @typedef {import("./sprite.js").Tile} Tile
 * @typedef {import("./painter.js").Look} Look
 */

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look @param {import("./anatomy.js").Anatomy} anatomy */
export function paintTiles(context, sprite, look, anatomy) {
  if (sprite.tiles.size === 0) return;
  context.save();
  // Tiles are placed for the size that the box will have; on the way there they are stretched.
  context.scale(sprite.now.w / sprite.to.w, sprite.now.h / sprite.to.h);
  const gap = anatomy.level === "small" ? 0.5 : 1;
  const tiles = orderedTiles(sprite);
  let colour = "";
  for (const tile of tiles) {
    if (tile.colour !== colour) context.fillStyle = look.palette.colours[tile.colour];
    colour = tile.colour;
    paintTile(context, tile, gap, sprite.found);
  }
  paintStates(context, tiles, look);
  context.restore();
}

/** @param {CanvasRenderingContext2D} context @param {Tile} tile @param {number} gap @param {Set<string>|null} found */
function paintTile(context, { pod, now }, gap, found) {
  const share = found && !found.has(pod.id) ? 0.18 : pod.state === "running" ? 1 : 0.45;
  const alpha = context.globalAlpha;
  if (share < 1) context.globalAlpha = alpha * share;
  context.fillRect(now.x, now.y, Math.max(0.5, now.w - gap), Math.max(0.5, now.h - gap));
  if (share < 1) context.globalAlpha = alpha;
}

/**
 * A pod that starts has an outline, one that terminates a stroke through it.
 * @param {CanvasRenderingContext2D} context @param {Tile[]} tiles @param {Look} look
 */
function paintStates(context, tiles, look) {
  for (const tile of tiles) {
    const chosen = tile.pod.name === look.pod;
    if ((tile.pod.state === "running" && !chosen) || tile.now.w < 5 || tile.now.h < 5) continue;
    context.strokeStyle = chosen ? look.palette.colours.focus : look.palette.colours.muted;
    strokeTile(context, tile, chosen);
  }
}

/** @param {CanvasRenderingContext2D} context @param {Tile} tile @param {boolean} chosen */
function strokeTile(context, { pod, now: { x, y, w, h } }, chosen) {
  context.lineWidth = chosen ? 2 : 1;
  context.beginPath();
  if (pod.state === "terminating" && !chosen) {
    context.moveTo(x + 1, y + h - 2);
    context.lineTo(x + w - 2, y + 1);
  } else {
    context.rect(x + 1, y + 1, w - 3, h - 3);
  }
  context.stroke();
}
