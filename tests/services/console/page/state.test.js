import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "../../../../services/console/page/model/state.js";
import { aChange, aNode, aPod, aSnapshot, lastOfEach, randomOf, several, someNode, somePod } from "./made_up.js";

/** @param {Cluster} cluster all that can be seen of it, without the order in which it came */
function seen(cluster) {
  const byKey = (/** @type {Map<string, any>} */ map) => Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
  const usage = Object.fromEntries([...cluster.usage].map(([id, { cpu, memory, pods }]) => [id, { cpu, memory, pods: [...pods.keys()].sort() }]).sort());
  return { nodes: byKey(cluster.nodes), pods: byKey(cluster.pods), pending: byKey(cluster.pending), usage, price: cluster.price.toFixed(6) };
}

/** @param {import("./made_up.js").Random} random */
function someChange(random) {
  const gone = { nodes: several(2, random, () => someNode(random).id), pods: several(5, random, () => somePod(random).id) };
  const put = { nodes: lastOfEach(several(3, random, () => someNode(random))), pods: lastOfEach(several(8, random, () => somePod(random))) };
  return aChange(put, gone);
}

test("any sequence of changes equals the snapshot at its end", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const random = randomOf(seed);
    const changed = new Cluster();
    changed.replace(aSnapshot({ nodes: lastOfEach(several(6, random, () => someNode(random))), pods: lastOfEach(several(20, random, () => somePod(random))) }));
    for (let i = 0; i < 30; i += 1) changed.apply(someChange(random));
    const whole = new Cluster();
    whole.replace(aSnapshot({ nodes: [...changed.nodes.values()], pods: [...changed.pods.values()] }));
    assert.deepEqual(seen(changed), seen(whole), `seed ${seed}`);
  }
});

test("a change names every node whose picture it changes", () => {
  for (let seed = 0; seed < 100; seed += 1) {
    const random = randomOf(seed);
    const cluster = new Cluster();
    for (let i = 0; i < 20; i += 1) {
      const before = seen(cluster);
      const changed = cluster.apply(someChange(random));
      const after = seen(cluster);
      for (const id of new Set([...Object.keys(before.nodes), ...Object.keys(after.nodes)])) {
        const same = isSame(before.nodes[id], after.nodes[id]) && isSame(before.usage[id], after.usage[id]);
        assert.ok(same || changed.nodes.has(id), `seed ${seed}: ${id}`);
      }
      assert.ok(changed.pending || isSame(before.pending, after.pending), `seed ${seed}: pending`);
    }
  }
});

/** @param {unknown} a @param {unknown} b */
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

test("nothing is kept of pods and nodes that went", () => {
  const cluster = new Cluster();
  for (let i = 0; i < 20_000; i += 1) {
    const node = aNode({ id: `NodeClaim/n${i}` });
    const pod = aPod({ id: `u${i}`, node: node.id });
    const waiting = aPod({ id: `w${i}`, node: "", state: "pending" });
    cluster.apply(aChange({ nodes: [node], pods: [pod, waiting] }));
    cluster.apply(aChange({}, { nodes: [node.id], pods: [pod.id, waiting.id] }));
  }
  assert.deepEqual([cluster.nodes.size, cluster.pods.size, cluster.pending.size, cluster.usage.size], [0, 0, 0, 0]);
});

test("a pod that arrives before its node is counted when the node comes", () => {
  const cluster = new Cluster();
  cluster.apply(aChange({ pods: [aPod({ cpu: 300 })] }));
  cluster.apply(aChange({ nodes: [aNode()] }));
  assert.equal(cluster.usageOf("NodeClaim/default-a").cpu, 300);
});

test("a pod that is placed leaves the pending ones and is counted on its node", () => {
  const cluster = new Cluster();
  cluster.replace(aSnapshot({ nodes: [aNode()], pods: [aPod({ node: "", state: "pending", waits: "capacity" })] }));
  assert.equal(cluster.pending.size, 1);
  const changed = cluster.apply(aChange({ pods: [aPod({ state: "starting" })] }));
  assert.deepEqual([cluster.pending.size, changed.pending, cluster.usageOf("NodeClaim/default-a").pods.size], [0, true, 1]);
});

test("a node that only changes its state does not move the others", () => {
  const cluster = new Cluster();
  cluster.replace(aSnapshot({ nodes: [aNode()] }));
  assert.equal(cluster.apply(aChange({ nodes: [aNode({ state: "draining" })] })).members, false);
  assert.equal(cluster.apply(aChange({ nodes: [aNode({ zone: "us-west-2c" })] })).members, true);
});

test("the price is the sum of the nodes of which it is known", () => {
  const cluster = new Cluster();
  cluster.replace(aSnapshot({ nodes: [aNode({ id: "a", price: 0.1 }), aNode({ id: "b", price: null }), aNode({ id: "c", price: 0.2 })] }));
  assert.equal(cluster.price.toFixed(6), "0.300000");
});

test("the moment of the data stands still while the API server is not heard", () => {
  const cluster = new Cluster();
  const heard = (/** @type {number} */ at, /** @type {number} */ seconds) => {
    cluster.confirm({ at, trusted: { ok: true, reason: "", heard: seconds } });
    return cluster.asOf;
  };
  assert.deepEqual([heard(100, 0), heard(112, 10), heard(117, 10), heard(121, 20)], [100, 100, 100, 100]);
  assert.deepEqual([heard(150, 0), heard(165, 10)], [150, 150]);
});
