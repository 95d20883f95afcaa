/** Values in words, the same everywhere on the page. */

/** @param {number|null|undefined} dollars an hour */
export function money(dollars) {
  if (dollars === null || dollars === undefined || !Number.isFinite(dollars)) return "–";
  const size = Math.abs(dollars);
  const digits = size >= 1000 ? 0 : size >= 1 || size === 0 ? 2 : size >= 0.1 ? 3 : 4;
  const text = size.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${dollars < 0 ? "-" : ""}$${text}`;
}

/** @param {number|null|undefined} dollars an hour */
export const hourly = (dollars) => (dollars === null || dollars === undefined ? "–" : `${money(dollars)}/h`);

const STEPS = /** @type {const} */ ([[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]);

/** @param {number} seconds a duration, such as 3725 @returns {string} its two largest parts: "1h 2m" */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [big, bigName, small, smallName] of STEPS) {
    if (whole < big) continue;
    const rest = Math.floor((whole % big) / small);
    return `${Math.floor(whole / big)}${bigName}` + (rest ? ` ${rest}${smallName}` : "");
  }
  return `${whole}s`;
}

/** @param {number} seconds @returns {string} its largest part only: "1h" */
export const shortDuration = (seconds) => duration(seconds).split(" ")[0] ?? "0s";

/** @param {number} count of bytes */
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = Math.max(0, count);
  let step = 0;
  while (size >= 1024 && step < units.length - 1) {
    size /= 1024;
    step += 1;
  }
  return `${size >= 100 || Number.isInteger(size) ? Math.round(size) : size.toFixed(1)} ${units[step]}`;
}

/** @param {number} millicores */
export const cores = (millicores) => (millicores % 1000 === 0 ? `${millicores / 1000} cpu` : `${millicores}m cpu`);

/** @param {number} part @param {number} whole */
export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;

/** @param {number} at @returns {string} the local time of day: "14:03:22" */
export function clock(at) {
  const date = new Date(at * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** @param {number} asOf @param {number} now @returns {string} how old a picture of the moment `asOf` is: "50s old, since 14:03:22" */
export const oldness = (asOf, now) => `${duration(now - asOf)} old, since ${clock(asOf)}`;

/** @param {string} zone "us-west-2a" @returns {string} what differs between zones: "2a" */
export const shortZone = (zone) => zone.match(/\d+[a-z]$/)?.[0] ?? zone.split("-").pop() ?? zone;

/** @param {string} name "namespace/name" */
export const namespaceOf = (name) => name.slice(0, Math.max(0, name.indexOf("/")));

/** @param {string} name "namespace/name" */
export const bareName = (name) => name.slice(name.indexOf("/") + 1);

const WAITS = {
  "": "waits",
  scheduling: "not tried yet by kube-scheduler",
  capacity: "no node has room",
  nominated: "its node is coming",
};

/** @param {import("./types.js").Pod} pod what a pending pod waits for */
export const waitsFor = (pod) => WAITS[pod.waits] ?? pod.waits;

/** @param {import("./types.js").ClusterNode} node @returns {string} how the node is called: its name, else its machine's */
export const nodeName = (node) => node.name || node.machine || node.id;

// A reason ends in its cause, in brackets, after all that was looked for; with several pools there are several.
const CAUSE = /\(([^()]+)\)(?=$|[;,] incompatible)/g;

/** @param {string} verdict the scheduler's words @returns {string} what is wrong, without what was looked for */
export function causeOf(verdict) {
  const causes = new Set([...verdict.matchAll(CAUSE)].map((found) => found[1]));
  return causes.size ? [...causes].join("; ") : verdict;
}

/** @param {{cpu: number, memory: number}} pod @returns {string} what it requests; nothing is said of what it does not request */
export const requestsOf = ({ cpu, memory }) =>
  [cpu ? cores(cpu) : "", memory ? bytes(memory) : ""].filter(Boolean).join(" · ") || "no requests";
