// The palette: what is typed finds jobs, runs, runners, calendars and commands. Without a script it is a page.
"use strict";

(() => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input");
  const found = document.getElementById("palette-found");
  const count = document.getElementById("palette-count");
  const options = () => [...found.querySelectorAll("[role=option]")];

  function choose(option) {
    for (const other of options()) other.setAttribute("aria-selected", String(other === option));
    if (!option) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const all = options();
    const here = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (all.length) choose(all[(here + by + all.length) % all.length]);
  }

  function go(option, isElsewhere) {
    if (!option) return;
    isElsewhere ? window.open(option.dataset.href, "_blank", "noopener") : location.assign(option.dataset.href);
  }

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    htmx.trigger(input, "croniq:open");
  }

  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) step(steps[event.key]);
    else if (event.key === "Enter") go(options().find((option) => option.getAttribute("aria-selected") === "true"), event.ctrlKey || event.metaKey);
    else return;
    event.preventDefault();
  });
  found.addEventListener("click", (event) => go(event.target.closest("[role=option]"), event.ctrlKey || event.metaKey));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  found.addEventListener("htmx:afterSettle", () => {
    const list = found.querySelector("[data-count]");
    count.textContent = list ? list.dataset.count : "";
    input.setAttribute("aria-expanded", String(options().length > 0));
    choose(options()[0]);
  });
  // While the answer to what was typed is on its way, Enter would take what was found for another text.
  input.addEventListener("input", () => choose(null));

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  for (const link of document.querySelectorAll("[data-open=palette]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      open();
    });
  }
  window.Croniq = window.Croniq || {};
  Croniq.openPalette = open;
})();
