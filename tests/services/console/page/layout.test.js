import assert from "node:assert/strict";
import { test } from "node:test";
import { groupNodes, NOT_MANAGED } from "../../../../services/console/page/model/grouping.js";
import { HEADING, layoutGroups } from "../../../../services/console/page/model/layout.js";
import { layoutTiles, shareOf, squarify } from "../../../../services/console/page/model/tiles.js";
import { aNode, aPod, randomOf } from "./made_up.js";

/** @typedef {import("../../../../services/console/page/model/types.js").Rect} Rect */

const ROUNDING = 1e-6;

/** @param {Rect} a @param {Rect} b */
const overlap = (a, b) =>
  Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x) > ROUNDING && Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y) > ROUNDING;

/** @param {Rect} inner @param {Rect} outer */
const inside = (inner, outer) =>
  inner.w >= 0 && inner.h >= 0 && inner.x >= outer.x - ROUNDING && inner.y >= outer.y - ROUNDING &&
  inner.x + inner.w <= outer.x + outer.w + ROUNDING && inner.y + inner.h <= outer.y + outer.h + ROUNDING;

/** @param {Rect[]} rects @param {Rect} outer @param {string} where */
function assertApart(rects, outer, where) {
  rects.forEach((rect, i) => {
    assert.ok(inside(rect, outer), `${where}: ${JSON.stringify(rect)} leaves ${JSON.stringify(outer)}`);
    for (const other of rects.slice(i + 1)) assert.ok(!overlap(rect, other), `${where}: ${JSON.stringify(rect)} on ${JSON.stringify(other)}`);
  });
}

/** @param {import("./made_up.js").Random} random @param {number} n */
const someNodes = (random, n) => Array.from({ length: n }, (_, i) => aNode({
  id: `n${i}`, pool: random.pick(["", "a", "b", "a-pool-with-a-long-name"]), zone: random.pick(["z-1a", "z-1b"]), type: `t${random.below(30)}`,
  cpu: random.pick([1, 2, 16, 48, 96]) * 1000, created: random.below(1000),
}));

test("tiles never overlap nor leave their box", () => {
  for (let seed = 0; seed < 300; seed += 1) {
    const random = randomOf(seed);
    const node = aNode({ cpu: 1000 + random.below(90_000), memory: 1e9 + random.below(3e9) });
    const pods = Array.from({ length: random.below(110) }, (_, i) => aPod({
      id: `u${i}`, cpu: random.pick([0, 10, 500, random.below(9000)]), memory: random.pick([0, 1e6, random.below(4e9)]), daemon: random.next() < 0.2,
    }));
    const area = { x: 4, y: 20, w: 1 + random.below(300), h: 1 + random.below(200) };
    const tiles = layoutTiles(pods, node, area);
    assert.equal(tiles.size, pods.length);
    assertApart([...tiles.values()], area, `seed ${seed}`);
  }
});

test("the area of a tile is the share of its pod", () => {
  const node = aNode({ cpu: 4000, memory: 8e9 });
  const pods = [aPod({ id: "a", cpu: 1000, memory: 0 }), aPod({ id: "b", cpu: 0, memory: 4e9 })];
  const tiles = layoutTiles(pods, node, { x: 0, y: 0, w: 100, h: 100 });
  const areaOf = (/** @type {string} */ id) => { const tile = /** @type {Rect} */ (tiles.get(id)); return Math.round(tile.w * tile.h); };
  assert.deepEqual([areaOf("a"), areaOf("b")], [2500, 5000]);
});

test("a share is the larger one of cpu and memory, and never nothing", () => {
  assert.equal(shareOf({ cpu: 500, memory: 1e9 }, { cpu: 1000, memory: 8e9 }), 0.5);
  assert.ok(shareOf({ cpu: 0, memory: 0 }, { cpu: 1000, memory: 8e9 }) > 0);
  assert.ok(shareOf({ cpu: 100, memory: 1 }, { cpu: 0, memory: 0 }) > 0);
});

test("squares of equal size stay square", () => {
  const rects = squarify([25, 25, 25, 25], { x: 0, y: 0, w: 10, h: 10 });
  for (const rect of rects) assert.deepEqual([rect.w, rect.h], [5, 5]);
});

test("boxes never overlap nor leave the picture, and stay in the block of their group", () => {
  for (let seed = 0; seed < 60; seed += 1) {
    const random = randomOf(seed);
    const nodes = someNodes(random, random.below(150));
    const space = { width: 300 + random.below(3600), height: 300 + random.below(1800), label: () => 90 };
    const groups = groupNodes(nodes, random.pick(["pool", "zone", "type"]));
    const layout = layoutGroups(groups, space);
    const picture = { x: 0, y: 0, w: space.width, h: layout.height };
    assert.equal(layout.boxes.size, nodes.length);
    assertApart([...layout.boxes.values()], picture, `seed ${seed}`);
    assertApart(layout.blocks, picture, `seed ${seed}: blocks`);
    assertGrouped(groups, layout);
  }
});

/** @param {ReturnType<typeof groupNodes>} groups @param {ReturnType<typeof layoutGroups>} layout */
function assertGrouped(groups, layout) {
  for (const group of groups) {
    const block = layout.blocks.find(({ key }) => key === group.key);
    assert.ok(block);
    const below = { x: block.x, y: block.y + HEADING, w: block.w, h: block.h - HEADING };
    for (const { id } of group.items) assert.ok(inside(/** @type {Rect} */ (layout.boxes.get(id)), below), id);
  }
}

test("boxes are as large as fits", () => {
  const space = { width: 1200, height: 800, label: () => 90 };
  const few = layoutGroups(groupNodes(someNodes(randomOf(1), 5), "pool"), space);
  const many = layoutGroups(groupNodes(someNodes(randomOf(1), 400), "pool"), space);
  assert.ok(few.unit > many.unit);
  assert.ok(few.height <= space.height);
});

test("a node that comes last moves no other while there is room", () => {
  const space = { width: 1200, height: 800, label: () => 90 };
  const nodes = Array.from({ length: 18 }, (_, i) => aNode({ id: `n${i}`, created: i }));
  const before = layoutGroups(groupNodes(nodes, "pool"), space);
  const after = layoutGroups(groupNodes([...nodes, aNode({ id: "new", created: 99 })], "pool"), space);
  assert.equal(after.unit, before.unit);
  for (const [id, box] of before.boxes) assert.deepEqual(after.boxes.get(id), box);
});

test("nodes that Dovetail does not manage are a group of their own, the last one", () => {
  const groups = groupNodes([aNode({ id: "x", pool: "" }), aNode({ id: "y", pool: "z-pool" })], "pool");
  assert.deepEqual(groups.map(({ key }) => key), ["z-pool", NOT_MANAGED]);
});

test("a cluster without nodes has an empty layout", () => {
  assert.deepEqual(layoutGroups([], { width: 100, height: 100, label: () => 0 }).height, 0);
});
