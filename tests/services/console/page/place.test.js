import assert from "node:assert/strict";
import { test } from "node:test";
import { formatPlace, NOWHERE, parsePlace, VIEWS } from "../../../../services/console/page/model/place.js";
import { randomOf } from "./made_up.js";

test("what is written into an address is read from it again", () => {
  for (let seed = 0; seed < 100; seed += 1) {
    const random = randomOf(seed);
    const text = () => random.pick(["", "a b", "x&y=z", "ä/é?#", "ready"]);
    const place = {
      view: random.pick(VIEWS), group: random.pick(/** @type {const} */ (["pool", "zone", "type"])), q: text(), state: text(), capacity: text(),
      node: text(), pod: text(), at: random.pick([null, 1764000000.5]),
    };
    assert.deepEqual(parsePlace(formatPlace(place)), place, `seed ${seed}`);
  }
});

test("an address that is empty or wrong shows the cluster", () => {
  for (const search of ["", "?", "?view=nothing&group=%&at=never"]) assert.deepEqual(parsePlace(search), NOWHERE);
});
