/** Where the picture comes from: the live stream, or a moment in the past that can be played. */

import { get, wordsOf } from "../net/api.js";
import { Stream } from "../net/stream.js";
import { Player } from "../model/history.js";

/**
 * @typedef {import("../model/state.js").Cluster} Cluster
 * @typedef {import("../model/state.js").Changed} Changed
 * @typedef {{changed: (changed: Changed) => void, status: () => void}} Listener
 */

const UNCHANGED = { all: false, nodes: new Set(), members: false, pending: false };

export class Source {
  /** @type {Player|null} set while the past is shown */ player = null;
  playing = false;
  problem = "";
  #skew = 0;
  #fetching = false;
  #loaded = false;
  #asked = 0;

  /** @param {Cluster} cluster @param {Listener} listener */
  constructor(cluster, listener) {
    this.cluster = cluster;
    this.listener = listener;
    this.stream = new Stream({
      snapshot: (snapshot) => this.#live(snapshot.at, () => cluster.replace(snapshot)),
      change: (change) => this.#live(change.at, () => cluster.apply(change)),
      beat: (beat) => this.#live(beat.at, () => { cluster.confirm(beat); return UNCHANGED; }),
      connection: () => listener.status(),
    });
  }

  /** @returns {number} seconds: the time that the picture shows, by the clock of the server */
  now() {
    return this.player ? this.player.at : Date.now() / 1000 + this.#skew;
  }

  live() {
    this.player = null;
    this.playing = false;
    this.problem = "";
    this.stream.start();
    this.listener.status();
  }

  /** @param {number} at @param {number} end latest moment of the recorded time */
  async past(at, end) {
    this.stream.stop();
    const player = new Player(at, Math.max(at, end));
    if (this.player) player.speed = this.player.speed;
    this.player = player;
    this.#loaded = false;
    const asked = (this.#asked += 1);
    try {
      const snapshot = await get("history/at", { t: at });
      // The reader may have moved on while the answer was under way.
      if (asked !== this.#asked || this.player !== player) return;
      this.#loaded = true;
      this.#show(this.cluster.replace(snapshot), "");
    } catch (error) {
      if (asked === this.#asked) this.#show(UNCHANGED, wordsOf(error));
    }
  }

  /** @param {number} end the record grows while an older part of it is played */
  extend(end) {
    if (this.player) this.player.end = Math.max(this.player.end, end);
  }

  /** @param {number} seconds since the last tick; plays on */
  tick(seconds) {
    const { player } = this;
    // Changes are only applied to the moment that they belong to.
    if (!player || !this.playing || !this.#loaded) return;
    this.#fetch(player);
    for (const change of player.advance(seconds)) this.listener.changed(this.cluster.apply(change));
    this.listener.status();
  }

  /** @param {Player} player */
  async #fetch(player) {
    const wanted = player.wanted();
    if (!wanted || this.#fetching) return;
    this.#fetching = true;
    try {
      player.add(wanted.to, (await get("history/changes", wanted)).changes);
    } catch (error) {
      this.playing = false;
      this.problem = wordsOf(error);
    }
    this.#fetching = false;
  }

  /** @param {number} at @param {() => Changed} apply */
  #live(at, apply) {
    if (this.player) return;
    this.#skew = at - Date.now() / 1000;
    this.#show(apply(), "");
  }

  /** @param {Changed} changed @param {string} problem */
  #show(changed, problem) {
    this.problem = problem;
    this.listener.changed(changed);
    this.listener.status();
  }
}
