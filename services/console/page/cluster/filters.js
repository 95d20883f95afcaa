/** Search, filters and grouping, held in the address. */

import { filterOf } from "../model/filter.js";
import { byId } from "../parts/dom.js";

/** @typedef {import("../frame/address.js").Address} Address */

/** @param {Address} address */
export function makeFilters(address) {
  for (const name of /** @type {const} */ (["q", "group", "state", "capacity"])) {
    const input = /** @type {HTMLInputElement|HTMLSelectElement} */ (byId(`filter-${name}`));
    const show = () => { if (input.value !== address.place[name]) input.value = address.place[name]; };
    input.addEventListener("input", () => address.go({ [name]: input.value }));
    address.onChange(show);
    show();
  }
  byId("clear-filters").addEventListener("click", () => clear(address));
  document.addEventListener("keydown", (event) => focusSearch(event));
}

/** @param {Address} address */
function clear(address) {
  address.go({ q: "", state: "", capacity: "" });
  byId("filter-q").focus();
}

/** @param {KeyboardEvent} event "/" goes to the search, as on many pages */
function focusSearch(event) {
  const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = byId("filter-q");
  if (search.offsetParent === null) return;
  event.preventDefault();
  search.focus();
}

/** @param {Address} address */
export const currentFilter = (address) => filterOf(address.place);
