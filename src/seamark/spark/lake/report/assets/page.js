// Which part is seen, the keys, and light or dark. The address behind # says what is shown, so back and links work.
function overview() {
  const totals = report.totals;
  byId("title").textContent = report.cluster ? `Consumer groups of cluster ${readable(report.cluster)}` : "Consumer groups";
  document.title = `Offsets report${report.cluster ? ` – ${report.cluster}` : ""}`;
  byId("span").textContent = totals.commits || totals.groups
    ? `${timeText(report.from_ms)} to ${timeText(report.until_ms)} UTC; each point of a chart covers ${stepText()}`
    : "The lake is empty.";
  byId("tiles").append(
    tile("Groups", countText(totals.groups), `${countText(totals.partitions)} partitions`),
    tile("Commits", countText(totals.commits), `${countText(totals.outside)} from outside`),
    tile("Lag", countText(totals.lag), "records, all groups"),
    tile("Rebalances", countText(totals.rebalances)),
    ...SEVERITIES.map((name) => tile(`${name[0].toUpperCase()}${name.slice(1)}`, countText(totals.severities[name]), "findings", totals.severities[name] ? name : null)),
  );
  if (totals.rejects) byId("tiles").append(tile("Rejects", countText(totals.rejects), "records that could not be read", "warning"));
  const left = report.groups_left_out ? ` ${countText(report.groups_left_out)} groups without findings and with the least lag are omitted.` : "";
  byId("foot").textContent = `Created ${timeText(report.made_ms)} UTC from version ${report.lake_version} of the lake.${left} All times are UTC. Who committed is inferred: Kafka does not record it.`;
}

function route() {
  hideTip();
  const [, view, place] = location.hash.split("/");
  const name = view === "group" || view === "findings" ? view : "groups";
  for (const each of ["groups", "findings", "group"]) byId(`view-${each}`).hidden = each !== name;
  byId("view-overview").hidden = name === "group";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name === "groups") showGroups();
  else if (name === "findings") showFindings();
  else {
    showGroup(Number(place));
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
function sayTheme() {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
}
function turnTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  sayTheme();
}

function move(step) {
  const links = [...document.querySelectorAll("#groups tbody a, #findings a")].filter((link) => link.offsetParent);
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  if (next) next.focus();
}

function turnPage(name) {
  const button = [...document.querySelectorAll(`[data-turn="${name}"]`)].find((each) => each.offsetParent);
  if (button && !button.disabled) button.click();
}

const KEYS = {
  "/": () => [...document.querySelectorAll(".filter input")].find((each) => each.offsetParent)?.focus(),
  j: () => move(1),
  k: () => move(-1),
  "[": () => turnPage("back"),
  "]": () => turnPage("on"),
  g: () => { location.hash = "#/groups"; },
  f: () => { location.hash = "#/findings"; },
  t: turnTheme,
  "?": () => byId("help").showModal(),
  Escape: () => { if (!byId("view-group").hidden) location.hash = "#/groups"; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

function onTyping(input, state, show) {
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.text = input.value;
      state.page = 0;
      show();
    }, 80);
  });
}

headGroups();
headFindings();
overview();
onTyping(byId("groups-filter"), list, showGroups);
onTyping(byId("findings-filter"), findingsList, showFindings);
byId("groups-show").addEventListener("change", (event) => { list.show = event.target.value; list.page = 0; showGroups(); });
byId("findings-kind").addEventListener("change", (event) => { findingsList.kind = event.target.value; findingsList.page = 0; showFindings(); });
byId("theme").addEventListener("click", turnTheme);
byId("keys").addEventListener("click", () => byId("help").showModal());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
dark.addEventListener("change", sayTheme);
window.addEventListener("hashchange", route);
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { if (!byId("view-group").hidden) showGroup(Number(location.hash.split("/")[2])); }, 150);
});
window.addEventListener("scroll", hideTip, { passive: true });
sayTheme();
route();
