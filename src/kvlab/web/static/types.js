/**
 * Shapes of what the server sends and of what the page keeps. Types only: nothing here runs.
 *
 * @typedef {{name: string, label: string, kind: "range"|"choice"|"switch"|"select"|"text", unit: string, help: string,
 *   group: "server"|"traffic"|"event", values: string[], labels: string[], on: string|null, off: string|null,
 *   unset: string, brings: Record<string, Record<string, string>>, default: string}} Control
 *   unset: shown for "none"; brings: value -> settings that it needs beside it
 * @typedef {{name: string, label: string, unit: string, better: "lower"|"higher"|null, main: boolean}} Tile
 * @typedef {{metric: string, op: string, limit: number, text: string}} Goal
 * @typedef {{text: string, options: string[], answer?: number}} Question
 * @typedef {{id: string, title: string, story: string, setup: Record<string, string>, levers: string[],
 *   stops: Record<string, string[]>, goals: Goal[], prices: {field: string, text: string}[], hints: string[],
 *   why: string, vllm_flag: string, question: Question|null}} MissionCard  stops: what each lever's slider offers
 * @typedef {{title: string, intro: string, controls: Control[], tiles: Tile[], missions: MissionCard[],
 *   defaults: Record<string, string>, acts_only: Record<string, Record<string, string[]>>, examples: Example[],
 *   limits: {first: string, common: string[], missions: Record<string, string>},
 *   not_modelled: string[]}} Lab  acts_only: setting -> others, and their values beside which it does something
 * @typedef {{id: string, title: string, story: string, source: string, url: string|null, assumed: string,
 *   variants: {name: string, setup: Record<string, string>}[]}} Example
 * @typedef {{label: string, unit: string, formula: string, source: string, engines: Record<string, string>}} Term
 * @typedef {{version: number, labs: Record<string, Lab>, glossary: Record<string, Term>,
 *   traffic_fields: string[], most_trace_bytes: number}} Labs  traffic_fields: settings of the traffic
 * @typedef {{changes: Record<string, string>, mapped: {from: string, setting: string, value: string}[],
 *   noted: {from: string, why: string}[], ignored: {from: string, why: string}[],
 *   assumed: {setting: string, value: string, why: string}[]}} Pasted  a command, and what became of its flags
 *
 * @typedef {{value: number|null, text: string}} TileValue
 * @typedef {{met: boolean, text: string, value: string}} GoalVerdict
 * @typedef {{met: boolean, stars: number, cost: number, goals: GoalVerdict[], strays: string[]}} Verdict
 * @typedef {{name: string, label: string, bytes: number, text: string, provenance: string, source: string}} MemoryPart
 * @typedef {{gpu: string, gpus: number, total_bytes: number, total: string, parts: MemoryPart[], tokens: string,
 *   notes: string[], step_time: {provenance: string, text: string}}} Waterfall  parts: none where nobody knows them
 * @typedef {{from_s: number, to_s: number, label: string}} Band  a stretch of time in which something is different
 * @typedef {{lab: string, changes: Record<string, string>, tiles: Record<string, TileValue>, story: string,
 *   accounting: string, full_s: number|null, end_s: number, window_s: number|null, bands: Band[],
 *   num_blocks: number, num_cpu_blocks: number, block_size: number, unit: "block"|"token",
 *   contiguous: boolean, snapshot_times: number, waterfall: Waterfall|null, command: string, flags: string, missions: Record<string, Verdict>,
 *   sections: {name: string, type: "f32"|"u32"|"u16", count: number}[]}} Header
 *
 * @typedef {{sample: number, blocks: number[], shared: boolean[],
 *   segment?: {start: number, reserved: number, used: number}}} BlockTable  segment: contiguous, in tokens
 * @typedef {{id: number, arrival_s: number, prompt_tokens: number, output_tokens: number, state: string,
 *   tables: BlockTable[], cpu_blocks: number[], events: {t: number, text: string}[]}} RequestDetail
 *
 * @typedef {{name: string, label: string, unit: string, values: {value: string, text: string}[]}} HeatAxis
 * @typedef {{x: HeatAxis, y: HeatAxis, here: {x: number, y: number}, metrics: Tile[], seeds: number[]}} HeatStart
 *   here: place of the setup at hand; seeds: none of a trace
 * @typedef {{x: number, y: number, error?: string, metrics?: Record<string, number|null>,
 *   texts?: Record<string, string>}} HeatCell  by metric; error: why it can't be run
 * @typedef {{start?: HeatStart, cell?: HeatCell}} HeatLine
 *
 * @typedef {{metric: string, label: string, limit: string, before: string, after: string, range: string,
 *   worse: boolean}} Effect  limit: what has to hold of it; range: over the seeds, after the change
 * @typedef {{changes: Changes, moves: {name: string, label: string, before: string, after: string, reason: string}[],
 *   price: number, cost: string, flags: string, effects: Effect[]}} Fix
 * @typedef {{verdict: "holds"|"fix"|"nothing", texts: string[], now: Effect[], fixes: Fix[], nearest: Fix|null,
 *   runs: number, complete: boolean}} AdviceDone
 * @typedef {{start?: {goals: string[], seeds: number, note: string}, progress?: {done: number}, fix?: Fix,
 *   done?: AdviceDone}} AdviceLine
 *
 * @typedef {Record<string, string>} Changes  settings that differ from the lab's defaults, as the texts of links
 * @typedef {{query: string, changes: Changes, payload: import("./payload.js").Payload}} Pin
 *
 * @typedef {object} State
 * @property {string} lab
 * @property {Changes} changes
 * @property {import("./payload.js").Payload|null} payload  the newest finished run, which every picture shows
 * @property {string} shown  query of that run
 * @property {string} settled  query of the setup that was committed last
 * @property {Record<string, TileValue>|null} before  tiles that the deltas compare with
 * @property {boolean} busy  a run is on its way
 * @property {import("./api.js").ApiError|null} error
 * @property {number} t  the moment shown, in seconds
 * @property {boolean} playing
 * @property {number} speed  simulated seconds per second
 * @property {number|null} hover  request under the pointer or the cursor
 * @property {number|null} picked  request whose block table is open
 * @property {number|null} block  physical block that the block table points at
 * @property {Pin|null} pin
 * @property {string|null} mission  id of the mission being played
 * @property {boolean} locked  levers wait for a guess
 * @property {number} theme  counts changes of the colours, so that canvases are drawn again
 */
export {};
