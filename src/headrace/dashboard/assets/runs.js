// Receives the runs as server-sent events and shows them. The address after # names what is shown: #run=NAME&compare=NAME

import { Chart, extend, join } from "./charts.js";
import { Stream } from "./connection.js";
import { showFlow } from "./diagram.js";
import { bytes, count, duration, element, number, percent, score, table, tile } from "./format.js";

const MOST_COMPARED = 8;
const FEWEST_EVALUATIONS = 5; // of each run, for a comparison of evaluations instead of training
const COLORS = ["c1", "c7", "c3", "c2", "c5", "c4", "c8", "c6"];
const TIME_COLORS = ["c1", "c2", "c3", "c4", "c5", "c7"];
const ACTOR_TIMES = ["environment", "inference", "pull", "load", "push", "blocked", "other"];
const LEARNER_TIMES = ["train", "wait", "transfer", "priorities", "publish", "other"];
const AXES = { environment_steps: "environment steps", seconds: "training time" };

const find = (id) => document.getElementById(id);
const runs = new Map(); // what is known of the runs that are shown
let cards = [];
let selected = null;
let compared = [];
let axis = "environment_steps";
let charts = {};
let comparison = null;
const stream = new Stream({ runs: takeList, run: takeRun, gone: takeEnd });

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  selected = words.get("run");
  compared = words.getAll("compare").slice(0, MOST_COMPARED);
}

function writeAddress() {
  const words = new URLSearchParams();
  if (selected !== null) words.set("run", selected);
  compared.forEach((name) => words.append("compare", name));
  history.replaceState(null, "", `#${words}`);
}

function connect() {
  const words = new URLSearchParams();
  const names = new Set(compared);
  if (selected !== null) names.add(selected);
  names.forEach((name) => words.append("run", name));
  for (const name of runs.keys()) if (!names.has(name)) runs.delete(name);
  stream.open(words);
}

function takeList(message) {
  find("root").textContent = message.root;
  const left = new Set([...message.gone, ...message.runs.map((card) => card.name)]);
  const kept = message.reset ? [] : cards.filter((card) => !left.has(card.name));
  cards = [...kept, ...message.runs];
  cards.sort((one, other) => other.began - one.began || (one.name < other.name ? -1 : 1));
  if (selected === null && cards.length) {
    selected = (cards.find((card) => card.status === "running") ?? cards[0]).name;
    writeAddress();
    connect();
  }
  showList();
}

function takeRun(message) {
  const before = runs.get(message.name);
  const run = message.reset || !before ? { config: message.config ?? {}, series: message.series } : before;
  if (run === before) extend(run.series, message.series);
  run.state = { ...run.state, ...message.state };
  runs.set(message.name, run);
  if (message.name === selected) showRun();
  showComparison();
}

function takeEnd(message) {
  runs.delete(message.name);
  if (message.name === selected) showRun();
  showComparison();
}

function label(name) {
  return name === "." ? "this run" : name;
}

