/** The words of a box: states and marks are always also text, for readers who do not see the colours. */

/** @typedef {import("../model/types.js").ClusterNode} ClusterNode */

/** @type {Record<string, string>} two letters where a box is too small for the word; the legend of the page explains them */
export const SHORT = {
  launching: "LA", registering: "RE", initializing: "IN", draining: "DR", terminating: "TE",
  interrupted: "!I", drifted: "!D", expired: "!X", empty: "!E", consolidating: "!C", cordoned: "!N", "not ready": "!R", unhealthy: "!U",
};

/** @param {string} word */
export const shortWord = (word) => SHORT[word] ?? `!${word.slice(0, 1).toUpperCase()}`;

/** @param {ClusterNode} node @returns {string[]} most urgent first; nothing for a ready node without marks */
export function badgesOf(node) {
  const marks = [...node.marks].sort((a, b) => urgency(b) - urgency(a));
  return node.state === "ready" ? marks : [node.state, ...marks];
}

/** @param {string} mark */
const urgency = (mark) => (mark === "interrupted" ? 2 : mark === "unhealthy" || mark === "not ready" ? 1 : 0);
