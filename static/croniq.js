// What pages do beyond HTML: the viewer's own time zone, times that count on, and live parts that disturb nobody.
"use strict";

(() => {
  const two = (n) => String(n).padStart(2, "0");
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  // Today the time of day is enough; this year day and month; else the whole date.
  function shown(at, now) {
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    if (at.toDateString() === now.toDateString()) return clock;
    if (at.getFullYear() === now.getFullYear()) return `${at.getDate()} ${MONTHS[at.getMonth()]} ${clock}`;
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
  }

  function length(milliseconds) {
    const s = Math.floor(milliseconds / 1000);
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  // What is to come is due from its instant on; only a minute later it is late, and how late is told.
  function away(at, now, isToCome) {
    const milliseconds = at - now;
    if (isToCome && milliseconds < 1000) return milliseconds > -60000 ? "due now" : `due ${length(-milliseconds)} ago`;
    return milliseconds > 0 ? `in ${length(milliseconds)}` : `${length(-milliseconds)} ago`;
  }

  function tell(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function localize(root) {
    const now = new Date();
    for (const node of root.querySelectorAll("time[data-instant]:not([data-told])")) {
      const at = new Date(node.dateTime);
      node.dataset.told = "";
      tell(node, shown(at, now));
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

  function count(root) {
    const now = new Date();
    for (const node of root.querySelectorAll("[data-away]")) {
      tell(node, away(new Date(node.dataset.away), now, node.hasAttribute("data-due")));
    }
    for (const node of root.querySelectorAll("time[data-since]")) tell(node, length(Math.max(0, now - new Date(node.dateTime))));
  }

  function tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (!zone || zone === "UTC") return;
    for (const node of document.querySelectorAll("[data-zone]")) tell(node, `Times are in ${zone}`);
  }

  const log = () => document.getElementById("log");
  const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  let follows = false;
  let isAwaited = false;

  // htmx tells of every element that it has put in, thousands of them with a long log: all are seen to at once.
  function soon() {
    if (isAwaited) return;
    isAwaited = true;
    requestAnimationFrame(() => {
      isAwaited = false;
      localize(document);
      if (log() && follows) log().scrollTop = log().scrollHeight;
    });
  }

  // A live part is not asked for while nobody looks, nor replaced under a selection that somebody is making.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.target.closest('[data-live][hx-trigger^="every"]');
    if (!part) return;
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
    // Nor while rows of it are ticked.
    const isInUse = part.querySelector("input[type=checkbox]:checked") !== null;
    if (document.hidden || isSelecting || isInUse) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", () => {
    if (log()) follows = isAtEnd(log());
  });
  document.addEventListener("htmx:afterSettle", soon);

  document.addEventListener("DOMContentLoaded", () => {
    tellZone();
    follows = Boolean(document.querySelector('#log [hx-trigger^="every"]'));
    soon();
  });
  setInterval(() => count(document), 1000);
})();
