import assert from "node:assert/strict";
import { test } from "node:test";
import { placeMarks, Player, within } from "../../../../services/console/page/model/history.js";
import { aChange, randomOf } from "./made_up.js";

/** @param {number} at */
const changeAt = (at) => ({ ...aChange({}), at });

test("every change is played once and in order, however the answers and the ticks fall", () => {
  for (let seed = 0; seed < 100; seed += 1) {
    const random = randomOf(seed);
    const all = Array.from({ length: 80 }, () => 1000.5 + random.below(300));
    const player = new Player(1000, 1300);
    player.speed = random.pick([1, 5, 20, 60]);
    /** @type {number[]} */
    const played = [];
    for (let i = 0; i < 20_000 && !player.ended; i += 1) {
      const wanted = player.wanted();
      if (wanted && random.next() < 0.5) player.add(wanted.to, all.filter((at) => at > wanted.from && at <= wanted.to).map(changeAt));
      played.push(...player.advance(random.next()).map(({ at }) => at));
    }
    assert.ok(player.ended, `seed ${seed}`);
    assert.deepEqual(played, all.filter((at) => at <= 1300).sort((a, b) => a - b), `seed ${seed}`);
  }
});

test("the picture waits for changes that were not fetched", () => {
  const player = new Player(1000, 1300);
  assert.deepEqual(player.wanted(), { from: 1000, to: 1060 });
  player.advance(5);
  assert.equal(player.at, 1000);
  player.add(1060, [changeAt(1003)]);
  assert.equal(player.advance(5).length, 1);
  assert.equal(player.at, 1005);
});

test("no more is fetched than is soon needed", () => {
  const player = new Player(1000, 9000);
  player.add(1060, []);
  assert.equal(player.wanted(), null);
});

test("marks stand where their time is", () => {
  const marks = [{ at: 150, text: "half" }, { at: 99, text: "before" }];
  assert.deepEqual(placeMarks(marks, { from: 100, to: 200 }), [{ at: 150, text: "half", share: 0.5 }]);
  assert.deepEqual(placeMarks(marks, { from: 100, to: 100 }), []);
});

test("a moment outside of the record becomes its nearest end", () => {
  assert.deepEqual([within(5, 10, 20), within(15, 10, 20), within(25, 10, 20)], [10, 15, 20]);
});
