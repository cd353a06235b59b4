/** Puts the page together: tables from the server, one store, and views that listen to it. */

import { ApiError, fetchLabs } from "./api.js";
import { Chart } from "./chart.js";
import { Controls } from "./controls.js";
import { byId, h } from "./dom.js";
import { initExplain } from "./explain.js";
import { Inspect } from "./inspect.js";
import { Lanes } from "./lanes.js";
import { MemoryMap } from "./memory_map.js";
import { Playback } from "./playback.js";
import { Session } from "./session.js";
import { Store } from "./store.js";
import { Story } from "./story.js";
import { initTheme } from "./theme.js";
import { Tiles } from "./tiles.js";

/** @type {import("./types.js").State} */
const START = {
  lab: "", changes: {}, payload: null, before: null, busy: false, error: null, t: 0, playing: false, speed: 8,
  hover: null, picked: null, block: null, pin: null, mission: null, trace: null, theme: 0,
};

async function start() {
  const labs = await fetchLabs();
  const store = new Store(START);
  initTheme(store);
  initExplain(labs);
  const session = new Session(labs, store);
  new Story(session, store);
  new Controls(session, store);
  new Tiles(session, store);
  new Chart(store, "chart", false);
  new Chart(store, "strip-chart", true);
  const playback = new Playback(store);
  new MemoryMap(store);
  new Inspect(session, store, playback);
  new Lanes(store, playback);
  session.open();
}

start().catch((reason) => {
  const box = byId("error");
  box.hidden = false;
  box.replaceChildren(h("p", {}, reason instanceof ApiError ? reason.message : `The page can't start: ${String(reason)}`));
});
