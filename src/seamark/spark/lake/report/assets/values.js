// What the report holds, and how its numbers are said. Names come from outside: they become text nodes, never markup.
const report = JSON.parse(document.getElementById("content").textContent);
const SEVERITIES = ["critical", "warning", "notice"];
const byId = (id) => document.getElementById(id);

// Characters that would hide or reorder text are shown as the escapes that commands and logs show.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
// Attributes that a person reads.
const TOLD = new Set(["aria-label", "title"]);
const SHORT_ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

// A name may have 32 kB; a page of them must stay a page.
const LONGEST = 500;
const shortened = (text) => `${text.slice(0, LONGEST / 2)}… (${text.length - LONGEST} more characters) …${text.slice(-LONGEST / 2)}`;

function readable(text) {
  return (text.length > LONGEST ? shortened(text) : text).replace(UNSEEN, (each) => {
    const hex = each.codePointAt(0).toString(16);
    if (SHORT_ESCAPES[each]) return SHORT_ESCAPES[each];
    return hex.length <= 2 ? `\\x${hex.padStart(2, "0")}` : hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  return dress(element, attributes, children);
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return dress(element, attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, TOLD.has(name) ? readable(value) : value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== "") element.append(typeof child === "string" ? readable(child) : child);
  }
  return element;
}

// A partition or a rebalance comes as a list; its columns are named once.
function columnsOf(names) {
  return Object.fromEntries(names.map((name, place) => [name, place]));
}
const P = columnsOf(report.partition_columns);
const R = columnsOf(report.rebalance_columns);
const partitionName = (row) => `${report.topics[row[P.topic]]}-${row[P.partition]}`;

const whole = new Intl.NumberFormat("en-US");
const countText = (number) => (number === null || number === undefined ? "–" : whole.format(Math.round(number)));

function shortText(number) {
  if (number === null || number === undefined) return "–";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(number) >= size) return Number((number / size).toPrecision(3)) + unit;
  }
  return String(Number(number.toPrecision(3)));
}

function durationText(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 10000) return ms === 0 ? "0s" : `${(ms / 1000).toFixed(1)}s`;
  let rest = Math.round(ms / 1000);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push([count, unit]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map(([count, unit]) => count + unit).join("");
}

// Times are UTC throughout, as in the lake.
function timeText(ms) {
  if (ms === null || ms === undefined) return "–";
  // A number out of a record may be beyond what a date can be.
  if (!(Math.abs(ms) <= 8.64e15)) return `${ms} ms since 1970`;
  const text = new Date(ms).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

// What the lag hides: title, value, what it means, look; those that say something of any of the rows.
function lagParts(rows, lagOf) {
  return [
    ["Lost", (row) => lagOf(row).lost, "records, deleted before they were read", "critical", (lag) => lag.lost > 0],
    ["Unfinished", (row) => lagOf(row).unfinished, "of the lag, neither lost nor done ahead", null, (lag) => lag.unfinished !== null && lag.unfinished !== lag.lag],
    ["Beyond the end", (row) => lagOf(row).beyond, "how far the committed offset is past the log's end", "critical", (lag) => lag.beyond > 0],
  ].filter(([, , , , says]) => rows.some((row) => says(lagOf(row))));
}

function lateText(ms, method) {
  if (ms === null || ms === undefined) return "–";
  return method === "at least" ? `≥ ${durationText(ms)}` : durationText(ms);
}

function lateNote(ms, method) {
  return ms === null || ms === undefined || method === null ? "unknown" : method;
}

const pointTime = (point) => report.from_ms + point * report.step_ms;
const sum = (numbers) => numbers.reduce((total, each) => total + (each || 0), 0);
const most = (numbers) => numbers.reduce((found, each) => (each !== null && each > found ? each : found), 0);

function stepText() {
  return durationText(report.step_ms);
}
