// The table of all locks.

import { get } from "./api.js";
import { counts } from "./charts.js";
import { byId, cells, clock, count, figures, make, rows, say, setText, span, spanOrNone } from "./dom.js";

const step = 100;
const mostRows = 1000;
const directions = { name: "ascending", left: "ascending", held: "descending", waiting: "descending" };
const wanted = { sort: "waiting", limit: step };
let toldOf = "";

// start has the controls ask again when they are used.
export function start(again) {
  let pause;
  byId("q").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(again, 150);
  });
  byId("filters").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  for (const id of ["kind", "held"]) byId(id).addEventListener("change", again);
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.firstElementChild.addEventListener("click", () => {
      wanted.sort = head.dataset.sort;
      say(`Sorted by ${head.textContent.toLowerCase()}`);
      again();
    });
  }
  byId("show-more").addEventListener("click", () => {
    wanted.limit = Math.min(mostRows, wanted.limit + 2 * step);
    again();
  });
}

// ask returns the answer with what was asked: by then the reader may have typed on.
export async function ask(signal) {
  const asked = { q: byId("q").value, kind: byId("kind").value, held: byId("held").checked ? "1" : "" };
  return { ...await get("api/locks", { ...asked, ...wanted }, signal), asked };
}

export function show(data) {
  figures(byId("figures"), [
    ["Held", data.held.toLocaleString()],
    ["Waiting", data.waiting.toLocaleString(), data.waiting > 0 ? "busy" : ""],
    ["Locks waited for", data.contended.toLocaleString()],
    ["Leases that ran out", data.ran_out.toLocaleString(), data.ran_out > 0 ? "bad" : ""],
  ]);
  counts(byId("activity"), data.samples, [{ name: "Held", cls: "held", at: 1 }, { name: "Waiting", cls: "waiting", at: 2 }], "Locks held and waiters");
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.setAttribute("aria-sort", head.dataset.sort === wanted.sort ? directions[wanted.sort] : "none");
  }
  rows(byId("locks").tBodies[0], data.rows, (row) => row.id || row.name, createRow, updateRow);
  showLimits(data);
  showEvents(data.events);
}

function createRow(lock) {
  const row = cells("th.name", "td.wide", "td.wide", "td.wide.who", "td.number.wide", "td.number.wide", "td.number");
  const name = lock.id ? make("a", { href: `#/lock/${lock.id}` }) : make("span");
  row.cells[0].append(name, make("span", { class: "sub" }));
  row.cells[2].append(make("span"));
  return row;
}

function updateRow(row, lock) {
  const [name, kind, state, holder, held, left, waiting] = row.cells;
  setText(name.firstElementChild, lock.name);
  setText(name.lastElementChild, [`${lock.kind}, ${lock.state}${lock.held < 0 ? "" : ` for ${span(lock.held)}`}`, lock.holder].filter((text) => text !== "-").join(" · "));
  setText(kind, lock.kind);
  setText(state.firstElementChild, lock.state);
  state.firstElementChild.className = lock.is_held ? "state on" : "state";
  setText(holder, lock.holder);
  setText(held, spanOrNone(lock.held));
  setText(left, lock.left);
  setText(waiting, lock.waiting ? lock.waiting.toLocaleString() : "-");
  waiting.classList.toggle("busy", lock.waiting > 0);
}

// showLimits says what is left out, and why.
function showLimits(data) {
  const texts = [];
  const filtered = Object.values(data.asked).some(Boolean);
  if (data.more) {
    texts.push(`There are more than ${count(data.kept, "lock")}; only those that were found first are shown, counted and followed. Start the dashboard with a pattern, --kind or --held to choose.`);
  }
  if (data.too_long) texts.push(`Left out: ${count(data.too_long, "name")} of more than 1,024 bytes, which no lock has.`);
  if (data.pattern || data.kinds || data.held_only) {
    texts.push(`Only ${[data.held_only ? "what is held" : "", data.kinds && `the kinds ${data.kinds}`, data.pattern && `the names ${data.pattern}`].filter(Boolean).join(", ")}, as the dashboard was started.`);
  }
  if (data.rows.length < data.matching) texts.push(`The first ${data.rows.length.toLocaleString()} of ${data.matching.toLocaleString()} are listed.`);
  else if (filtered) texts.push(`${count(data.matching, "lock")} of ${data.kept.toLocaleString()}.`);
  setText(byId("cut"), texts.join(" "));
  const none = byId("none");
  none.hidden = data.rows.length > 0 || data.age < 0;
  setText(none, filtered ? "No lock is like that." : "There are no locks. One that nobody holds or waits for leaves nothing in Redis.");
  byId("locks").hidden = data.rows.length === 0;
  byId("show-more").hidden = data.rows.length >= Math.min(data.matching, mostRows);
  const told = filtered ? `${count(data.matching, "lock")} found` : "";
  const question = Object.values(data.asked).join(" ");
  if (question !== toldOf && data.age >= 0) {
    if (toldOf !== "") say(told || "All locks are listed");
    toldOf = question;
  }
}

function showEvents(events) {
  byId("no-events").hidden = events.length > 0;
  rows(byId("events"), events, (e) => String(e.seq), (e) => {
    const name = e.id ? make("a", { href: `#/lock/${e.id}` }, e.name) : e.name;
    return make("li", { class: e.how === "ran_out" ? "bad" : "" }, make("time", {}, clock(e.ago)), " ", name, " ",
      make("span", {}, e.how === "ran_out" ? `the lease of ${e.who} ran out` : e.who ? `taken away from ${e.who}` : "taken away"));
  }, () => {});
}
