/** Which nodes and pods the reader looks for: every word of the text must be found, and state and capacity type must be equal. */

/**
 * @typedef {import("./types.js").ClusterNode} ClusterNode
 * @typedef {import("./types.js").Pod} Pod
 * @typedef {{words: string[], state: string, capacity: string}} Filter
 */

/** @param {{q: string, state: string, capacity: string}} place @returns {Filter} */
export const filterOf = ({ q, state, capacity }) => ({ words: q.toLowerCase().split(/\s+/).filter(Boolean), state, capacity });

/** @param {Filter} filter */
export const isEmpty = (filter) => filter.words.length === 0 && !filter.state && !filter.capacity;

/** @param {ClusterNode} node */
const textOf = (node) => [node.name, node.machine, node.pool, node.type, node.zone].join("\n").toLowerCase();

/** @param {Filter} filter @param {ClusterNode} node */
const hasFacts = (filter, node) =>
  (!filter.state || node.state === filter.state || node.marks.includes(filter.state)) &&
  (!filter.capacity || node.capacityType === filter.capacity);

/** @param {Filter} filter @param {Pod} pod @param {string} [around] text of its node, whose words count as the pod's */
export function matchesPod(filter, pod, around = "") {
  if (filter.words.length === 0) return true;
  const text = `${pod.name}\n${pod.owner}`.toLowerCase();
  return filter.words.every((word) => text.includes(word) || around.includes(word));
}

/**
 * @param {Filter} filter
 * @param {ClusterNode} node
 * @param {Iterable<Pod>} pods those on the node
 * @returns {"no"|"node"|"pods"} "pods": only some of its pods match, found with `matchesPod` and `around`
 */
export function matchNode(filter, node, pods) {
  if (!hasFacts(filter, node)) return "no";
  const text = textOf(node);
  if (filter.words.every((word) => text.includes(word))) return "node";
  for (const pod of pods) if (matchesPod(filter, pod, text)) return "pods";
  return "no";
}

/** @param {Filter} filter @param {ClusterNode} node @param {Pod[]} pods @returns {Set<string>} ids of the pods that match */
export function matchingPods(filter, node, pods) {
  const text = textOf(node);
  return new Set(pods.filter((pod) => matchesPod(filter, pod, text)).map((pod) => pod.id));
}
