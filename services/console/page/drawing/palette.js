/** The colours of the canvas, read from the custom properties of the page so that both themes stand in one style sheet. */

const NAMES = /** @type {const} */ ([
  "surface", "box", "line", "text", "muted", "accent", "bar", "bar-back", "chip", "chip-text", "focus", "daemon",
  "launching", "registering", "initializing", "ready", "draining", "terminating", "mark",
  "tile-0", "tile-1", "tile-2", "tile-3", "tile-4", "tile-5", "tile-6", "tile-7",
]);

/** @typedef {Record<typeof NAMES[number], string>} Colours */
/** @typedef {{colours: Colours, hatches: Map<string, CanvasPattern|null>, context: CanvasRenderingContext2D}} Palette */

/** @param {CanvasRenderingContext2D} context @returns {Palette} */
export function readPalette(context) {
  const style = getComputedStyle(document.documentElement);
  const entries = NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "#888888"]);
  return { colours: /** @type {Colours} */ (Object.fromEntries(entries)), hatches: new Map(), context };
}

/** @type {Record<string, {step: number, lines: ("/"|"\\")[]}>} states differ in the direction and density of lines, not only in colour */
const HATCHES = {
  launching: { step: 12, lines: ["/"] },
  registering: { step: 8, lines: ["/"] },
  initializing: { step: 5, lines: ["/"] },
  draining: { step: 7, lines: ["\\"] },
  terminating: { step: 7, lines: ["/", "\\"] },
};

/** @param {Palette} palette @param {string} state @returns {CanvasPattern|null} */
export function hatchOf(palette, state) {
  const hatch = HATCHES[state];
  if (!hatch) return null;
  if (!palette.hatches.has(state)) {
    const colour = palette.colours[/** @type {keyof Colours} */ (state)];
    palette.hatches.set(state, palette.context.createPattern(drawHatch(hatch.step, hatch.lines, colour), "repeat"));
  }
  return palette.hatches.get(state) ?? null;
}

/** @param {number} step @param {("/"|"\\")[]} lines @param {string} colour */
function drawHatch(step, lines, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = step;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.strokeStyle = colour;
  context.beginPath();
  // Each line is drawn three times, so that the corners of neighbouring copies meet.
  for (const shift of [-step, 0, step]) {
    if (lines.includes("/")) line(context, shift, step, shift + step, 0);
    if (lines.includes("\\")) line(context, shift, 0, shift + step, step);
  }
  context.stroke();
  return canvas;
}

/** @param {CanvasRenderingContext2D} context @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 */
function line(context, x1, y1, x2, y2) {
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
}

/** @param {string} namespace @returns {keyof Colours} one of eight colours, the same for the same namespace */
export function tileColour(namespace) {
  let hash = 7;
  for (let i = 0; i < namespace.length; i += 1) hash = (hash * 31 + namespace.charCodeAt(i)) >>> 0;
  return /** @type {keyof Colours} */ (`tile-${hash % 8}`);
}
