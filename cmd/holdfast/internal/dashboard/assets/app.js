// Which view is shown, and asking for it again and again: never twice at once, and not while nobody looks.

import { Refused, post } from "./api.js";
import { byId, clock, say, setText, span } from "./dom.js";
import * as list from "./list.js";
import * as lock from "./lock.js";

const pauseAfterFailure = 2000;
const views = { list: "list-view", lock: "lock-view", "sign-in": "sign-in-view" };

let view = "";
let asking; // what ends the question that is on its way
let timer;
let takenAt = 0; // when the last answer came, and how old it was
let age = -1;
let took = 0; // how long the last look took
let trouble = ""; // what was said of it
let lastLock = "";

function showView(name) {
  for (const [key, id] of Object.entries(views)) byId(id).hidden = key !== name;
  view = name;
}

// route shows what the address says, and moves the focus there.
function route(first) {
  const match = /^#\/lock\/(.*)$/.exec(location.hash);
  if (match) {
    lastLock = match[1];
    lock.open(match[1]);
    showView("lock");
  } else {
    showView("list");
    document.title = "Locks - holdfast";
  }
  if (first !== true) focusView();
  again();
}

// focusView puts the focus on the lock that the reader comes back from, or on the title.
function focusView() {
  const from = view === "list" && lastLock && document.querySelector(`#locks a[href="#/lock/${CSS.escape(lastLock)}"]`);
  (from || document.querySelector(`#${views[view]} h1`)).focus();
}

// again asks at once.
function again() {
  clearTimeout(timer);
  if (asking) asking.abort();
  if (document.hidden || view === "sign-in") return;
  ask();
}

async function ask() {
  const mine = new AbortController();
  asking = mine;
  const shown = view === "lock" ? lock : list;
  let pause = pauseAfterFailure;
  try {
    const data = await shown.ask(mine.signal);
    if (mine.signal.aborted) return;
    status(data);
    shown.show(data);
    pause = data.next;
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) {
      signIn();
      return;
    }
    tell(error.message);
  }
  timer = setTimeout(again, pause);
}

// status shows what is said of the dashboard itself.
function status(data) {
  setText(byId("server"), `Redis ${data.server}`);
  byId("sign-out").hidden = !data.session;
  takenAt = performance.now();
  age = data.age;
  took = data.took;
  tell(data.away && `Redis cannot be used since ${clock(data.away_for)}, for ${span(data.away_for)}: ${data.away}. What is shown is from before.`, data.away && `Redis cannot be used: ${data.away}`);
  tick();
}

// tell shows what is wrong. Screen readers hear of it once, and not of the time that goes by.
function tell(text, once = text) {
  byId("banner").hidden = text === "";
  setText(byId("banner"), text);
  if (once !== trouble) say(once || "It works again.");
  trouble = once;
}

// tick shows how old it is what is shown.
function tick() {
  const now = age + performance.now() - takenAt;
  setText(byId("fresh"), age < 0 ? "first look …" : (now < 1500 ? "as of now" : `as of ${span(now)} ago`) + (took > 1500 ? `, a look takes ${span(took)}` : ""));
  byId("fresh").classList.toggle("old", age >= 0 && now > 15000 + 6 * took);
}

function signIn() {
  showView("sign-in");
  document.title = "Sign in - holdfast";
  byId("sign-out").hidden = true;
  tell("");
  byId("token").focus();
}

byId("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await post("api/sign-in", { token: byId("token").value });
    byId("token").value = "";
    setText(byId("sign-in-error"), "");
    route();
  } catch (error) {
    setText(byId("sign-in-error"), error.status === 401 ? "That is not the token." : error.message);
    byId("token").focus();
  }
});

byId("sign-out").addEventListener("click", async () => {
  try {
    await post("api/sign-out", {});
  } catch (error) {
    tell(error.message);
    return;
  }
  signIn();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

list.start(again);
lock.start(again);
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", again);
setInterval(tick, 1000);
route(true);
