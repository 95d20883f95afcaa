/** The words of a box: states and marks are always also text, for readers who do not see the colours. */

/** @typedef {import("../model/types.js").ClusterNode} ClusterNode */

/** @type {Record<string, string>} two letters where a box is too small for the word; the legend of the page explains them */
export const SHORT = {
  launching: "LA", registering: "RE", initializing: "IN", draining: "DR", terminating: "TE",
  interrupted: "!I", "rebalance recommended": "!B", maintenance: "!M", "leaving its group": "!G", impaired: "!U", drifted: "!D", expired: "!X",
  empty: "!E", "being replaced": "!C", cordoned: "!N", "not ready": "!R",
};

// Nearly every node may be consolidated nearly always: it stands in the details and can be filtered, and marks no box.
const QUIET = "consolidatable";

// Of these the cloud takes the node away, or it does not work: they stand first.
const URGENT = ["interrupted", "impaired", "not ready", "maintenance", "leaving its group", "rebalance recommended"];

/** @param {string} word */
export const shortWord = (word) => SHORT[word] ?? `!${word.slice(0, 1).toUpperCase()}`;

/** @param {ClusterNode} node @returns {string[]} what is worth a mark on the box, most urgent first */
export const marksOf = (node) => node.marks.filter((mark) => mark !== QUIET).sort((a, b) => urgency(a) - urgency(b));

/** @param {ClusterNode} node @returns {string[]} most urgent first; nothing for a ready node without marks */
export const badgesOf = (node) => (node.state === "ready" ? marksOf(node) : [node.state, ...marksOf(node)]);

/** @param {string} mark */
const urgency = (mark) => (URGENT.indexOf(mark) + URGENT.length + 1) % (URGENT.length + 1);
