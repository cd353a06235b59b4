/** Puts the page together: tables from the server, one store, and views that listen to it. */

import { ApiError, fetchLabs } from "./api.js";
import { Chart } from "./chart.js";
import { Command } from "./command.js";
import { Compare } from "./compare.js";
import { Controls } from "./controls.js";
import { byId, h } from "./dom.js";
import { Examples } from "./examples.js";
import { initExplain } from "./explain.js";
import { foldable } from "./fold.js";
import { Inspect } from "./inspect.js";
import { Lanes } from "./lanes.js";
import { readHash } from "./link.js";
import { MemoryMap } from "./memory_map.js";
import { Missions } from "./missions.js";
import { Playback } from "./playback.js";
import { Progress } from "./progress.js";
import { Session } from "./session.js";
import { Share } from "./share.js";
import { Store } from "./store.js";
import { Story } from "./story.js";
import { initTheme } from "./theme.js";
import { Tiles } from "./tiles.js";
import { say } from "./toast.js";
import { Upload } from "./upload.js";
import { WaterfallView } from "./waterfall.js";

/** @type {import("./types.js").State} */
const START = {
  lab: "",
  changes: {},
  payload: null,
  shown: "",
  settled: "",
  before: null,
  busy: false,
  error: null,
  t: 0,
  playing: false,
  speed: 8,
  hover: null,
  picked: null,
  block: null,
  pin: null,
  mission: null,
  locked: false,
  theme: 0,
};

async function start() {
  const labs = await fetchLabs();
  const store = new Store(START);
  const session = new Session(labs, store);
  const progress = new Progress(Object.values(labs.labs).flatMap(({ missions }) => missions.map(({ id }) => id)));
  takeOver(progress);
  initTheme(store);
  initExplain(labs);
  new Chart(store, "chart", false); // before those that change the page: a canvas with text asks for its styles
  new Chart(store, "strip-chart", true);
  new Story(session, store);
  new Upload(session, store);
  new Controls(session, store);
  new Command(session, store);
  new Tiles(session, store);
  new WaterfallView(session, store);
  const playback = new Playback(store);
  new MemoryMap(store);
  new Lanes(store, playback);
  new Inspect(session, store, playback);
  const compare = new Compare(session, store);
  new Share(session, store);
  new Missions(session, store, progress);
  new Examples(session, store);
  foldable("advise", async (panel) => new (await import("./advise.js")).Advise(session, store, panel));
  foldable("sweep", async (panel) => new (await import("./heatmap.js")).Heatmap(session, store, panel));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the part of the address after # has a use of its own
    byId("results").focus();
  });
  session.open();
  void compare.pinFromLink();
}

/** Progress that came with the link. @param {Progress} progress */
function takeOver(progress) {
  const text = readHash(location.hash).progress;
  if (text === null) return;
  say(`${progress.addText(text)} missions taken over.`);
  history.replaceState(null, "", location.pathname + location.search);
}

start().catch((reason) => {
  const box = byId("error");
  box.hidden = false;
  box.replaceChildren(
    h("p", {}, reason instanceof ApiError ? reason.message : `The page can't start: ${String(reason)}`),
  );
});
