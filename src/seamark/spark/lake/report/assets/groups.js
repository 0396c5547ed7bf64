// The list of groups: filtered, sorted and paged here, so that five thousand of them are as quick as ten.
const PAGE = 50;
const groups = report.groups.map((group, place) => ({
  group,
  place,
  words: [group.name, ...new Set(group.shown.map((row) => report.topics[row[P.topic]]))].join("\n").toLowerCase(),
}));
const SHOWN = {
  all: ["all groups", () => true],
  found: ["with findings", (group) => sum(group.found) > 0],
  critical: ["with critical findings", (group) => group.found[0] > 0],
  behind: ["with lag", (group) => group.lag > 0],
  lost: ["with lost records", (group) => group.lost > 0],
  moved: ["moved from outside", (group) => group.outside > 0],
  empty: ["without members", (group) => group.members === 0],
};
const found = (group) => group.found[0] * 1e8 + group.found[1] * 1e4 + group.found[2];
// Title, what it is sorted by (none: cannot be), whether it falls at first, and the cell.
const COLUMNS = [
  ["Group", (group) => group.name, false, (group, place) => make("a", { href: `#/group/${place}` }, group.name || "(no name)")],
  ["Findings", found, true, (group) => foundBadges(group)],
  ["State", (group) => group.state || "", false, (group) => group.state || ""],
  ["Members", (group) => group.members, true, (group) => countText(group.members)],
  ["Lag", (group) => group.lag, true, (group) => lagCell(group)],
  ["Behind", (group) => group.time_lag_ms, true, (group) => lateText(group.time_lag_ms, group.method)],
  ["Lag over time", null, true, (group) => sparkline(group.lag_points)],
  ["Commits over time", null, true, (group) => heatStrip(group.commit_points)],
  ["Commits", (group) => group.commits, true, (group) => countText(group.commits)],
  ["Rebalances", (group) => group.rebalances, true, (group) => countText(group.rebalances)],
];
const NUMBERS = new Set(["Members", "Lag", "Behind", "Commits", "Rebalances"]);
const list = { text: "", show: "all", column: null, falls: true, page: 0, rows: groups };

// What the lag hides stands under it: a column each would not fit beside the charts.
function lagCell(group) {
  const parts = lagParts([group], (each) => each).map(([title, value, , look]) =>
    make("small", { class: look }, `${countText(value(group))} ${title.toLowerCase()}`),
  );
  return parts.length ? make("div", { class: "stacked" }, countText(group.lag), ...parts) : countText(group.lag);
}

function severityCount(count, name) {
  return `${countText(count)} ${name}${count === 1 || name === "critical" ? "" : "s"}`;
}

function foundBadges(group) {
  const badges = SEVERITIES.map((name, place) =>
    group.found[place] ? make("span", { class: `badge ${name}` }, severityCount(group.found[place], name)) : null,
  ).filter(Boolean);
  return badges.length ? dress(document.createDocumentFragment(), {}, badges) : "";
}

function headGroups() {
  const row = byId("groups").tHead.rows[0];
  for (const [title, key, falls] of COLUMNS) {
    const cell = make("th", { scope: "col", class: NUMBERS.has(title) ? "number" : null });
    if (key) {
      const button = make("button", { type: "button" }, title);
      button.addEventListener("click", () => {
        list.falls = list.column === title ? !list.falls : falls;
        list.column = title;
        list.page = 0;
        showGroups();
      });
      cell.append(button);
    } else {
      cell.append(title);
    }
    row.append(cell);
  }
  for (const [name, [text, test]] of Object.entries(SHOWN)) {
    const count = groups.filter((each) => test(each.group)).length;
    byId("groups-show").append(make("option", { value: name }, `${text} (${countText(count)})`));
  }
}

function chooseGroups() {
  const words = list.text.toLowerCase().split(/\s+/).filter(Boolean);
  const test = SHOWN[list.show][1];
  list.rows = groups.filter((each) => test(each.group) && words.every((word) => each.words.includes(word)));
  const column = COLUMNS.find(([title]) => title === list.column);
  if (!column) return;
  const key = column[1];
  const sign = list.falls ? -1 : 1;
  list.rows.sort((a, b) => {
    const [one, other] = [key(a.group), key(b.group)];
    // What is not known stands at the end either way.
    if (one === null || other === null) return (one === null) - (other === null) || a.place - b.place;
    return sign * (one < other ? -1 : one > other ? 1 : 0) || a.place - b.place;
  });
}

function showGroups() {
  chooseGroups();
  const pages = Math.max(1, Math.ceil(list.rows.length / PAGE));
  list.page = Math.max(0, Math.min(list.page, pages - 1));
  [...byId("groups").tHead.rows[0].cells].forEach((cell, place) => {
    if (COLUMNS[place][0] === list.column) cell.setAttribute("aria-sort", list.falls ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  const rows = list.rows.slice(list.page * PAGE, (list.page + 1) * PAGE).map(({ group, place }) => {
    const row = make("tr");
    for (const [title, , , cell] of COLUMNS) {
      const look = title === "Group" ? "name" : NUMBERS.has(title) ? "number" : null;
      row.append(make("td", { class: look, "data-title": title }, cell(group, place)));
    }
    return row;
  });
  byId("groups").tBodies[0].replaceChildren(...rows);
  byId("groups-count").textContent = `${countText(list.rows.length)} of ${countText(groups.length)} groups`;
  pager(byId("groups-pager"), list, pages, showGroups);
}

function pager(place, state, pages, show) {
  place.replaceChildren();
  if (pages < 2) return;
  const turn = (text, step, name) => {
    const button = make("button", { type: "button", "data-turn": name }, text);
    button.disabled = state.page + step < 0 || state.page + step >= pages;
    button.addEventListener("click", () => {
      state.page += step;
      show();
      window.scrollTo(0, 0);
    });
    return button;
  };
  place.append(turn("← Previous", -1, "back"), make("span", {}, `page ${state.page + 1} of ${pages}`), turn("Next →", 1, "on"));
}
