// The page of one lock.

import { get, post } from "./api.js";
import { counts, timeline } from "./charts.js";
import { byId, cells, count, figures, make, rows, say, setText, span, spanOrNone } from "./dom.js";

let id = "";
let shown;

export function start(again) {
  byId("unlock").addEventListener("click", openConfirm);
  byId("keep").addEventListener("click", () => byId("confirm").close());
  byId("take").addEventListener("click", () => take(again));
}

// open says which lock it is about.
export function open(newID) {
  id = newID;
  shown = undefined;
  for (const box of ["timeline", "waiting-chart", "facts", "seen"]) byId(box).replaceChildren();
  for (const table of ["holders", "waiters"]) byId(table).tBodies[0].replaceChildren();
  setText(byId("lock-title"), "Lock");
  byId("lock-body").hidden = byId("observed").hidden = byId("missing").hidden = true;
}

export const ask = (signal) => get("api/lock", { id }, signal);

export function show(data) {
  shown = data;
  setText(byId("lock-title"), data.name);
  document.title = `${data.name} - holdfast`;
  byId("missing").hidden = !data.missing;
  setText(byId("missing"), data.missing);
  byId("lock-body").hidden = Boolean(data.missing);
  figures(byId("facts"), data.missing ? [] : [
    ["Kind", data.about], ["State", data.state, data.is_held ? "on" : ""], ["Waiting", data.waiting.toLocaleString(), data.waiting > 0 ? "busy" : ""],
    ["Fencing token", data.token],
  ]);
  const facts = [data.permits && `${data.permits}.`, data.key && `The key in Redis ${data.key}.`];
  setText(byId("facts-note"), data.missing ? "" : facts.filter(Boolean).join(" "));
  showHolders(data);
  showWaiters(data);
  showTrail(data);
}

function whoIn(cell, one) {
  if (!cell.firstElementChild) cell.append(make("span"), make("span", { class: "owner" }));
  setText(cell.firstElementChild, one.who);
  setText(cell.lastElementChild, one.owner);
}

function showHolders(data) {
  byId("holders").hidden = data.holders.length === 0;
  rows(byId("holders").tBodies[0], data.holders, (h) => `${h.who} ${h.owner} ${h.mode}`, () => cells("th.who", "td.wide", "td.number", "td.number", "td.number.wide"), (row, h) => {
    whoIn(row.cells[0], h);
    setText(row.cells[1], h.mode || "-");
    setText(row.cells[2], spanOrNone(h.held));
    setText(row.cells[3], h.left);
    setText(row.cells[4], String(h.count));
  });
  const left = data.holder_count - data.holders.length;
  const unknown = data.holders.some((h) => h.held < 0);
  setText(byId("more-holders"), [
    data.holder_count === 0 ? "Nobody holds it, as far as Redis says." : "",
    left > 0 ? `And ${left.toLocaleString()} more.` : "",
    unknown ? "Since when is known of holdfast's clients, once a hold has lasted for a second." : "",
  ].filter(Boolean).join(" "));
  byId("unlock").hidden = !(data.allow_unlock && data.victims);
}

function showWaiters(data) {
  byId("waiters").hidden = data.waiters.length === 0;
  rows(byId("waiters").tBodies[0], data.waiters.map((w, i) => ({ ...w, place: i + 1 })), (w) => `${w.who} ${w.owner}`, () => cells("td.number", "th.who", "td.number"), (row, w) => {
    setText(row.cells[0], String(w.place));
    whoIn(row.cells[1], { who: w.note ? `${w.who}, ${w.note}` : w.who, owner: w.owner });
    setText(row.cells[2], spanOrNone(w.waited));
  });
  let note = `${count(data.waiting, "process", "processes")} ${data.waiting === 1 ? "listens" : "listen"} for a release. Redis does not say who they are${data.waiters.length > 0 ? ", but for the next one" : ""}.`;
  if (data.waiting === 0) note = "Nobody waits, as far as Redis says.";
  else if (data.line > 0) {
    const others = data.waiting - data.line;
    note = `${count(data.line, "waiter")} in line`;
    if (others > 0) note += `, and ${count(others, "process", "processes")} ${others === 1 ? "listens" : "listen"} for a release`;
    note += data.line > data.waiters.length ? `; the first ${data.waiters.length} are listed.` : ".";
  }
  setText(byId("waiting-note"), note);
}

function showTrail(data) {
  const t = data.trail;
  byId("observed").hidden = !t && !data.full;
  if (!t) {
    setText(byId("seen-note"), "It is not followed: there are more locks than the dashboard can remember.");
    return;
  }
  setText(byId("seen-note"), `Seen in looks since ${span(t.first)} ago, not told by Redis: what began and ended between two looks is missing. Nothing is kept when the dashboard ends.`);
  figures(byId("seen"), [
    ["Holds", t.holds_seen.toLocaleString()],
    ["Time with a waiter", t.followed > 0 ? `${Math.round((100 * t.contended) / t.followed)} %` : "-", t.contended > 0 ? "busy" : ""],
    ["Most who waited", t.most_waiting.toLocaleString()],
    [data.all_in_line ? "Longest wait" : "Longest time with a waiter", span(t.longest_wait)],
    ["Leases that ran out", t.ran_out.toLocaleString(), t.ran_out > 0 ? "bad" : ""],
  ]);
  const from = Math.max(1000, t.samples.length > 0 ? t.samples[0][0] : 0);
  timeline(byId("timeline"), t.holds, t.waits, from);
  counts(byId("waiting-chart"), t.samples, [{ name: "Waiting", cls: "waiting", at: 2 }], "Waiters");
}

function openConfirm() {
  setText(byId("victims"), `This hits whoever holds it: ${shown.victims}.`);
  setText(byId("confirm-error"), "");
  byId("confirm").dataset.seen = shown.seen;
  byId("take").disabled = false;
  byId("confirm").showModal();
}

async function take(again) {
  const dialog = byId("confirm");
  byId("take").disabled = true;
  try {
    const answer = await post("api/unlock", { id, seen: dialog.dataset.seen });
    dialog.close();
    say(answer.said);
    byId("lock-title").focus();
  } catch (error) {
    setText(byId("confirm-error"), error.message);
    byId("keep").focus();
  }
  again();
}
