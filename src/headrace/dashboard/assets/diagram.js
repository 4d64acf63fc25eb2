// The parts of a run and what flows between them; the bottleneck has a color, a thick line and a word.

import { bytes, count, drawn, number, percent } from "./format.js";

function box(x, y, name, notes, hot) {
  const group = drawn("g");
  group.append(
    drawn("rect", { x: x - 90, y, width: 180, height: 92, rx: 8, class: hot ? "box hot" : "box" }),
    drawn("text", { x, y: y + 24, class: hot ? "name hot" : "name" }, hot ? `${name}: bottleneck` : name),
    ...notes.map((note, index) => drawn("text", { x, y: y + 46 + 17 * index, class: "soft" }, note)),
  );
  return group;
}

function arrow(points, hot, label, x, y) {
  const [fromX, fromY, toX, toY] = points;
  const size = 7;
  const angle = Math.atan2(toY - fromY, toX - fromX);
  const corner = (turn) => `${toX - size * Math.cos(angle + turn) * 1.4},${toY - size * Math.sin(angle + turn) * 1.4}`;
  const kind = hot ? " hot" : "";
  const group = drawn("g");
  group.append(
    drawn("line", { x1: fromX, y1: fromY, x2: toX, y2: toY, class: `arrow${kind}` }),
    drawn("polygon", { points: `${toX},${toY} ${corner(0.45)} ${corner(-0.45)}`, class: `head${kind}` }),
    ...label.map((text, index) => drawn("text", { x, y: y + 16 * index, class: index ? "soft" : "" }, text)),
  );
  return group;
}

function busiest(times, idle) {
  const found = Object.entries(times ?? {}).filter(([name]) => !idle.includes(name)).sort((one, other) => other[1] - one[1])[0];
  return found && found[1] > 0 ? `${found[0]} ${percent(found[1])}` : "";
}

export function showFlow(place, now, config, status) {
  const steps = `${count(now.steps_per_second)} steps/s`;
  const updates = `${count(now.learner_steps_per_second)} updates/s`;
  const workers = now.role === "worker";
  const acting = `${now.actors_alive ?? "?"} of ${now.actors_total ?? "?"} alive`;
  const server = config.server?.address ?? (config.topology?.name === "serial" ? "in the same process" : "embedded");
  const hot = status === "running" ? now.bottleneck : null;
  const narrow = place.clientWidth < 560;
  const svg = drawn("svg", { viewBox: narrow ? "0 0 360 520" : "0 0 840 125", role: "img" });
  const at = narrow ? [[180, 10], [180, 200], [180, 390]] : [[100, 10], [420, 10], [740, 10]];
  const shares = [busiest(now.actor_times, ["other"]), busiest(now.learner_times, ["other"])];
  let said;
  if (workers) {
    const end = at[1];
    svg.append(box(...at[0], "workers", [acting, shares[0], shares[1]], false));
    svg.append(box(...end, "shared parameters", [`version ${count(now.policy_version)}`, `staleness ${number(now.staleness)}`], false));
    const label = [updates, steps];
    svg.append(narrow ? arrow([180, 102, 180, 198], false, label, 110, 145) : arrow([192, 56, 328, 56], false, label, 260, 28));
    svg.setAttribute("viewBox", narrow ? "0 0 360 310" : "0 0 840 110");
    said = `Workers, ${acting}, apply ${updates} to shared parameters and make ${steps}`;
  } else {
    const batch = config.algorithm?.batch_size;
    const samples = batch && now.learner_steps_per_second != null ? `${count(now.learner_steps_per_second * batch)} samples/s` : updates;
    const ratio = now.samples_per_insert == null ? "" : `${number(now.samples_per_insert)} samples/insert`;
    const filled = now.replay_capacity ? `${count(now.replay_size)} of ${count(now.replay_capacity)}` : "";
    svg.append(box(...at[0], "actors", [acting, shares[0]], hot === "actors"));
    svg.append(box(...at[1], "server", [server, filled, ratio], false));
    svg.append(box(...at[2], "learner", [updates, shares[1]], hot === "learner"));
    const back = [`policy ${count(now.policy_version)}`, `staleness ${number(now.staleness)}`];
    if (narrow) {
      svg.append(arrow([180, 102, 180, 198], hot === "actors", [steps], 105, 155));
      svg.append(arrow([180, 292, 180, 388], hot === "learner", [samples], 105, 345));
      svg.append(drawn("text", { x: 180, y: 516, class: "soft" }, back.join(", ")));
    } else {
      svg.append(arrow([192, 48, 328, 48], hot === "actors", [steps], 260, 36));
      svg.append(arrow([512, 48, 648, 48], hot === "learner", [samples], 580, 36));
      svg.append(arrow([648, 76, 512, 76], false, back, 580, 98));
      svg.append(arrow([328, 76, 192, 76], false, ["policy"], 260, 98));
    }
    said = `Actors, ${acting}, send ${steps} to the server; the learner takes ${samples}; bottleneck: ${hot ?? "none"}`;
  }
  svg.setAttribute("aria-label", said);
  place.replaceChildren(svg);
}

const HELD = 0.25; // share of time in which the limiter blocks one side, above which the other is the bottleneck
const MOST_DRAWN = 4;

// Who writes to or samples from a table, with the rate on an arrow; a bottleneck has a color, a thick line and a word.
function side(x, name, rate, unit, hot, held) {
  const note = hot ? "bottleneck" : held >= 0.005 ? `held ${percent(held)}` : "";
  const group = drawn("g");
  group.append(
    drawn("text", { x, y: 36, class: hot ? "name hot" : "name" }, name),
    arrow([x - 52, 56, x + 52, 56], hot, [count(rate), unit], x, 78),
    drawn("text", { x, y: 112, class: hot ? "hot" : "soft" }, note),
  );
  return group;
}

function picture(said, ...parts) {
  const svg = drawn("svg", { viewBox: "0 0 420 120", role: "img", "aria-label": said });
  svg.append(...parts);
  return svg;
}

function tablePicture(each) {
  const balanced = Math.max(each.inserts_held, each.samples_held) < HELD;
  const hot = balanced || each.state !== "open" ? "none" : each.inserts_held > each.samples_held ? "samplers" : "writers";
  const notes = [`${count(each.size)} of ${count(each.capacity)}`, `${number(each.samples_per_insert)} samples/insert`, each.state === "open" ? bytes(each.used_bytes) : each.state];
  return picture(
    `Table ${each.name}: ${count(each.inserts)} inserts/s, ${count(each.samples)} samples/s; bottleneck: ${hot}`,
    side(58, "writers", each.inserts, "inserts/s", hot === "writers", each.inserts_held),
    box(210, 10, each.name, notes, false),
    side(362, "samplers", each.samples, "samples/s", hot === "samplers", each.samples_held),
  );
}

// The busiest tables of a server, and all shards together.
export function showTables(place, tables, shards) {
  const pictures = tables.slice(0, MOST_DRAWN).map(tablePicture);
  if (shards.length) {
    const updates = shards.reduce((sum, each) => sum + each.updates, 0);
    const name = shards.length === 1 ? shards[0].name : `${count(shards.length)} shards`;
    const size = `${count(shards.reduce((sum, each) => sum + each.size, 0))} parameters`;
    const said = `Workers send ${count(updates)} gradients/s to ${name}`;
    pictures.push(picture(said, side(58, "workers", updates, "gradients/s", false, 0), box(210, 10, name, [size], false)));
  }
  place.replaceChildren(...(pictures.length ? pictures : ["The server has no tables and no shards yet."]));
}
