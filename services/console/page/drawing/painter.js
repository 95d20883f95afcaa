/** Paints boxes on the canvas. Knows nothing of time: it paints what a sprite is at this moment. */

import { badgesOf, marksOf, shortWord } from "./badges.js";
import { anatomyOf, plainAnatomyOf, zoomOf } from "./anatomy.js";
import { hatchOf } from "./palette.js";
import { paintTiles } from "./tile_painter.js";
import { fit, fitWords, FONTS, widthOf } from "./text.js";
import { duration, hourly, shortDuration, shortZone } from "../model/words.js";

/**
 * @typedef {import("./sprite.js").Sprite} Sprite
 * @typedef {import("./palette.js").Palette} Palette
 * @typedef {import("./anatomy.js").Anatomy} Anatomy
 * @typedef {import("../model/types.js").Rect} Rect
 * @typedef {{palette: Palette, now: number, focused: string, chosen: string, pod: string}} Look now: for ages; pod: name of the chosen pod
 */

const DIMMED = 0.22;
// Three names such as "cpu 61%" beside each other need as much.
const ROOM_FOR_NAMES = 132;
/** @type {Record<string, number[]>} */
const DASHES = { launching: [2, 3], registering: [4, 3], initializing: [8, 3], draining: [6, 2, 1, 2], terminating: [1, 2] };

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look */
export function paintBox(context, sprite, look) {
  const { now, shown } = sprite;
  context.save();
  context.globalAlpha = shown * (sprite.match === "no" ? DIMMED : 1);
  const grown = 0.7 + 0.3 * shown;
  context.translate(now.x + (now.w * (1 - grown)) / 2, now.y + (now.h * (1 - grown)) / 2);
  context.scale(grown, grown);
  paintGround(context, sprite, look);
  paintTiles(context, sprite, look, anatomyOf(now.w, now.h));
  paintBorder(context, sprite, look);
  paintWords(context, sprite, look);
  context.restore();
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look */
function paintWords(context, sprite, look) {
  const zoom = zoomOf(sprite.now.h);
  const box = { ...sprite.now, w: sprite.now.w / zoom, h: sprite.now.h / zoom };
  const anatomy = plainAnatomyOf(box.w, box.h);
  context.scale(zoom, zoom);
  context.setLineDash([]);
  paintHead(context, { ...sprite, now: box }, look, anatomy);
  paintBars(context, { ...sprite, now: box }, look, anatomy);
}

/** @param {CanvasRenderingContext2D} context @param {Rect} rect @param {number} inset */
function outline(context, rect, inset) {
  context.beginPath();
  context.roundRect(inset, inset, rect.w - 2 * inset, rect.h - 2 * inset, rect.h >= 44 ? 6 : 3);
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look */
function paintGround(context, sprite, { palette }) {
  outline(context, sprite.now, 0.5);
  context.fillStyle = palette.colours.box;
  context.fill();
  const hatch = hatchOf(palette, sprite.node.state);
  if (!hatch) return;
  const alpha = context.globalAlpha;
  context.globalAlpha = alpha * 0.45;
  context.fillStyle = hatch;
  // Only behind the tiles: no text is read through lines.
  const { x, y, w, h } = anatomyOf(sprite.now.w, sprite.now.h).tiles;
  context.fillRect(x, y, w, h);
  context.globalAlpha = alpha;
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look */
function paintBorder(context, sprite, look) {
  const { colours } = look.palette;
  const { id, state } = sprite.node;
  const marks = marksOf(sprite.node);
  outline(context, sprite.now, 0.75);
  context.setLineDash(DASHES[state] ?? []);
  context.lineWidth = state === "ready" && marks.length === 0 ? 1 : 1.5;
  context.strokeStyle = state === "ready" ? (marks.length ? colours.mark : colours.line) : colours[state] ?? colours.line;
  context.stroke();
  if (id !== look.focused && id !== look.chosen) return;
  outline(context, sprite.now, 1.5);
  context.setLineDash([]);
  context.lineWidth = 3;
  context.strokeStyle = id === look.focused ? colours.focus : colours.accent;
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look @param {Anatomy} anatomy */
function paintHead(context, sprite, look, anatomy) {
  const badges = badgesOf(sprite.node);
  context.textBaseline = "middle";
  if (anatomy.level === "small") return paintShortBadge(context, sprite, look, badges);
  const { pad } = anatomy;
  const room = sprite.now.w - 2 * pad;
  const y = pad + (anatomy.level === "large" ? 7 : 6);
  const used = paintBadges(context, sprite, look, { badges, y, room: anatomy.level === "large" ? room * 0.62 : room * 0.5 });
  context.font = FONTS.title;
  context.fillStyle = look.palette.colours.text;
  context.fillText(fit(context, sprite.node.type || "?", room - used), pad, y);
  if (anatomy.level === "large") paintFacts(context, sprite, look, { x: pad, y: pad + 22, room });
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look @param {{x: number, y: number, room: number}} place */
function paintFacts(context, { node }, look, { x, y, room }) {
  context.font = FONTS.small;
  context.fillStyle = look.palette.colours.muted;
  const price = node.price === null ? "" : hourly(node.price);
  const left = node.deadline === null ? "" : `ends in ${duration(node.deadline - look.now)}`;
  const words = [left, shortZone(node.zone), node.capacityType, price, shortDuration(look.now - node.created)];
  context.fillText(fitWords(context, words, room), x, y);
}

/**
 * @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look
 * @param {{badges: string[], y: number, room: number}} what
 * @returns {number} width used at the right end
 */
function paintBadges(context, sprite, look, { badges, y, room }) {
  if (badges.length === 0) return 0;
  context.font = FONTS.badge;
  const first = /** @type {string} */ (badges[0]);
  const more = badges.length > 1 ? ` +${badges.length - 1}` : "";
  const long = badges.join(" · ");
  const text = [long, first + more, first].find((words) => widthOf(context, words) + 8 <= room) ?? shortWord(first) + more;
  const w = widthOf(context, text) + 8;
  paintChip(context, look, { text, x: sprite.now.w - plainAnatomyOf(sprite.now.w, sprite.now.h).pad - w, y: y - 6.5, w, h: 13, state: sprite.node.state });
  return w + 4;
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look @param {string[]} badges */
function paintShortBadge(context, sprite, look, badges) {
  if (badges.length === 0 || sprite.now.h < 18) return;
  context.font = FONTS.badge;
  const text = shortWord(/** @type {string} */ (badges[0]));
  const w = Math.min(sprite.now.w - 2, widthOf(context, text) + 6);
  paintChip(context, look, { text, x: (sprite.now.w - w) / 2, y: sprite.now.h / 2 - 7, w, h: 12, state: sprite.node.state });
}

/** @param {CanvasRenderingContext2D} context @param {Look} look @param {{text: string, state: string} & Rect} chip */
function paintChip(context, { palette }, { text, x, y, w, h, state }) {
  const { colours } = palette;
  context.beginPath();
  context.roundRect(x, y, w, h, 3);
  context.fillStyle = colours.chip;
  context.fill();
  context.strokeStyle = state === "ready" ? colours.mark : colours[/** @type {keyof typeof colours} */ (state)];
  context.lineWidth = 1;
  context.stroke();
  context.fillStyle = colours["chip-text"];
  context.textAlign = "center";
  context.fillText(text, x + w / 2, y + h / 2 + 0.5);
  context.textAlign = "left";
}

/** @param {CanvasRenderingContext2D} context @param {Sprite} sprite @param {Look} look @param {Anatomy} anatomy */
function paintBars(context, sprite, look, anatomy) {
  const { node, used } = sprite;
  const named = anatomy.level === "large" && anatomy.bars.w >= ROOM_FOR_NAMES;
  const parts = [["cpu", used.cpu, node.cpu], ["mem", used.memory, node.memory], ["pods", used.pods, node.podLimit]];
  parts.forEach(([name, part, whole], index) => {
    const share = Number(whole) > 0 ? Math.min(1, Number(part) / Number(whole)) : 0;
    const rect = named ? columnOf(anatomy.bars, index) : rowOf(anatomy.bars, index);
    paintBar(context, look, rect, share);
    if (named) paintBarName(context, look, rect, [`${name} ${Math.round(share * 100)}%`, `${Math.round(share * 100)}%`]);
  });
}

/** @param {Rect} bars @param {number} index @returns {Rect} */
const columnOf = (bars, index) => ({ x: bars.x + (index * (bars.w + 5)) / 3, y: bars.y + bars.h - 3, w: (bars.w - 10) / 3, h: 3 });

/** @param {Rect} bars @param {number} index @returns {Rect} */
const rowOf = (bars, index) => ({ x: bars.x, y: bars.y + (index * bars.h) / 3, w: bars.w, h: bars.h >= 8 ? 2 : 1 });

/** @param {CanvasRenderingContext2D} context @param {Look} look @param {Rect} rect @param {number} share 0 to 1 */
function paintBar(context, { palette }, { x, y, w, h }, share) {
  context.fillStyle = palette.colours["bar-back"];
  context.fillRect(x, y, w, h);
  context.fillStyle = palette.colours.bar;
  context.fillRect(x, y, w * share, h);
}

/** @param {CanvasRenderingContext2D} context @param {Look} look @param {Rect} rect @param {string[]} texts the first one that fits */
function paintBarName(context, { palette }, { x, y, w }, texts) {
  context.font = "9px system-ui, sans-serif";
  context.fillStyle = palette.colours.muted;
  context.fillText(texts.find((text) => widthOf(context, text) <= w + 3) ?? "", x, y - 5.5);
}
