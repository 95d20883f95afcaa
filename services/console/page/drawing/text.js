/** Text on the canvas that never leaves its place. */

/** @type {Map<string, number>} */
const widths = new Map();
const MOST_WIDTHS = 4000;

/** @param {CanvasRenderingContext2D} context @param {string} text */
export function widthOf(context, text) {
  const key = `${context.font}|${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    // Measuring is slow, names are endless: the cache is emptied when full.
    if (widths.size >= MOST_WIDTHS) widths.clear();
    width = context.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** @param {CanvasRenderingContext2D} context @param {string} text @param {number} room @returns {string} shortened with "…" */
export function fit(context, text, room) {
  if (widthOf(context, text) <= room) return text;
  let length = Math.min(text.length - 1, Math.floor((text.length * room) / widthOf(context, text)));
  while (length > 1 && widthOf(context, `${text.slice(0, length)}…`) > room) length -= 1;
  return length > 1 ? `${text.slice(0, length)}…` : "";
}

/** @param {CanvasRenderingContext2D} context @param {string[]} words by importance @param {number} room @returns {string} as many words as fit */
export function fitWords(context, words, room) {
  let text = "";
  for (const word of words.filter(Boolean)) {
    const longer = text ? `${text} · ${word}` : word;
    if (widthOf(context, longer) > room) break;
    text = longer;
  }
  return text;
}

export const FONTS = {
  title: "600 11px system-ui, sans-serif",
  small: "10px system-ui, sans-serif",
  badge: "600 9px system-ui, sans-serif",
  heading: "600 12px system-ui, sans-serif",
  sums: "11px system-ui, sans-serif",
};
