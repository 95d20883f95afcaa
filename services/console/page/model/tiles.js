/** Where the tiles of pods stand inside a node: the area of a tile is the pod's share of what the node can give. */

/**
 * @typedef {import("./types.js").Rect} Rect
 * @typedef {import("./types.js").Pod} Pod
 */

// A pod without requests still gets a tile that can be seen.
const SMALLEST_SHARE = 0.004;

/** @param {{cpu: number, memory: number}} pod @param {{cpu: number, memory: number}} node @returns {number} 0 to 1 */
export function shareOf(pod, node) {
  const cpu = node.cpu > 0 ? pod.cpu / node.cpu : 0;
  const memory = node.memory > 0 ? pod.memory / node.memory : 0;
  return Math.min(1, Math.max(cpu, memory, SMALLEST_SHARE));
}

/**
 * @param {Pod[]} pods
 * @param {{cpu: number, memory: number}} node
 * @param {Rect} area
 * @returns {Map<string, Rect>} by pod id; filled from the bottom, the free part stays at the top
 */
export function layoutTiles(pods, node, area) {
  const shares = pods.map((pod) => ({ id: pod.id, daemon: pod.daemon, share: shareOf(pod, node) }));
  shares.sort((a, b) => Number(b.daemon) - Number(a.daemon) || b.share - a.share || (a.id < b.id ? -1 : 1));
  const sum = shares.reduce((total, item) => total + item.share, 0);
  // cpu of one pod and memory of another may add up to more than the node: then all tiles shrink alike.
  const filled = Math.min(1, sum);
  const rect = { x: area.x, y: area.y + area.h * (1 - filled), w: area.w, h: area.h * filled };
  const scale = sum > 0 ? (rect.w * rect.h) / sum : 0;
  const rects = squarify(shares.map((item) => item.share * scale), rect);
  return new Map(shares.map((item, i) => [item.id, /** @type {Rect} */ (rects[i])]));
}

/**
 * Bruls, Huizing, van Wijk: rows along the shorter side, each as long as its tiles become squarer.
 * @param {number[]} areas whose sum is the area of `rect` @param {Rect} rect @returns {Rect[]} in the same order
 */
export function squarify(areas, rect) {
  /** @type {Rect[]} */
  const rects = [];
  let rest = { ...rect };
  for (let start = 0; start < areas.length; ) {
    const side = Math.min(rest.w, rest.h);
    const end = endOfRow(areas, start, side);
    rest = placeRow(areas.slice(start, end), rest, end === areas.length, rects);
    start = end;
  }
  return rects;
}

/** @param {number[]} areas @param {number} start @param {number} side @returns {number} */
function endOfRow(areas, start, side) {
  let sum = 0;
  let least = Infinity;
  let most = 0;
  let worst = Infinity;
  for (let end = start; end < areas.length; end += 1) {
    const area = /** @type {number} */ (areas[end]);
    sum += area;
    least = Math.min(least, area);
    most = Math.max(most, area);
    const ratio = Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
    if (ratio > worst) return end;
    worst = ratio;
  }
  return areas.length;
}

/** @param {number[]} row @param {Rect} rest @param {boolean} last @param {Rect[]} rects @returns {Rect} what is left of `rest` */
function placeRow(row, rest, last, rects) {
  const sum = row.reduce((total, area) => total + area, 0);
  const wide = rest.w >= rest.h;
  const side = wide ? rest.h : rest.w;
  const whole = wide ? rest.w : rest.h;
  // The last row takes all that is left: rounding must not push it over the edge.
  const depth = last ? whole : Math.min(whole, side > 0 ? sum / side : 0);
  let offset = 0;
  for (const area of row) {
    const length = sum > 0 ? Math.min(side - offset, (area / sum) * side) : 0;
    rects.push(wide ? { x: rest.x, y: rest.y + offset, w: depth, h: length } : { x: rest.x + offset, y: rest.y, w: length, h: depth });
    offset += length;
  }
  if (wide) return { x: rest.x + depth, y: rest.y, w: rest.w - depth, h: rest.h };
  return { x: rest.x, y: rest.y + depth, w: rest.w, h: rest.h - depth };
}
