/* Live updates, keys and the theme. Pages work without it.
 *
 * A new page is parsed as a document of its own, in which nothing runs, and parts of it are moved here as nodes: no text
 * from the server is ever taken for markup by this script. */
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const body = document.body;

  /* Theme: the server reads the cookie, so the next page has it from the start. */
  const themeButton = byId("theme-toggle");
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const toggleTheme = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `seamark-theme=${theme}; Path=/; Max-Age=31536000; SameSite=Strict`;
  };
  if (themeButton) {
    themeButton.hidden = false;
    themeButton.addEventListener("click", toggleTheme);
  }

  /* Log in with the link that was printed: what follows # never reaches a server's log. */
  const login = byId("login");
  const logInByLink = () => {
    if (location.hash.length < 2) return;
    byId("token").value = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    login.requestSubmit();
  };
  if (login) {
    addEventListener("hashchange", logInByLink);
    logInByLink();
  } else if (location.href.endsWith("#")) {
    /* Left by the redirect that took the token away. */
    history.replaceState(null, "", location.pathname + location.search);
  }

  /* Live updates. */
  const liveButton = byId("live-toggle");
  let isLive = true;
  let isAsking = false;
  let seen = body.dataset.version;
  let wanted = seen;

  const exchange = (fresh) => {
    const focused = document.activeElement;
    const address = focused && focused.closest("[data-live-part]") ? focused.getAttribute("href") : null;
    for (const part of document.querySelectorAll("[data-live-part]")) {
      const other = fresh.getElementById(part.id);
      if (other) part.replaceWith(document.importNode(other, true));
    }
    if (address) {
      for (const link of document.querySelectorAll("[data-live-part] a")) {
        if (link.getAttribute("href") === address) {
          link.focus({ preventScroll: true });
          break;
        }
      }
    }
  };

  const refresh = async () => {
    if (isAsking || !isLive || document.hidden || seen === wanted) return;
    const selection = getSelection();
    if (selection && !selection.isCollapsed) return; /* nobody's copying is disturbed */
    isAsking = true;
    const asked = wanted;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.redirected) {
        location.reload();
        return;
      }
      if (answer.ok) exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
      seen = asked;
    } catch {
      /* the stream tries again and tells when there is something to ask for */
    } finally {
      isAsking = false;
    }
    if (seen !== wanted) setTimeout(refresh, 250);
  };

  if (body.dataset.live && document.querySelector("[data-live-part]")) {
    /* A browser has few connections to one server: pages that nobody sees must not hold them. */
    let stream = null;
    const listen = () => {
      if (document.hidden) {
        stream?.close();
        stream = null;
        return;
      }
      if (stream) return;
      stream = new EventSource(body.dataset.live);
      stream.addEventListener("look", (event) => {
        wanted = JSON.parse(event.data).version;
        liveButton.dataset.stream = "open";
        refresh();
      });
      stream.addEventListener("error", () => {
        liveButton.dataset.stream = "lost";
      });
    };
    listen();
    setInterval(() => {
      for (const each of document.querySelectorAll("time[data-at]")) {
        const age = Math.max(0, Math.round((Date.now() - Number(each.dataset.at)) / 1000));
        if (age >= 5) each.textContent = age < 120 ? `${age}s ago` : `${Math.floor(age / 60)}m ago`;
      }
    }, 1000);
    document.addEventListener("visibilitychange", listen);
    document.addEventListener("selectionchange", refresh);
    addEventListener("pagehide", () => {
      stream?.close();
      stream = null;
    });
    addEventListener("pageshow", listen);
    liveButton.hidden = false;
    liveButton.addEventListener("click", () => {
      isLive = !isLive;
      liveButton.setAttribute("aria-pressed", String(isLive));
      refresh();
    });
  }

  /* Keys. */
  const keys = byId("keys");
  const openKeys = () => keys && !keys.open && keys.showModal();
  if (byId("keys-open")) {
    byId("keys-open").hidden = false;
    byId("keys-open").addEventListener("click", openKeys);
  }
  const step = (by) => {
    const rows = [...document.querySelectorAll("a.row")];
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (next) next.focus();
  };
  const go = (name) => document.querySelector(`[data-go="${name}"]`)?.click();
  let before = "";
  const actions = {
    "/": () => byId("filter")?.focus(),
    j: () => step(1),
    k: () => step(-1),
    t: toggleTheme,
    p: () => liveButton && !liveButton.hidden && liveButton.click(),
    "?": openKeys,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const pair = before + event.key;
    before = event.key === "g" ? "g" : "";
    if (pair === "gg") {
      before = "";
      go("groups");
    } else if (pair === "gt") go("topics");
    else if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });

  /* A value is asked for only where the way of setting needs one. */
  const way = byId("way");
  if (way) {
    const show = () => {
      byId("value").closest("label").hidden = ["earliest", "latest"].includes(way.value);
    };
    way.addEventListener("change", show);
    show();
  }

  /* A click on "make the changes" counts once. */
  for (const form of document.querySelectorAll('form[method="post"]')) {
    form.addEventListener("submit", () => {
      setTimeout(() => form.querySelectorAll("button").forEach((button) => (button.disabled = true)), 0);
    });
  }
  document.documentElement.dataset.ready = "yes";
})();
