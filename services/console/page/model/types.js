/**
 * The shapes that the server of the console sends. Times are seconds since the epoch, cpu is millicores, memory is bytes,
 * prices are US dollars an hour.
 *
 * @typedef {{ok: boolean, reason: string, missing?: string, heard?: number}} Trusted missing: what the picture lacks although it
 *   can be relied on; heard: whole tens of seconds since the API server sent anything
 *
 * @typedef {"launching"|"registering"|"initializing"|"ready"|"draining"|"terminating"} NodeState
 *
 * @typedef {object} ClusterNode
 * @property {string} id
 * @property {string} name
 * @property {string} machine
 * @property {string} pool
 * @property {string} type
 * @property {string} zone
 * @property {string} capacityType
 * @property {number|null} price
 * @property {number} created
 * @property {NodeState} state
 * @property {string[]} marks
 * @property {string} why
 * @property {number|null} deadline
 * @property {number} cpu
 * @property {number} memory
 * @property {number} podLimit
 *
 * @typedef {object} Pod
 * @property {string} id
 * @property {string} name
 * @property {string} node
 * @property {number} cpu
 * @property {number} memory
 * @property {"pending"|"starting"|"running"|"terminating"} state
 * @property {number} since
 * @property {boolean} daemon
 * @property {string} owner
 * @property {""|"scheduling"|"capacity"|"nominated"} waits
 * @property {string} [verdict] why the scheduler's last plan has no place for it
 * @property {string} [change] the smallest change that would place it
 *
 * @typedef {object} Snapshot
 * @property {string} id
 * @property {number} at
 * @property {string} cluster
 * @property {string} version
 * @property {Trusted} trusted
 * @property {ClusterNode[]} nodes
 * @property {Pod[]} pods
 *
 * @typedef {object} Change
 * @property {string} id
 * @property {number} at
 * @property {Trusted} trusted
 * @property {{nodes: ClusterNode[], pods: Pod[]}} put
 * @property {{nodes: string[], pods: string[]}} gone
 *
 * @typedef {{x: number, y: number, w: number, h: number}} Rect
 */

export {};
