import assert from "node:assert/strict";
import { test } from "node:test";
import { filterOf, isEmpty, matchingPods, matchNode } from "../../../../services/console/page/model/filter.js";
import { aNode, aPod } from "./made_up.js";

const of = (/** @type {Partial<{q: string, state: string, capacity: string}>} */ place) => filterOf({ q: "", state: "", capacity: "", ...place });

test("an empty filter matches every node", () => {
  assert.ok(isEmpty(of({ q: "  " })));
  assert.equal(matchNode(of({}), aNode(), []), "node");
});

test("text is found in name, machine, pool, type and zone, in any case", () => {
  for (const q of ["IP-10-0", "default-a", "default", "M5.large", "west-2a"]) assert.equal(matchNode(of({ q }), aNode(), []), "node", q);
  assert.equal(matchNode(of({ q: "other" }), aNode(), []), "no");
});

test("text is found in pods, by namespace and name", () => {
  const pods = [aPod({ id: "a", name: "shop/web-1" }), aPod({ id: "b", name: "data/db-1", owner: "StatefulSet/db" })];
  assert.equal(matchNode(of({ q: "data/" }), aNode(), pods), "pods");
  assert.deepEqual(matchingPods(of({ q: "data/" }), aNode(), pods), new Set(["b"]));
});

test("every word must be found: some in the node, others in the pod", () => {
  const pods = [aPod({ name: "shop/web-1" })];
  assert.equal(matchNode(of({ q: "m5.large shop/" }), aNode(), pods), "pods");
  assert.equal(matchNode(of({ q: "m5.xlarge shop/" }), aNode(), pods), "no");
});

test("state means a state or a mark", () => {
  const node = aNode({ state: "ready", marks: ["drifted"] });
  assert.equal(matchNode(of({ state: "ready" }), node, []), "node");
  assert.equal(matchNode(of({ state: "drifted" }), node, []), "node");
  assert.equal(matchNode(of({ state: "draining" }), node, []), "no");
});

test("capacity type must be equal", () => {
  assert.equal(matchNode(of({ capacity: "spot" }), aNode(), []), "node");
  assert.equal(matchNode(of({ capacity: "on-demand" }), aNode(), []), "no");
});
