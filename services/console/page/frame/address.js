/** The address of the page, as values that can be read and changed. */

import { formatPlace, parsePlace } from "../model/place.js";

/** @typedef {import("../model/place.js").Place} Place */

export class Address {
  place = parsePlace(location.search);
  /** @type {((place: Place, before: Place) => void)[]} */ #listeners = [];

  constructor() {
    window.addEventListener("popstate", () => this.#become(parsePlace(location.search)));
  }

  /** @param {(place: Place, before: Place) => void} listener */
  onChange(listener) {
    this.#listeners.push(listener);
  }

  /** @param {Partial<Place>} patch */
  go(patch) {
    const place = { ...this.place, ...patch };
    const search = formatPlace(place);
    if (search === formatPlace(this.place)) return;
    // A new view is a step that "back" undoes; each letter of a search is not.
    if (patch.view && patch.view !== this.place.view) history.pushState(null, "", search);
    else history.replaceState(null, "", search);
    this.#become(place);
  }

  /** @param {Partial<Place>} patch @returns {string} an address for a link */
  link(patch) {
    return formatPlace({ ...this.place, ...patch });
  }

  /** @param {Place} place */
  #become(place) {
    const before = this.place;
    this.place = place;
    for (const listener of this.#listeners) listener(place, before);
  }
}
