// What the views have in common. Text gets into the page as text only.

export const byId = (id) => document.getElementById(id);

// make returns an element with attributes and children; a child that is no node is text.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const svgSpace = "http://www.w3.org/2000/svg";

export function makeSVG(name, attributes = {}, ...children) {
  const element = document.createElementNS(svgSpace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// setText changes a text only if it is another one: a selection, or what a screen reader is at, stays.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// say has screen readers say something.
export const say = (text) => setText(byId("says"), text);

// span writes ms as the tool does.
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (ms < 10000) return `${Math.floor(Math.max(0, ms) / 100) / 10}s`;
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${two(Math.floor((seconds % 3600) / 60))}m`;
  return `${Math.floor(seconds / 86400)}d${two(Math.floor((seconds % 86400) / 3600))}h`;
}

export const spanOrNone = (ms) => (ms < 0 ? "-" : span(ms));

// clock is the time of day that was so many ms ago.
export const clock = (ago) => new Date(Date.now() - ago).toLocaleTimeString();

// count writes a number with its noun.
export const count = (n, noun, nouns = noun + "s") => `${n.toLocaleString()} ${n === 1 ? noun : nouns}`;

// figures fills a list of terms and values, and keeps what is the same.
export function figures(list, pairs) {
  const wanted = pairs.filter(([, value]) => value !== "" && value !== undefined);
  while (list.children.length > wanted.length) list.lastElementChild.remove();
  wanted.forEach(([term, value, tone], i) => {
    let box = list.children[i];
    if (!box) {
      box = make("div", {}, make("dt"), make("dd"));
      list.append(box);
    }
    setText(box.firstElementChild, term);
    setText(box.lastElementChild, String(value));
    box.className = tone || "";
  });
}

// rows makes the rows of a table those of a list, by their keys: a row that stays keeps its element, and so the
// focus in it.
export function rows(body, list, keyOf, create, update) {
  const there = new Map();
  for (const row of body.children) there.set(row.dataset.key, row);
  const focused = document.activeElement;
  let at = body.firstElementChild;
  for (const item of list) {
    const key = keyOf(item);
    let row = there.get(key);
    if (row) there.delete(key);
    else {
      row = create(item);
      row.dataset.key = key;
    }
    update(row, item);
    if (row === at) at = at.nextElementSibling;
    else body.insertBefore(row, at);
  }
  for (const row of there.values()) row.remove();
  if (focused && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
}

// cells returns a new row of cells; a class stands behind a name's dot.
export function cells(...kinds) {
  return make("tr", {}, ...kinds.map((kind) => {
    const [name, ...classes] = kind.split(".");
    const cell = make(name);
    if (name === "th") cell.scope = "row";
    cell.className = classes.join(" ");
    return cell;
  }));
}
