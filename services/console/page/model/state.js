/**
 * The cluster as the page knows it. A snapshot replaces everything, a change is applied to it; both return what changed.
 * The sums of each node are kept while changes are applied, so that no frame adds up all pods.
 */

/**
 * @typedef {import("./types.js").ClusterNode} ClusterNode
 * @typedef {import("./types.js").Pod} Pod
 * @typedef {import("./types.js").Snapshot} Snapshot
 * @typedef {import("./types.js").Change} Change
 * @typedef {{cpu: number, memory: number, pods: Map<string, Pod>}} Usage
 * @typedef {object} Changed
 * @property {boolean} all everything was replaced
 * @property {Set<string>} nodes ids of nodes that came, went, changed, or whose pods changed
 * @property {boolean} members a node came, went or changed its place in the groups
 * @property {boolean} pending the set of pending pods, or one of them, changed
 */

/** @returns {Changed} */
const nothing = () => ({ all: false, nodes: new Set(), members: false, pending: false });

/** @param {ClusterNode|undefined} before @param {ClusterNode} after */
const movesBetweenGroups = (before, after) =>
  !before || before.pool !== after.pool || before.zone !== after.zone || before.type !== after.type || before.cpu !== after.cpu;

const HEARD_STEP = 10;

export class Cluster {
  /** @type {Map<string, ClusterNode>} */ nodes = new Map();
  /** @type {Map<string, Pod>} */ pods = new Map();
  /** @type {Map<string, Pod>} */ pending = new Map();
  /** @type {Map<string, Usage>} by node id; a pod may arrive before its node */ usage = new Map();
  /** @type {import("./types.js").Trusted} */ trusted = { ok: true, reason: "" };
  name = "";
  version = "";
  at = 0;
  /** Seconds since the epoch: the picture is that of this moment, or a newer one. */ asOf = 0;
  price = 0;

  /** @returns {boolean} whether a picture has arrived: before, "no nodes" would be a false statement */
  get known() {
    return this.at > 0;
  }

  /** @param {Snapshot} snapshot @returns {Changed} */
  replace(snapshot) {
    for (const map of [this.nodes, this.pods, this.pending, this.usage]) map.clear();
    this.name = snapshot.cluster;
    this.version = snapshot.version;
    const changed = nothing();
    this.#put(snapshot, changed);
    this.#note(snapshot);
    return { ...changed, all: true, members: true, pending: true };
  }

  /** @param {Change} change @returns {Changed} */
  apply(change) {
    const changed = nothing();
    for (const id of change.gone.pods) this.#removePod(id, changed);
    for (const id of change.gone.nodes) this.#removeNode(id, changed);
    this.#put(change.put, changed);
    this.#note(change);
    return changed;
  }

  /** @param {string} id @returns {Usage} */
  usageOf(id) {
    return this.usage.get(id) ?? { cpu: 0, memory: 0, pods: new Map() };
  }

  /** @param {{at: number, trusted: import("./types.js").Trusted}} message that the picture holds, or changes nothing */
  confirm(message) {
    this.at = message.at;
    this.trusted = message.trusted;
    const heard = message.trusted.heard ?? 0;
    const asOf = message.at - heard;
    // "heard" is rounded down: less than its step later is the same moment.
    if (heard === 0 || asOf < this.asOf || asOf >= this.asOf + HEARD_STEP) this.asOf = asOf;
  }

  /** @param {{at: number, trusted: import("./types.js").Trusted}} message */
  #note(message) {
    this.confirm(message);
    // Added anew each time: adding and subtracting would let rounding errors grow for days.
    this.price = 0;
    for (const node of this.nodes.values()) this.price += node.price ?? 0;
  }

  /** @param {{nodes: ClusterNode[], pods: Pod[]}} put @param {Changed} changed */
  #put(put, changed) {
    for (const node of put.nodes) this.#putNode(node, changed);
    for (const pod of put.pods) this.#putPod(pod, changed);
  }

  /** @param {ClusterNode} node @param {Changed} changed */
  #putNode(node, changed) {
    if (movesBetweenGroups(this.nodes.get(node.id), node)) changed.members = true;
    this.nodes.set(node.id, node);
    changed.nodes.add(node.id);
  }

  /** @param {string} id @param {Changed} changed */
  #removeNode(id, changed) {
    if (!this.nodes.delete(id)) return;
    changed.members = true;
    changed.nodes.add(id);
  }

  /** @param {Pod} pod @param {Changed} changed */
  #putPod(pod, changed) {
    const before = this.pods.get(pod.id);
    if (before) this.#leaveNode(before, changed);
    this.pods.set(pod.id, pod);
    this.#joinNode(pod, changed);
    if (pod.state === "pending") this.pending.set(pod.id, pod);
    else this.pending.delete(pod.id);
    if (pod.state === "pending" || before?.state === "pending") changed.pending = true;
  }

  /** @param {string} id @param {Changed} changed */
  #removePod(id, changed) {
    const pod = this.pods.get(id);
    if (!pod) return;
    this.pods.delete(id);
    this.#leaveNode(pod, changed);
    if (this.pending.delete(id)) changed.pending = true;
  }

  /** @param {Pod} pod @param {Changed} changed */
  #joinNode(pod, changed) {
    if (!pod.node) return;
    const usage = this.usageOf(pod.node);
    usage.cpu += pod.cpu;
    usage.memory += pod.memory;
    usage.pods.set(pod.id, pod);
    this.usage.set(pod.node, usage);
    changed.nodes.add(pod.node);
  }

  /** @param {Pod} pod @param {Changed} changed */
  #leaveNode(pod, changed) {
    const usage = this.usage.get(pod.node);
    if (!usage?.pods.delete(pod.id)) return;
    usage.cpu -= pod.cpu;
    usage.memory -= pod.memory;
    // An empty entry is dropped: names of nodes come and go for weeks while the page stays open.
    if (usage.pods.size === 0) this.usage.delete(pod.node);
    changed.nodes.add(pod.node);
  }
}
