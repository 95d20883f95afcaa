/** Requests to the server of the console. Addresses are relative: the page may stand under a path of a proxy. */

export class Unauthorized extends Error {}

/** @param {Response} response @returns {Promise<string>} the server's own words when it gave some */
async function problemOf(response) {
  const body = await response.json().catch(() => null);
  return typeof body?.error === "string" && body.error ? body.error : `the server answered ${response.status}`;
}

/**
 * @param {string} path such as "node" @param {Record<string, string|number>} [query] @param {AbortSignal} [signal]
 * @returns {Promise<any>} the shapes are those of the contract; what is read of them is checked by the types of the callers
 */
export async function get(path, query = {}, signal) {
  const search = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
  const address = `api/${path}${search.size ? `?${search}` : ""}`;
  const response = await fetch(address, signal ? { signal } : {});
  if (response.status === 401) {
    document.dispatchEvent(new CustomEvent("unauthorized"));
    throw new Unauthorized(await problemOf(response));
  }
  if (!response.ok) throw new Error(await problemOf(response));
  return response.json();
}

/** @param {string} token @returns {Promise<string>} "" when it was accepted, else why not */
export async function signIn(token) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) };
  const response = await fetch("api/session", request);
  return response.ok ? "" : problemOf(response);
}

/** @param {unknown} error @returns {string} */
export const wordsOf = (error) => (error instanceof TypeError ? "the server does not answer" : error instanceof Error ? error.message : String(error));
