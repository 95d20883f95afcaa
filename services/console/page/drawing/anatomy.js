/** The parts of a box by its size. Pure: the scene places tiles with it, the painter paints with it. */

/**
 * @typedef {import("../model/types.js").Rect} Rect
 * @typedef {"large"|"medium"|"small"} Level
 * @typedef {{level: Level, pad: number, tiles: Rect, bars: Rect}} Anatomy all relative to the corner of the box
 */

/** @param {number} height @returns {Level} */
const levelOf = (height) => (height >= 100 ? "large" : height >= 44 ? "medium" : "small");

const SIZES = {
  large: { pad: 7, head: 32, bars: 17 },
  medium: { pad: 4, head: 14, bars: 10 },
  small: { pad: 3, head: 0, bars: 6 },
};

/** @param {number} height @returns {number} large boxes have larger text: large screens are looked at from further away */
export const zoomOf = (height) => (height >= 190 ? 1.5 : 1);

/** @param {number} w @param {number} h @returns {Anatomy} */
export function anatomyOf(w, h) {
  const zoom = zoomOf(h);
  if (zoom === 1) return plainAnatomyOf(w, h);
  const { level, pad, tiles, bars } = plainAnatomyOf(w / zoom, h / zoom);
  return { level, pad: pad * zoom, tiles: zoomed(tiles, zoom), bars: zoomed(bars, zoom) };
}

/** @param {Rect} rect @param {number} zoom @returns {Rect} */
const zoomed = ({ x, y, w, h }, zoom) => ({ x: x * zoom, y: y * zoom, w: w * zoom, h: h * zoom });

/** @param {number} w @param {number} h @returns {Anatomy} before the zoom */
export function plainAnatomyOf(w, h) {
  const level = levelOf(h);
  const { pad, head, bars } = SIZES[level];
  const inner = Math.max(1, w - 2 * pad);
  return {
    level, pad,
    tiles: { x: pad, y: pad + head, w: inner, h: Math.max(1, h - 2 * pad - head - bars) },
    bars: { x: pad, y: h - pad - bars + 2, w: inner, h: bars - 2 },
  };
}
