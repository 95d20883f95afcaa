import assert from "node:assert/strict";
import { test } from "node:test";
import { Scene } from "../../../../services/console/page/drawing/scene.js";
import { Cluster } from "../../../../services/console/page/model/state.js";
import { aChange, aNode, aPod, aSnapshot, randomOf, someNode, somePod } from "./made_up.js";

const SPACE = { width: 1200, height: 800, label: () => 90 };

/** @param {Scene} scene @param {import("../../../../services/console/page/model/state.js").Changed} changed as the view of the cluster does it */
function follow(scene, changed) {
  scene.refresh(changed.nodes);
  if (changed.members) scene.arrange("pool", SPACE);
}

/** @param {Scene} scene */
function rest(scene) {
  for (let i = 0; i < 200 && (scene.travelling.size || scene.stirring.size); i += 1) scene.step(0.05);
}

/** @param {Scene} scene */
const tilesOf = (scene) => [...scene.sprites.values()].reduce((sum, sprite) => sum + sprite.tiles.size, 0);

test("the picture comes to rest as the cluster is, whatever happened before", () => {
  for (let seed = 0; seed < 60; seed += 1) {
    const random = randomOf(seed);
    const cluster = new Cluster();
    const scene = new Scene(cluster);
    for (let i = 0; i < 40; i += 1) {
      const gone = { nodes: [someNode(random).id], pods: [somePod(random).id] };
      follow(scene, cluster.apply(aChange({ nodes: [someNode(random)], pods: [somePod(random), somePod(random)] }, gone)));
      scene.step(random.next() / 10);
    }
    rest(scene);
    assert.deepEqual([...scene.sprites.keys()].sort(), [...cluster.nodes.keys()].sort(), `seed ${seed}`);
    for (const [id, sprite] of scene.sprites) {
      assert.deepEqual([...sprite.tiles.keys()].sort(), [...cluster.usageOf(id).pods.keys()].sort(), `seed ${seed}: ${id}`);
      assert.deepEqual(sprite.now, scene.layout.boxes.get(id), `seed ${seed}: ${id}`);
    }
  }
});

test("tiles never leave their box, also while it gets another size", () => {
  const cluster = new Cluster();
  const scene = new Scene(cluster);
  const pods = Array.from({ length: 30 }, (_, i) => aPod({ id: `u${i}` }));
  follow(scene, cluster.replace(aSnapshot({ nodes: [aNode()], pods })));
  rest(scene);
  for (const width of [600, 1500, 400]) {
    scene.arrange("pool", { ...SPACE, width, height: width / 2 });
    for (let i = 0; i < 30; i += 1) {
      scene.step(0.02);
      for (const { to, tiles } of scene.sprites.values()) {
        for (const { now: { x, y, w, h } } of tiles.values()) {
          assert.ok(x >= -0.6 && y >= -0.6 && x + w <= to.w + 0.6 && y + h <= to.h + 0.6, `${width}: step ${i}`);
        }
      }
    }
  }
});

test("nothing is kept of pods that came and went while the window was hidden", () => {
  const cluster = new Cluster();
  const scene = new Scene(cluster);
  follow(scene, cluster.replace(aSnapshot({ nodes: [aNode()] })));
  for (let i = 0; i < 3000; i += 1) {
    follow(scene, cluster.apply(aChange({ pods: [aPod({ id: `u${i}` })] }, { pods: [`u${i - 1}`] })));
    scene.step(Infinity);
  }
  assert.ok(tilesOf(scene) <= 3, String(tilesOf(scene)));
});

test("a picture at rest asks for no frame", () => {
  const cluster = new Cluster();
  const scene = new Scene(cluster);
  follow(scene, cluster.replace(aSnapshot({ nodes: [aNode()], pods: [aPod()] })));
  rest(scene);
  scene.stale = false;
  scene.dirty.clear();
  assert.equal(scene.step(0.05), false);
});

test("only the box whose pods change is painted again", () => {
  const cluster = new Cluster();
  const scene = new Scene(cluster);
  follow(scene, cluster.replace(aSnapshot({ nodes: [aNode({ id: "a" }), aNode({ id: "b" })] })));
  rest(scene);
  scene.stale = false;
  scene.dirty.clear();
  follow(scene, cluster.apply(aChange({ pods: [aPod({ node: "b" })] })));
  scene.step(0.02);
  assert.deepEqual([scene.stale, [...scene.dirty]], [false, ["b"]]);
});

test("without motion everything is at its place in two frames", () => {
  const cluster = new Cluster();
  const scene = new Scene(cluster);
  scene.smooth = false;
  follow(scene, cluster.replace(aSnapshot({ nodes: [aNode()], pods: [aPod()] })));
  scene.step(0.01);
  scene.step(0.01);
  const sprite = scene.sprites.get("NodeClaim/default-a");
  assert.deepEqual([sprite?.shown, scene.travelling.size, scene.stirring.size], [1, 0, 0]);
});
