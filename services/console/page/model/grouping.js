/** Nodes in groups, in an order that does not jump: groups by name, inside by size, then age. */

/**
 * @typedef {import("./types.js").ClusterNode} ClusterNode
 * @typedef {"pool"|"zone"|"type"} Grouping
 * @typedef {{id: string, weight: number}} Item
 * @typedef {{key: string, items: Item[]}} Group
 * @typedef {{price: number, cpu: number, cpuOf: number, memory: number, memoryOf: number}} Sums of requested and allocatable amounts
 */

import { hourly, percent } from "./words.js";

export const NOT_MANAGED = "not managed by Dovetail";

/** @param {ClusterNode} node @param {Grouping} by @returns {string} */
export function groupKey(node, by) {
  if (by === "pool") return node.pool || NOT_MANAGED;
  return node[by] || (by === "zone" ? "no zone yet" : "no type yet");
}

/** @param {number} millicores @returns {number} relative side length of a box: 1 to 2, in few steps so that rows stay even */
export function weightOf(millicores) {
  const cpus = millicores / 1000;
  if (cpus <= 8) return 1;
  if (cpus <= 20) return 1.25;
  if (cpus <= 50) return 1.5;
  return 2;
}

/** @param {ClusterNode} a @param {ClusterNode} b */
const byPlace = (a, b) =>
  weightOf(b.cpu) - weightOf(a.cpu) || a.created - b.created || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** @param {Iterable<ClusterNode>} nodes @param {Grouping} by @returns {Group[]} */
export function groupNodes(nodes, by) {
  /** @type {Map<string, Item[]>} */
  const groups = new Map();
  for (const node of [...nodes].sort(byPlace)) {
    const key = groupKey(node, by);
    const items = groups.get(key) ?? [];
    items.push({ id: node.id, weight: weightOf(node.cpu) });
    groups.set(key, items);
  }
  return [...groups].map(([key, items]) => ({ key, items })).sort(byName);
}

/** @param {Group} a @param {Group} b */
const byName = (a, b) => Number(a.key === NOT_MANAGED) - Number(b.key === NOT_MANAGED) || a.key.localeCompare(b.key);

/**
 * @param {Iterable<ClusterNode>} nodes @param {Grouping} by @param {(id: string) => {cpu: number, memory: number}} usageOf
 * @returns {Map<string, Sums>} by key of the group
 */
export function sumsOf(nodes, by, usageOf) {
  /** @type {Map<string, Sums>} */
  const found = new Map();
  for (const node of nodes) {
    const key = groupKey(node, by);
    const sums = found.get(key) ?? { price: 0, cpu: 0, cpuOf: 0, memory: 0, memoryOf: 0 };
    const used = usageOf(node.id);
    found.set(key, {
      price: sums.price + (node.price ?? 0), cpu: sums.cpu + used.cpu, cpuOf: sums.cpuOf + node.cpu,
      memory: sums.memory + used.memory, memoryOf: sums.memoryOf + node.memory,
    });
  }
  return found;
}

/** @param {Sums} sums @returns {string[]} by importance */
export const wordsOfSums = ({ price, cpu, cpuOf, memory, memoryOf }) =>
  [price > 0 ? hourly(price) : "", cpuOf > 0 ? `cpu ${percent(cpu, cpuOf)}` : "", memoryOf > 0 ? `memory ${percent(memory, memoryOf)}` : ""];
