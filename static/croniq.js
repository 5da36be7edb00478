// The log of a run that is still written: its reader stays at its end until he scrolls up.
"use strict";

(() => {
  const log = () => document.getElementById("log");
  const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  let follows = false;

  document.addEventListener("htmx:beforeSwap", () => {
    if (log()) follows = isAtEnd(log());
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (log() && follows) requestAnimationFrame(() => (log().scrollTop = log().scrollHeight));
  });
  document.addEventListener("DOMContentLoaded", () => {
    follows = Boolean(document.querySelector('#log [hx-trigger^="every"]'));
    if (log() && follows) log().scrollTop = log().scrollHeight;
  });
})();
