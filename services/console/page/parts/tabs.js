/** The views as tabs. Each tab is a link, so that it can be opened in another window. */

import { VIEWS } from "../model/place.js";
import { byId, h } from "./dom.js";

/** @typedef {import("../frame/address.js").Address} Address */

/** @param {string} name */
const title = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** @param {Address} address */
export function makeTabs(address) {
  const list = byId("tabs");
  for (const view of VIEWS) list.append(tab(view, address));
  list.addEventListener("keydown", (event) => moveFocus(list, event, address));
  const show = () => showView(list, address);
  address.onChange(show);
  show();
}

/** @param {typeof VIEWS[number]} view @param {Address} address */
function tab(view, address) {
  const attributes = { role: "tab", id: `tab-${view}`, "data-testid": `tab-${view}`, "aria-controls": `view-${view}`, href: address.link({ view }) };
  return h("a", { ...attributes, onclick: (event) => choose(event, view, address) }, title(view));
}

/** @param {MouseEvent} event @param {typeof VIEWS[number]} view @param {Address} address */
function choose(event, view, address) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  address.go({ view });
}

/** @param {HTMLElement} list @param {Address} address */
function showView(list, address) {
  for (const view of VIEWS) {
    const selected = view === address.place.view;
    const link = /** @type {HTMLAnchorElement} */ (byId(`tab-${view}`));
    link.href = address.link({ view });
    link.setAttribute("aria-selected", String(selected));
    link.tabIndex = selected ? 0 : -1;
    byId(`view-${view}`).hidden = !selected;
    if (selected) list.scrollLeft = Math.max(0, link.offsetLeft - 40);
  }
}

/** @param {HTMLElement} list @param {KeyboardEvent} event @param {Address} address */
function moveFocus(list, event, address) {
  const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, Home: -VIEWS.length, End: VIEWS.length });
  const step = steps[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const here = VIEWS.indexOf(address.place.view);
  const to = Math.abs(step) > 1 ? (step < 0 ? 0 : VIEWS.length - 1) : (here + step + VIEWS.length) % VIEWS.length;
  const view = /** @type {typeof VIEWS[number]} */ (VIEWS[to]);
  address.go({ view });
  list.querySelector(`#tab-${view}`)?.setAttribute("tabindex", "0");
  byId(`tab-${view}`).focus();
}
