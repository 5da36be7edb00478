// Times: in the zone of who looks, short, two instants never alike, and counting on in a tab that is left open.
"use strict";

window.Croniq = window.Croniq || {};

(() => {
  const page = document.documentElement;
  const words = document.getElementById("words").dataset;
  const QUARTER = 900000;
  const HOUR = 3600000;
  const two = (n) => String(n).padStart(2, "0");

  // A sentence of the page's language, with what it names put in.
  const say = (name, values) => words[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);

  // What the viewer has chosen, else what his browser says, else UTC.
  function reader() {
    const usual = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const zone of [page.dataset.timeZone, usual, "UTC"]) {
      try {
        if (zone) return new Intl.DateTimeFormat("en-US", {
          timeZone: zone, hourCycle: "h23",
          year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
        });
      } catch {
        // A browser that is older than the zone.
      }
    }
    throw new Error("no browser is without UTC");
  }
  const parts = reader();
  const zone = parts.resolvedOptions().timeZone;
  const month = new Intl.DateTimeFormat(page.lang || "en", { timeZone: "UTC", month: "short" });

  // No zone changes its clock within a quarter of an hour: a long log asks for each of them once.
  const offsets = new Map();
  function offsetAt(ms) {
    const quarter = Math.floor(ms / QUARTER) * QUARTER;
    if (!offsets.has(quarter)) {
      const at = {};
      for (const { type, value } of parts.formatToParts(quarter)) at[type] = Number(value);
      offsets.set(quarter, Date.UTC(at.year, at.month - 1, at.day, at.hour, at.minute, at.second) - quarter);
    }
    return offsets.get(quarter);
  }

  function offsetName(ms) {
    if (zone === "UTC") return "UTC";
    const minutes = Math.round(offsetAt(ms) / 60000);
    return `${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  }

  // Whether the clock of the zone shows this time a second time, as in an autumn night.
  function isTwice(ms) {
    const offset = offsetAt(ms);
    return [ms - 3 * HOUR, ms + 3 * HOUR].map(offsetAt)
      .some((other) => other !== offset && offsetAt(ms + offset - other) === other);
  }

  const local = (ms) => new Date(ms + offsetAt(ms));
  const clock = (at) => `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  const day = (at) => `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;

  // Today the time of day is enough; this year day and month; else the whole date.
  function shown(ms, now) {
    const at = local(ms);
    const today = local(now);
    const which = isTwice(ms) ? ` ${offsetName(ms)}` : "";
    if (day(at) === day(today)) return clock(at) + which;
    if (at.getUTCFullYear() !== today.getUTCFullYear()) return `${day(at)} ${clock(at)}${which}`;
    return `${at.getUTCDate()} ${month.format(at)} ${clock(at)}${which}`;
  }

  function length(ms) {
    const s = Math.floor(ms / 1000);
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  // What is to come is due from its instant on; only a minute later it is late, and how late is told.
  function away(ms, now, isToCome) {
    const distance = ms - now;
    if (isToCome && distance < 1000) return distance > -60000 ? words.dueNow : say("dueAgo", { length: length(-distance) });
    return distance > 0 ? say("in", { length: length(distance) }) : say("ago", { length: length(-distance) });
  }

  function tell(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  // Where the server does not know the viewer's zone, what is typed is read on the clock that the page shows.
  function tellZone(said) {
    said.removeAttribute("data-guessed-zone");
    said.value = zone;
    for (const node of said.form.querySelectorAll("[data-zone-name]")) tell(node, zone);
    for (const field of said.form.querySelectorAll("input[data-at]")) {
      const at = local(Date.parse(field.dataset.at));
      field.value = `${day(at)}T${clock(at)}`;
    }
  }

  function localize(root) {
    const now = Date.now();
    // Said once is enough, where the job's zone is the viewer's.
    for (const node of root.querySelectorAll("[data-unless-zone]")) node.hidden = node.dataset.unlessZone === zone;
    for (const said of root.querySelectorAll("input[data-guessed-zone]")) tellZone(said);
    for (const node of root.querySelectorAll("time[data-instant]:not([data-told])")) {
      const ms = Date.parse(node.dateTime);
      const at = local(ms);
      node.dataset.told = "";
      tell(node, shown(ms, now));
      const full = `${day(at)} ${clock(at)} ${offsetName(ms)}${zone === "UTC" ? "" : ` ${zone}`}`;
      if (!node.title.split("\n").includes(full)) node.title = `${full}\n${node.title}`;
      // Whoever has no pointer reaches what is said on hover by the keyboard; the lines of a log are too many.
      if (!node.closest("a, button, summary, label, [role=log]")) node.tabIndex = 0;
      if (node.hasAttribute("data-relative")) {
        const distance = document.createElement("span");
        distance.className = "away";
        distance.dataset.away = node.dateTime;
        if (node.dataset.relative === "due") distance.dataset.due = "";
        node.after(" ", distance);
      }
    }
    count(root);
  }

  let today = day(local(Date.now()));
  function count(root) {
    const now = Date.now();
    for (const node of root.querySelectorAll("[data-away]")) {
      tell(node, away(Date.parse(node.dataset.away), now, node.hasAttribute("data-due")));
    }
    for (const node of root.querySelectorAll("time[data-since]")) {
      tell(node, length(Math.max(0, now - Date.parse(node.dateTime))));
    }
    // A tab that is left open over midnight: what was today is yesterday.
    if (day(local(now)) === today) return;
    today = day(local(now));
    for (const node of document.querySelectorAll("time[data-told]")) tell(node, shown(Date.parse(node.dateTime), now));
  }

  // What a time says on hover, for whoever has come to it, or to the link around it, by the keyboard.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  function hide() {
    tip.hidden = true;
    for (const node of document.querySelectorAll("[aria-describedby=tip]")) node.removeAttribute("aria-describedby");
  }
  document.addEventListener("focusin", (event) => {
    hide();
    const focused = event.target;
    if (!focused.matches("time, a, button, summary") || !focused.matches(":focus-visible")) return;
    const time = focused.matches("time") ? focused : focused.querySelector("time[title]");
    if (!time) return;
    tip.textContent = time.title;
    tip.hidden = false;
    const box = time.getBoundingClientRect();
    tip.style.top = `${box.bottom + window.scrollY + 4}px`;
    tip.style.left = `${Math.max(8, Math.min(box.left, page.clientWidth - tip.offsetWidth - 8)) + window.scrollX}px`;
    focused.setAttribute("aria-describedby", "tip");
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });

  // What is asked for many times before the next picture is done once, with it.
  const awaited = new Set();
  function soon(work) {
    if (awaited.has(work)) return;
    awaited.add(work);
    requestAnimationFrame(() => {
      awaited.delete(work);
      work();
    });
  }
  const localizeAll = () => localize(document);

  Croniq.say = say;
  Croniq.shown = (ms) => shown(ms, Date.now());
  Croniq.localize = localize;
  Croniq.soon = soon;
  // htmx tells of every element that it has put in, thousands of them with a long log: all are seen to at once.
  document.addEventListener("htmx:afterSettle", () => soon(localizeAll));
  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(tip);
    for (const node of document.querySelectorAll("[data-zone]")) tell(node, say("timesIn", { zone }));
    localize(document);
  });
  setInterval(() => count(document), 1000);
})();
