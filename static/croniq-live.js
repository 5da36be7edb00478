// Parts that keep themselves up to date, and disturb nobody: they wait while nobody looks and while one of them is used.
"use strict";

(() => {
  const LIVE = '[data-live][hx-trigger^="every"]';
  const words = document.getElementById("words").dataset;
  const skipped = new Set();
  let isBehind = false;
  let failing = "";

  // Why a part is not to be touched, as the key of a sentence; empty: it may be.
  function reason(part) {
    if (document.hidden || isBehind) return "pausedBehind";
    if (part.querySelector("input[type=checkbox]:checked")) return "pausedTicked";
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return "pausedSelected";
    const used = document.activeElement;
    const isUsed = used && part.contains(used) && used.matches("input, select, textarea, button, summary, time");
    return isUsed || part.querySelector("details[open]") ? "pausedUsed" : "";
  }

  function tell() {
    const sign = document.getElementById("live");
    if (!sign) return;
    const paused = [...document.querySelectorAll(LIVE)].map(reason).find(Boolean);
    const text = failing || (paused ? words[paused] : "");
    sign.classList.toggle("failing", failing !== "");
    if (sign.textContent !== text) sign.textContent = text;
    sign.hidden = text === "";
  }

  function goOn() {
    for (const part of skipped) {
      if (!part.isConnected) skipped.delete(part);
      else if (!reason(part)) {
        skipped.delete(part);
        htmx.ajax("GET", part.getAttribute("hx-get"), { source: part, target: part, swap: part.getAttribute("hx-swap") });
      }
    }
    tell();
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.target.closest(LIVE);
    // What is asked for by hand inside of a part is no refresh of it.
    if (!part || event.target !== part || !reason(part)) return;
    event.preventDefault();
    skipped.add(part);
    tell();
  });

  // Somebody may have begun to use it while the answer was on its way.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.requestConfig && event.detail.requestConfig.elt;
    if (!part || !part.matches(LIVE) || !reason(part)) return;
    event.detail.shouldSwap = false;
    skipped.add(part);
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.target.closest(LIVE) || !event.detail.successful) return;
    failing = "";
    tell();
  });
  for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      if (!event.target.closest(LIVE) || failing) return;
      const status = event.detail.xhr ? event.detail.xhr.status : 0;
      failing = status === 403 ? words.said403 : Croniq.say("silentSince", { clock: Croniq.shown(Date.now()) });
      tell();
    });
  }

  window.addEventListener("blur", () => {
    isBehind = true;
    tell();
  });
  window.addEventListener("focus", () => {
    isBehind = false;
    goOn();
  });
  for (const name of ["visibilitychange", "change", "focusin", "focusout", "toggle", "htmx:afterSettle"]) {
    document.addEventListener(name, () => setTimeout(goOn), true);
  }
  document.addEventListener("selectionchange", tell);
})();
