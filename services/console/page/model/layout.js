/**
 * Where the boxes of nodes stand: each group is a block with a heading, blocks stand on shelves from left to right.
 * The side of a box is the largest of a few steps with which everything fits the screen; else the picture scrolls.
 */

/**
 * @typedef {import("./types.js").Rect} Rect
 * @typedef {import("./grouping.js").Group} Group
 * @typedef {{key: string, count: number} & Rect} Block
 * @typedef {{boxes: Map<string, Rect>, blocks: Block[], height: number, unit: number}} Layout
 * @typedef {{width: number, height: number, label: (key: string, count: number) => number}} Space label: width of a heading
 */

export const HEADING = 22;
const GAP_OF_BLOCKS = 14;
const PADDING = 8;
const ASPECT = 1.3;

// Few steps: with any height allowed, each new node would resize all the others.
const UNITS = [230, 190, 168, 150, 132, 116, 102, 90, 80, 71, 63, 56, 50, 44, 39, 34, 30, 26, 23, 20];

// Of the width: on a phone the largest box must leave room for another one beside it.
const LARGEST = 0.2;

/** @param {number} unit */
const gapOf = (unit) => (unit >= 80 ? 6 : unit >= 40 ? 4 : 2);

/** @param {Group[]} groups @param {Space} space @returns {Layout} */
export function layoutGroups(groups, space) {
  for (const unit of UNITS) {
    if (unit > space.width * LARGEST) continue;
    const layout = layoutWith(unit, groups, space);
    if (layout.height <= space.height) return layout;
  }
  return layoutWith(/** @type {number} */ (UNITS.at(-1)), groups, space);
}

/** @param {number} unit height of a box of weight 1 @param {Group[]} groups @param {Space} space @returns {Layout} */
export function layoutWith(unit, groups, space) {
  const blocks = groups.map((group) => packBlock(group, unit, space));
  // Blocks of one row stand together after the others, where several share a shelf.
  const ordered = [...blocks.filter((block) => block.rows > 1), ...blocks.filter((block) => block.rows <= 1)];
  /** @type {Layout} */
  const layout = { boxes: new Map(), blocks: [], height: 0, unit };
  const shelf = { x: 0, y: 0, h: 0 };
  for (const block of ordered) placeBlock(block, shelf, layout, space.width);
  layout.height = shelf.y + shelf.h;
  return layout;
}

/** @typedef {{group: Group, boxes: Map<string, Rect>, w: number, h: number, rows: number}} Packed */

/** @param {Group} group @param {number} unit @param {Space} space @returns {Packed} */
function packBlock(group, unit, space) {
  const gap = gapOf(unit);
  const limit = space.width - 2 * PADDING;
  /** @type {Packed} */
  const packed = { group, boxes: new Map(), w: 0, h: 0, rows: 1 };
  const row = { x: 0, y: 0, h: 0 };
  for (const item of group.items) {
    const h = Math.round(unit * item.weight);
    const w = Math.min(limit, Math.round(h * ASPECT));
    if (row.x > 0 && row.x + w > limit) startRow(row, packed, gap);
    packed.boxes.set(item.id, { x: row.x, y: row.y, w, h });
    row.h = Math.max(row.h, h);
    packed.w = Math.max(packed.w, row.x + w);
    row.x += w + gap;
  }
  packed.w = Math.min(space.width, Math.max(packed.w, space.label(group.key, group.items.length)) + 2 * PADDING);
  packed.h = row.y + row.h + HEADING + PADDING;
  return packed;
}

/** @param {{x: number, y: number, h: number}} row @param {Packed} packed @param {number} gap */
function startRow(row, packed, gap) {
  row.x = 0;
  row.y += row.h + gap;
  row.h = 0;
  packed.rows += 1;
}

/** @param {Packed} packed @param {{x: number, y: number, h: number}} shelf @param {Layout} layout @param {number} width */
function placeBlock(packed, shelf, layout, width) {
  const w = packed.rows > 1 ? width : packed.w;
  if (shelf.x > 0 && shelf.x + w > width) {
    shelf.y += shelf.h + GAP_OF_BLOCKS;
    shelf.x = shelf.h = 0;
  }
  const { x, y } = shelf;
  layout.blocks.push({ key: packed.group.key, count: packed.group.items.length, x, y, w, h: packed.h });
  for (const [id, box] of packed.boxes) {
    layout.boxes.set(id, { x: x + PADDING + box.x, y: y + HEADING + box.y, w: box.w, h: box.h });
  }
  shelf.x += w + GAP_OF_BLOCKS;
  shelf.h = Math.max(shelf.h, packed.h);
}
