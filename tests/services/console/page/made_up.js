/** Made-up clusters and changes for the tests, from a seed so that a failure can be repeated. */

/**
 * @typedef {import("../../../../services/console/page/model/types.js").ClusterNode} ClusterNode
 * @typedef {import("../../../../services/console/page/model/types.js").Pod} Pod
 * @typedef {import("../../../../services/console/page/model/types.js").Snapshot} Snapshot
 * @typedef {import("../../../../services/console/page/model/types.js").Change} Change
 * @typedef {{next: () => number, below: (n: number) => number, pick: <T>(items: readonly T[]) => T}} Random
 */

/** @param {number} seed @returns {Random} mulberry32 */
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (/** @type {number} */ n) => Math.floor(next() * n);
  return { next, below, pick: (items) => /** @type {any} */ (items[below(items.length)]) };
}

/** @param {Partial<ClusterNode>} [facts] @returns {ClusterNode} */
export const aNode = (facts = {}) => ({
  id: "NodeClaim/default-a", name: "ip-10-0-0-1", machine: "default-a", pool: "default", type: "m5.large", zone: "us-west-2a", capacityType: "spot",
  price: 0.05, created: 1000, state: "ready", marks: [], why: "", deadline: null, cpu: 2000, memory: 8e9, podLimit: 29, ...facts,
});

/** @param {Partial<Pod>} [facts] @returns {Pod} */
export const aPod = (facts = {}) => ({
  id: "u1", name: "shop/web-1", node: "NodeClaim/default-a", cpu: 250, memory: 2 ** 28, state: "running", since: 1000, daemon: false,
  owner: "ReplicaSet/web", waits: "", ...facts,
});

/** @param {Partial<Snapshot>} [facts] @returns {Snapshot} */
export const aSnapshot = (facts = {}) => ({ id: "a-1", at: 1000, cluster: "test", version: "0", trusted: { ok: true, reason: "" }, nodes: [], pods: [], ...facts });

/** @param {{nodes?: ClusterNode[], pods?: Pod[]}} put @param {{nodes?: string[], pods?: string[]}} [gone] @returns {Change} */
export const aChange = (put, gone = {}) => ({
  id: "a-2", at: 1001, trusted: { ok: true, reason: "" }, put: { nodes: [], pods: [], ...put }, gone: { nodes: [], pods: [], ...gone },
});

/** @param {Random} random @returns {ClusterNode} */
export function someNode(random) {
  const id = `NodeClaim/n${random.below(12)}`;
  const size = random.pick([2, 8, 16, 48, 96]);
  return aNode({
    id, name: random.pick(["", `ip-${id}`]), pool: random.pick(["", "default", "batch"]), zone: random.pick(["us-west-2a", "us-west-2b"]),
    cpu: size * 1000, memory: size * 4e9, price: random.pick([null, size / 20]), state: random.pick(["launching", "ready", "draining"]),
  });
}

/** @param {Random} random @returns {Pod} on a node that may not exist (yet) */
export function somePod(random) {
  const n = random.below(60);
  const pending = random.next() < 0.2;
  return aPod({
    id: `u${n}`, name: `${random.pick(["shop", "data"])}/p${n}`, node: pending ? "" : `NodeClaim/n${random.below(12)}`, cpu: random.below(3000),
    memory: random.below(4e9), state: pending ? "pending" : random.pick(["starting", "running", "terminating"]), waits: pending ? "capacity" : "",
  });
}

/** @template T @param {number} most @param {Random} random @param {() => T} make @returns {T[]} */
export const several = (most, random, make) => Array.from({ length: random.below(most + 1) }, make);

/** @param {{id: string}[]} items @returns {any[]} the last one of each id, as a server sends it */
export const lastOfEach = (items) => [...new Map(items.map((item) => [item.id, item])).values()];
