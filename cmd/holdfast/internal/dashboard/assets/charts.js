// Charts are drawings for the eye, named by a sentence that says the same; a table below has the figures.

import { clock, count, make, makeSVG, setText, span } from "./dom.js";

const width = 600;
const height = 120;
const mostTableRows = 60;

// frame returns the parts of a chart that stay: the drawing's place, the scale, the legend and the table.
function frame(box, legend, columns, caption) {
  if (!box.firstElementChild) {
    const table = make("table", {}, make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { scope: "col" }, c)))), make("tbody"));
    box.append(
      make("ul", { class: "legend", "aria-hidden": "true" }, ...legend.map(([cls, text]) => make("li", { class: cls }, text))),
      make("div", { class: "drawing" }),
      make("p", { class: "scale", "aria-hidden": "true" }, make("span"), make("span")),
      make("p", { class: "note" }),
      make("details", {}, make("summary", {}, "The figures as a table"), table),
    );
  }
  const [, drawing, scale, note, details] = box.children;
  return { drawing, scale, note, body: details.querySelector("tbody"), details };
}

// steps is a line that stays where it is until the next sample.
function steps(samples, at, y, closed) {
  let path = "";
  samples.forEach((s, i) => {
    path += i === 0 ? `M${at(s[0])} ${y(s)}` : `H${at(s[0])}V${y(s)}`;
  });
  path += `H${width}`;
  return closed ? `${path}V${height}H${at(samples[0][0])}Z` : path;
}

function tableRows(body, lists) {
  body.replaceChildren(...lists.map((list) => make("tr", {}, ...list.map((text, i) => (i === 0 ? make("th", { scope: "row" }, text) : make("td", { class: "number" }, text))))));
}

// counts draws how many there were of one thing or two: samples are [ms ago, held, waiting].
export function counts(box, samples, series, title) {
  const parts = frame(box, series.map((s) => [s.cls, s.name]), ["Time", ...series.map((s) => s.name)], title);
  if (samples.length < 2) {
    parts.drawing.replaceChildren();
    setText(parts.note, "Nothing has been seen yet.");
    return;
  }
  const from = Math.max(samples[0][0], 1);
  const top = Math.max(1, ...samples.flatMap((s) => series.map((one) => s[one.at])));
  const at = (ago) => (((from - ago) / from) * width).toFixed(1);
  const now = samples[samples.length - 1];
  const sentence = series.map((one) => {
    const values = samples.map((s) => s[one.at]);
    return `${one.name.toLowerCase()}: ${now[one.at].toLocaleString()} now, at most ${Math.max(...values).toLocaleString()}, at least ${Math.min(...values).toLocaleString()}`;
  }).join("; ");
  const label = `${title} in the last ${span(from)}. ${sentence[0].toUpperCase()}${sentence.slice(1)}.`;
  const svg = makeSVG("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  const level = (value) => (height - 1 - (value / top) * (height - 9)).toFixed(1);
  const marks = [...new Set([0, Math.round(top / 2), top])];
  for (const mark of marks) svg.append(makeSVG("line", { class: "grid", x1: 0, x2: width, y1: level(mark), y2: level(mark) }));
  series.forEach((one, i) => {
    const y = (s) => level(s[one.at]);
    if (i === 0) svg.append(makeSVG("path", { class: `area ${one.cls}`, d: steps(samples, at, y, true) })); // two would mix
    svg.append(makeSVG("path", { class: `line ${one.cls}`, d: steps(samples, at, y, false) }));
  });
  parts.drawing.className = "drawing plot";
  parts.drawing.replaceChildren(svg, ...marks.map((mark) => {
    const label = make("span", { class: "axis", "aria-hidden": "true" }, mark.toLocaleString());
    label.style.top = `${(100 * level(mark)) / height}%`;
    return label;
  }));
  setText(parts.scale.firstElementChild, `${span(from)} ago`);
  setText(parts.scale.lastElementChild, "now");
  setText(parts.note, `${sentence[0].toUpperCase()}${sentence.slice(1)}.`);
  if (parts.details.open) {
    const every = Math.ceil(samples.length / mostTableRows);
    const some = samples.filter((_, i) => (samples.length - 1 - i) % every === 0).reverse();
    tableRows(parts.body, some.map((s) => [clock(s[0]), ...series.map((one) => s[one.at].toLocaleString())]));
  }
}

const endings = {
  "": "goes on",
  released: "given back, or taken away by somebody",
  ran_out: "its lease ran out",
  unclear: "gone; between two looks its lease could have run out, or not",
  taken: "taken away here",
  acquired: "got the lock",
  left: "left the line, or got the lock between two looks",
};

// told is a hold or a wait in words.
function told(one, waits) {
  const what = waits ? "waited" : one.mode ? `held it (${one.mode})` : "held it";
  const lasted = span(one.from - Math.max(one.to, 0));
  return { what, lasted: one.seen ? `${lasted} or more` : lasted, how: endings[one.how] || one.how };
}

const mostLanes = 12;

// timeline draws a lane for each who held the lock or waited for it.
export function timeline(box, holds, waits, from) {
  const parts = frame(box, [["held", "held"], ["waiting", "in line"], ["lost", "lease ran out"]], ["From", "Who", "What", "For", "How it ended"], "Holds and waits, the latest first");
  const spans = [...holds.map((h) => ({ ...h, waits: false })), ...waits.map((w) => ({ ...w, waits: true }))].filter((s) => s.to < from);
  const lanes = new Map();
  for (const one of spans.sort((a, b) => Math.max(b.to, 0) - Math.max(a.to, 0))) {
    lanes.delete(one.who); // who was there last comes last
    lanes.set(one.who, []);
  }
  const order = [...lanes.keys()].reverse();
  const shown = order.slice(0, mostLanes);
  for (const one of spans) lanes.get(one.who).push(one);
  const at = (ago) => Math.max(0, ((from - ago) / from) * width);
  parts.drawing.className = "drawing lanes";
  parts.drawing.replaceChildren(...shown.map((who) => {
    const svg = makeSVG("svg", { viewBox: `0 0 ${width} 16`, preserveAspectRatio: "none", role: "img" });
    const texts = [];
    for (const one of lanes.get(who)) {
      const x = at(one.from);
      const w = Math.max(at(Math.max(one.to, 0)) - x, 2);
      const cls = one.waits ? "waiting" : one.how === "ran_out" ? "held lost" : "held";
      svg.append(makeSVG("rect", { class: cls, x: x.toFixed(1), width: w.toFixed(1), y: one.waits ? 5 : 1, height: one.waits ? 6 : 14 }));
      const t = told(one, one.waits);
      texts.push(`${t.what} for ${t.lasted}, ${t.how}`);
    }
    svg.setAttribute("aria-label", `${who}: ${texts.slice(-5).join("; ")}`);
    return make("div", { class: "lane" }, make("span", { "aria-hidden": "true" }, who), svg);
  }));
  setText(parts.scale.firstElementChild, `${span(from)} ago`);
  setText(parts.scale.lastElementChild, "now");
  const left = order.length - shown.length;
  setText(parts.note, spans.length === 0 ? "No hold has been seen." : left > 0 ? `The ${mostLanes} latest of ${count(order.length, "owner")}; ${left} are left out.` : "");
  if (parts.details.open) {
    const latest = spans.sort((a, b) => a.from - b.from).slice(0, mostTableRows);
    tableRows(parts.body, latest.map((one) => {
      const t = told(one, one.waits);
      return [clock(one.from), one.who, t.what, t.lasted, t.how];
    }));
  }
}
