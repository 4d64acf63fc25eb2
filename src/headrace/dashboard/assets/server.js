// Receives a server's statistics as server-sent events and shows them.

import { Chart, extend } from "./charts.js";
import { Stream } from "./connection.js";
import { showTables } from "./diagram.js";
import { bytes, count, duration, element, number, percent, table, tile } from "./format.js";

const find = (id) => document.getElementById(id);
const charts = {};
let state = {};
let series = null;

function take(message) {
  if (message.reset) [state, series] = [message.state, message.series];
  else {
    state = { ...state, ...message.state };
    extend(series, message.series);
  }
  showConnection(state.connection);
  find("server-body").hidden = !state.totals;
  if (state.totals) show();
}

function showConnection(server) {
  find("root").textContent = server.address;
  document.title = `${server.address} · Headrace server`;
  const connected = server.status === "connected";
  const late = server.silent_seconds > 0;
  const notes = [connected && !late ? "connected" : "not connected"];
  if (state.totals) notes.push(`up ${duration(state.totals.uptime_seconds)}`, state.totals.data ? `data in ${state.totals.data}` : "data only in memory");
  if (server.restarts) notes.push(`${server.restarts === 1 ? "restarted once" : `${count(server.restarts)} restarts`} since this page's server began`);
  find("server-note").textContent = notes.join(" · ");
  const since = late ? ` The numbers below are ${count(server.silent_seconds)} s old.` : "";
  const texts = {
    connecting: "Connecting to the server.",
    connected: late ? "The server does not answer." : "",
    unreachable: `The server can't be reached: ${server.error}. Trying again.`,
    refused: `The server refuses: ${server.error}. Trying again.`,
  };
  const text = texts[server.status] + since;
  if (find("alert").textContent !== text) find("alert").textContent = text;
  find("alert").hidden = !text;
  find("server-body").classList.toggle("stale", !connected || late);
}

function show() {
  const { totals, tables, shards } = state;
  const limit = totals.memory_limit_bytes == null ? "" : ` of ${bytes(totals.memory_limit_bytes)}`;
  const tiles = [
    [count(totals.inserts), "inserts per second"],
    [count(totals.samples), "samples per second"],
    [bytes(totals.received_bytes), "received per second"],
    [bytes(totals.sent_bytes), "sent per second"],
    [bytes(totals.memory_bytes), `memory${limit}`],
    [percent(totals.cpu), "of a processor core"],
    [count(totals.connections), `connections${totals.blocked ? `, ${count(totals.blocked)} held` : ""}`],
    [count(totals.claims), "claims"],
  ];
  if (totals.shards) tiles.splice(2, 0, [count(totals.updates), "gradients per second"]);
  find("tiles").replaceChildren(...tiles.map(tile));
  showTables(find("diagram"), tables, shards);
  showCharts(totals);
  showLists(totals);
}

function chart(id, title, lines, columns, notes, options) {
  charts[id] ??= new Chart(find(id), title, lines, { zero: true, gaps: true, ...options });
  charts[id].show([series.seconds, ...columns.map((name) => series[name])], notes);
}

function showCharts(totals) {
  const flows = [{ name: "inserted", color: "c1" }, { name: "sampled", color: "c7" }];
  chart("rates", "Transitions per second", flows, ["inserts", "samples"], [count(totals.inserts), count(totals.samples)]);
  const traffic = [{ name: "received", color: "c1" }, { name: "sent", color: "c7" }];
  chart("traffic", "Bytes per second", traffic, ["received_bytes", "sent_bytes"], [bytes(totals.received_bytes), bytes(totals.sent_bytes)], { format: bytes });
  chart("memory", "Memory", [{ name: "used", color: "c3" }], ["memory_bytes"], [bytes(totals.memory_bytes)], { format: bytes });
  chart("cpu", "Processor", [{ name: "used", color: "c3" }], ["cpu"], [percent(totals.cpu)], { format: percent });
}

function held(share, words) {
  return share >= 0.005 ? [`${words} ${percent(share)}`] : [];
}

// A list with its number of rows; without rows it is not shown. The first hundred are listed.
function list(id, total, heads, rows) {
  find(`${id}-part`).hidden = !total;
  table(find(id === "runs" ? "runs-table" : id), heads, rows);
  const title = find(`${id}-part`).querySelector("h3");
  title.dataset.name ??= title.textContent;
  title.textContent = total > rows.length ? `${title.dataset.name}: ${count(rows.length)} of ${count(total)}` : title.dataset.name;
}

function showLists(totals) {
  const { runs, tables, shards, parameters, mailboxes, connections, claims } = state;
  const right = (...names) => names.map((name) => [name, "number"]);
  list("runs", totals.runs, [["run", ""], ["learner", ""], ...right("actors", "workers", "transitions", "bytes")],
    runs.map((each) => [each.name, each.learner ? "yes" : "–", count(each.actors), count(each.workers), count(each.transitions), bytes(each.bytes)]));
  list("tables", totals.tables, [["table", ""], ...right("filled", "bytes", "inserts/s", "samples/s", "ratio"), ["state", ""]],
    tables.map((each) => [
      each.name, `${count(each.size)} of ${count(each.capacity)}`, bytes(each.used_bytes), count(each.inserts), count(each.samples),
      number(each.samples_per_insert), [each.state, ...held(each.inserts_held, "inserts held"), ...held(each.samples_held, "samples held")].join(", "),
    ]));
  list("shards", totals.shards, [["shard", ""], ...right("floats", "bytes", "version", "updates/s", "stale", "apply", "dropped", "refused")],
    shards.map((each) => [
      each.name, count(each.size), bytes(each.bytes), count(each.version), count(each.updates), number(each.staleness),
      `${count(1e6 * each.apply_seconds)} µs`, count(each.dropped), count(each.refused),
    ]));
  list("parameters", totals.parameters, [["parameters", ""], ...right("version", "bytes", "versions/s")],
    parameters.map((each) => [each.name, count(each.version), bytes(each.bytes), number(each.versions)]));
  list("mailboxes", totals.mailboxes, [["mailbox", ""], ...right("messages", "bytes", "received/s", "dropped")],
    mailboxes.map((each) => [each.name, count(each.messages), bytes(each.bytes), number(each.received), count(each.dropped)]));
  list("connections", totals.connections, [["connection", ""], ...right("age", "requests/s", "received/s", "sent/s"), ["", ""]],
    connections.map((each) => [
      each.peer, duration(each.seconds), count(each.requests), bytes(each.received_bytes), bytes(each.sent_bytes), each.blocked ? "held" : "",
    ]));
  find("claims-part").hidden = !totals.claims;
  find("claims").textContent = claims.join(", ") + (totals.claims > claims.length ? ` and ${count(totals.claims - claims.length)} more` : "");
}

new Stream({ server: take }).open();
