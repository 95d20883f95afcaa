import assert from "node:assert/strict";
import { test } from "node:test";
import * as words from "../../../../services/console/page/model/words.js";
import { aNode, aPod } from "./made_up.js";

test("money keeps the digits that matter", () => {
  const cases = /** @type {const} */ ([[0, "$0.00"], [0.0416, "$0.0416"], [0.384, "$0.384"], [12.5, "$12.50"], [1234.5, "$1,235"], [-2, "-$2.00"], [null, "–"]]);
  for (const [dollars, text] of cases) assert.equal(words.money(dollars), text);
  assert.equal(words.hourly(1), "$1.00/h");
  assert.equal(words.hourly(null), "–");
});

test("a duration is said with its two largest parts", () => {
  const cases = /** @type {const} */ ([[-3, "0s"], [0.9, "0s"], [59, "59s"], [60, "1m"], [61, "1m 1s"], [3600, "1h"], [3725, "1h 2m"], [90_000, "1d 1h"]]);
  for (const [seconds, text] of cases) assert.equal(words.duration(seconds), text);
  assert.equal(words.shortDuration(3725), "1h");
});

test("bytes have units of 1024", () => {
  const cases = /** @type {const} */ ([[0, "0 B"], [1023, "1023 B"], [2 ** 28, "256 MiB"], [1.5 * 2 ** 30, "1.5 GiB"], [7e9, "6.5 GiB"]]);
  for (const [count, text] of cases) assert.equal(words.bytes(count), text);
});

test("cpu is said in cores when it is whole", () => {
  assert.equal(words.cores(2000), "2 cpu");
  assert.equal(words.cores(250), "250m cpu");
});

test("a share of nothing has no percent", () => {
  assert.equal(words.percent(1, 0), "–");
  assert.equal(words.percent(1, 3), "33 %");
});

test("names", () => {
  assert.equal(words.shortZone("us-west-2a"), "2a");
  assert.equal(words.namespaceOf("shop/web-1"), "shop");
  assert.equal(words.namespaceOf("web-1"), "");
  assert.equal(words.bareName("shop/web-1"), "web-1");
  assert.equal(words.nodeName(aNode({ name: "" })), "default-a");
  assert.equal(words.count(1, "pod"), "1 pod");
  assert.equal(words.count(1200, "pod"), "1,200 pods");
});

test("a pending pod says what it waits for", () => {
  assert.equal(words.waitsFor(aPod({ waits: "capacity" })), "no node has room");
});
