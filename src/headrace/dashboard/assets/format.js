// Numbers, times and elements. All text from runs enters the page as text, never as HTML.

export function count(value) {
  return value == null ? "–" : Math.round(value).toLocaleString("en-US");
}

export function number(value, digits = 1) {
  if (value == null) return "–";
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// A return with three digits at least: 219.3, 0.965. A spread has the digits of its mean.
export function score(value, mean = value) {
  const size = Math.abs(mean ?? 0);
  return number(value, !size || size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function short(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e3) return `${+(value / 1e3).toPrecision(3)} k`;
  return `${+value.toPrecision(3)}`;
}

export function duration(seconds) {
  if (seconds == null) return "–";
  const whole = Math.floor(seconds);
  const two = (part) => String(part).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

export function bytes(value) {
  if (value == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let index = 0;
  while (value >= 1000 && index < units.length - 1) [value, index] = [value / 1000, index + 1];
  return `${value.toFixed(index ? 1 : 0)} ${units[index]}`;
}

export function percent(share) {
  if (share == null) return "–";
  return `${+(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function drawn(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

export function table(place, heads, rows) {
  const head = element("tr", {}, ...heads.map(([text, kind]) => element("th", { scope: "col", class: kind }, text)));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell, index) => element("td", { class: heads[index][1] }, cell))));
  place.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}

// A number with a note.
export function tile([value, note]) {
  return element("div", { class: "tile" }, element("b", {}, value), element("span", {}, note));
}