function showList() {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = cards.filter((card) => {
    const text = `${card.name} ${card.environment} ${card.algorithm} ${card.topology} ${card.status}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  find("count").textContent = matching.length === cards.length ? `${cards.length} in all` : `${matching.length} of ${cards.length}`;
  const held = document.activeElement?.dataset?.key;
  find("runs").replaceChildren(...matching.map(listItem));
  if (held) [...find("runs").querySelectorAll("[data-key]")].find((each) => each.dataset.key === held)?.focus({ preventScroll: true });
}

function listItem(card) {
  const box = element("input", { type: "checkbox", "aria-label": `Compare ${label(card.name)}`, title: "compare", "data-key": `box ${card.name}` });
  box.checked = compared.includes(card.name);
  box.disabled = !box.checked && compared.length >= MOST_COMPARED;
  box.addEventListener("change", () => {
    compared = box.checked ? [...compared, card.name] : compared.filter((name) => name !== card.name);
    writeAddress();
    connect();
    showList();
    showComparison();
  });
  const button = element(
    "button", { type: "button", "aria-pressed": String(card.name === selected), "data-key": `run ${card.name}` },
    element("b", {}, `${card.environment} · ${card.algorithm}`),
    element("span", {}, label(card.name)),
    element("span", { class: card.status }, `${card.status}${card.stopped_by && card.status === "finished" ? ` (${card.stopped_by})` : ""} · ${score(card.evaluation_return ?? card.mean_return)} · ${count(card.steps)} steps`),
  );
  button.addEventListener("click", () => {
    selected = card.name;
    writeAddress();
    connect();
    showList();
    showRun();
  });
  return element("li", {}, box, button);
}

// A window of R2D2 has half its learned steps in common with the next.
function setRatio({ samples_per_step: ratio, learned_steps: learned }) {
  return learned ? ratio * Math.floor(learned / 2) / learned : ratio;
}

function toggle(place) {
  place.replaceChildren(...Object.entries(AXES).map(([name, text]) => {
    const button = element("button", { type: "button", "aria-pressed": String(name === axis) }, text);
    button.addEventListener("click", () => {
      axis = name;
      for (const id of ["score-axis", "comparison-axis"]) toggle(find(id));
      showRun();
      showComparison();
    });
    return button;
  }));
}

function chart(id, ...rest) {
  charts[id] ??= new Chart(find(id), ...rest);
  return charts[id];
}

function showRun() {
  const run = runs.get(selected);
  const known = cards.some((card) => card.name === selected);
  find("run-body").hidden = !run;
  if (!run) {
    find("run-title").textContent = selected === null ? "No run is selected" : label(selected);
    find("run-note").textContent = selected === null || known ? "" : "There is no such run any more.";
    return;
  }
  const { config, state, series } = run;
  const summary = state.summary ?? {};
  const now = { ...summary, actor_times: {}, learner_times: {}, ...state.now }; // a summary's times are not shares
  find("run-title").textContent = `${config.environment ?? "?"} · ${config.algorithm?.name ?? "?"} · ${config.topology?.name ?? "?"}`;
  const notes = [label(selected), state.status + (state.status === "finished" ? ` (stopped by ${summary.stopped_by})` : "")];
  if (state.status === "running" && now.paused) notes.push("evaluating");
  if (state.refused_lines) notes.push(`${count(state.refused_lines)} lines of metrics.jsonl are not records`);
  find("run-note").textContent = notes.join(" · ");
  showTiles(now, summary, config, state);
  showFlow(find("diagram"), now, config, state.status);
  showScore(series, state, now);
  for (const [id, title, key, digits] of [
    ["steps-speed", "Environment steps per second", "steps_per_second", 0],
    ["updates-speed", "Learner updates per second", "learner_steps_per_second", 0],
    ["ratio", "Samples per insert", "samples_per_insert", 1],
    ["staleness", "Staleness in updates", "staleness", 1],
  ]) {
    chart(id, title, [{ name: "now", color: "c1" }], { zero: true }).show([series.seconds, series[key]], [number(now[key], digits)]);
  }
  const role = now.role === "worker" ? ["Workers, acting", "Workers, learning"] : ["Actors", "Learner"];
  showShares("acting", role[0], "actor_times", ACTOR_TIMES, series, now);
  showShares("learning", role[1], "learner_times", LEARNER_TIMES, series, now);
  showTables(state, config);
  showVideo(state.video);
}

function showTiles(now, summary, config, state) {
  const last = state.evaluations.at(-1);
  const aim = now.score_target ?? config.until_score;
  const target = aim == null ? "" : `, target ${score(aim)}`;
  const tiles = [
    [score(last?.mean_return ?? summary.mean_return), `greedy return${last ? ` ± ${score(last.std_return, last.mean_return)}` : ""}${target}`],
    [score(state.best_evaluation), "best evaluation"],
    [score(now.mean_return), "training return, last 100"],
    [count(now.environment_steps), `environment steps${now.steps_target ? ` of ${count(now.steps_target)}` : ""}`],
    [count(now.learner_steps), "learner updates"],
    [count(now.steps_per_second), "steps per second"],
    [count(now.learner_steps_per_second), "updates per second"],
    [number(now.samples_per_insert), `samples per insert${config.algorithm?.samples_per_step ? `, set: ${number(setRatio(config.algorithm))}` : ""}`],
    [number(now.staleness), "updates stale"],
    [count(now.replay_size), `${config.algorithm?.learned_steps ? "windows" : "transitions"} in replay, ${bytes(now.replay_bytes)}`],
    [duration(now.seconds ?? summary.wall_seconds), "training time"],
    [now.bottleneck ?? "–", "bottleneck"],
  ];
  if (state.quantization.bytes != null) tiles.push([bytes(state.quantization.bytes), "of a quantized policy"]);
  find("tiles").replaceChildren(...tiles.map(tile));
}

function showScore(series, state, now) {
  const evaluated = [state.evaluations.map((each) => each[axis]), state.evaluations.map((each) => each.mean_return)];
  const curves = [[series[axis], series.mean_return], [series[axis], series.near_greedy_return], evaluated];
  const lines = [
    { name: "training, last 100", color: "c1" },
    { name: "least exploring", color: "c4" },
    { name: "greedy evaluation", color: "c7", points: true },
    { name: "target", color: "c6", dash: [6, 4] },
  ];
  const data = join(curves);
  data.push(data[0].map(() => now.score_target ?? null));
  const notes = [score(now.mean_return), score(now.near_greedy_return), score(evaluated[1].at(-1)), now.score_target == null ? "" : score(now.score_target)];
  chart("score", "Return of an episode", lines).show(data, notes, axis);
}

function showShares(id, title, key, names, series, now) {
  find(`${id}-title`).textContent = `${title}: shares of time`;
  const color = (index) => (names[index] === "other" ? "c6" : TIME_COLORS[index]);
  let sum = series.seconds.map(() => 0);
  const stacked = names.map((name) => {
    sum = sum.map((value, index) => value + (series[`${key}.${name}`][index] ?? 0));
    return sum;
  });
  const lines = names.map((name, index) => ({ name, color: color(index), fill: true })).reverse();
  const notes = names.map((name) => percent(now[key]?.[name] ?? 0)).reverse();
  chart(id, `${title}, shares of time`, lines, { share: true }).show([series.seconds, ...stacked.reverse()], notes);
}

function eventText(event) {
  if (event.kind === "exit") return `${event.role} died: ${event.reason}`;
  if (event.kind === "place") return `${event.role} runs on ${event.place}`;
  if (event.kind === "resume") return "resumed from a checkpoint";
  if (event.kind === "server-restart") return "the server was restarted";
  return `actors compute in ${event.precision}`;
}

function showTables(state, config) {
  const here = Object.keys(state.hosts).length ? "–" : "this machine";
  table(find("processes"), [["process", ""], ["place", ""], ["deaths", "number"]],
    state.processes.map((each) => [each.role, each.place ?? here, count(each.deaths)]));
  const events = state.events.slice(-50).reverse().map((event) => element("li", {}, `${duration(event.seconds)} ${eventText(event)}`));
  find("events").replaceChildren(...(events.length ? events : [element("li", {}, "none")]));
  table(find("evaluations"),
    [["time", "number"], ["steps", "number"], ["mean", "number"], ["± std", "number"], ["min", "number"], ["max", "number"], ["episodes", "number"]],
    state.evaluations.slice(-50).reverse().map((each) => [
      duration(each.seconds), count(each.environment_steps), score(each.mean_return), score(each.std_return, each.mean_return),
      score(each.min_return), score(each.max_return), count(each.episodes),
    ]));
  const flat = (part, prefix) => Object.entries(part).flatMap(([key, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value) ? flat(value, `${prefix}${key}.`) : [[prefix + key, JSON.stringify(value)]]);
  table(find("settings"), [["setting", ""], ["value", ""]], flat(config, ""));
}

function showVideo(video) {
  find("video-part").hidden = !video;
  const address = video && `/api/video?${new URLSearchParams({ run: selected, time: video.time })}`;
  if (!video || find("video").dataset.address === address) return;
  find("video").dataset.address = address;
  const shown = video.name.endsWith(".gif")
    ? element("img", { src: address, alt: `Video ${video.name}` })
    : element("video", { src: address, controls: "", loop: "", playsinline: "", "aria-label": `Video ${video.name}` });
  if (!video.name.endsWith(".gif")) shown.muted = true;
  find("video").replaceChildren(shown);
}

function showComparison() {
  const names = compared.filter((name) => runs.has(name));
  find("comparison").hidden = names.length < 2;
  const shown = names.join("\n");
  if (comparison && (comparison.shown !== shown || names.length < 2)) {
    comparison.chart.destroy();
    comparison = null;
  }
  if (names.length < 2) return;
  const lines = names.map((name, index) => ({ name: label(name), color: COLORS[index] }));
  comparison ??= { shown, chart: new Chart(find("comparison-chart"), "Scores of the compared runs", lines) };
  const evaluated = names.every((name) => runs.get(name).state.evaluations.length >= FEWEST_EVALUATIONS);
  find("comparison-note").textContent = evaluated ? "Mean return of greedy evaluations" : "Mean return of the last 100 training episodes";
  const curves = names.map((name) => {
    const { state, series } = runs.get(name);
    if (evaluated) return [state.evaluations.map((each) => each[axis]), state.evaluations.map((each) => each.mean_return)];
    return [series[axis], series.mean_return];
  });
  const last = curves.map(([, values]) => values.findLast((value) => value != null));
  comparison.chart.show(join(curves), last.map((value) => score(value)), axis);
  table(find("comparison-table"), [["run", ""], ["status", ""], ["score", "number"], ["best", "number"], ["steps", "number"], ["time", "number"], ["steps/s", "number"]],
    names.map((name, index) => {
      const { state } = runs.get(name);
      const now = { ...state.summary, ...state.now };
      return [label(name), state.status, score(last[index]), score(state.best_evaluation), count(now.environment_steps),
        duration(now.seconds ?? now.wall_seconds), count(now.steps_per_second)];
    }));
}

readAddress();
for (const id of ["score-axis", "comparison-axis"]) toggle(find(id));
find("search").addEventListener("input", showList);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which runs are shown
  find("detail").focus();
});
addEventListener("hashchange", () => {
  readAddress();
  connect();
  showList();
  showRun();
});
connect();
