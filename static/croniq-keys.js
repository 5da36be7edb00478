// Keys. Which they are stands in the sheet that "?" shows, and is read from there: what is shown is what they do.
"use strict";

(() => {
  const ARMED_MS = 2000;
  const CONTROL = "input, select, textarea, button, summary, [contenteditable], [role=combobox], [role=listbox], [role=textbox], [role=slider], [role=menu]";
  const OFF = "croniq.keys.off";
  const sheet = document.getElementById("keys");
  if (!sheet) return;
  const hint = document.getElementById("armed");
  const jumps = new Map([...sheet.querySelectorAll("[data-jump]")].map((link) => [link.dataset.jump, link]));
  const doing = new Map([...sheet.querySelectorAll("[data-does]")].map((row) => [row.dataset.key, row.dataset.does]));
  let timer = 0;
  let place = -1;

  const rows = () => [...document.querySelectorAll("main table tbody tr")].filter((row) => row.querySelector("a[href]"));
  const linkOf = (row) => row.querySelector("a.key[href]") || row.querySelector("a[href]");

  function step(by) {
    const all = rows();
    const here = all.findIndex((row) => row.contains(document.activeElement));
    // A row that was replaced under the cursor: the one in its place.
    const from = here >= 0 ? here : place;
    const next = Math.max(0, Math.min(all.length - 1, from + by));
    if (!all.length) return;
    place = next;
    linkOf(all[next]).focus();
  }

  const does = {
    search() {
      const field = document.querySelector("main input[type=search], main form[method=get] input:not([type=hidden])");
      if (!field) return Croniq.openPalette();
      field.focus();
      field.select();
    },
    down: () => step(1),
    up: () => step(-1),
    tick() {
      const row = document.activeElement.closest("tr");
      const box = row && row.querySelector("input[type=checkbox]");
      if (box) box.click();
    },
    sheet: () => sheet.showModal(),
    jump() {
      hint.hidden = false;
      clearTimeout(timer);
      timer = setTimeout(disarm, ARMED_MS);
    },
  };

  function disarm() {
    clearTimeout(timer);
    timer = 0;
    hint.hidden = true;
  }

  const isOff = () => localStorage.getItem(OFF) !== null;

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest(CONTROL) || document.querySelector("dialog[open]") || isOff()) return disarm();
    if (event.key === "Shift") return;
    if (timer) {
      const link = jumps.get(event.key);
      disarm();
      if (event.key === "Escape") return;
      if (link) {
        event.preventDefault();
        return link.click();
      }
    }
    const name = doing.get(event.key);
    if (!name || !does[name]) return;
    event.preventDefault();
    does[name]();
  });
  window.addEventListener("blur", disarm);

  const choice = sheet.querySelector("#keys-on");
  choice.checked = !isOff();
  choice.addEventListener("change", () => {
    choice.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "");
  });
  for (const button of document.querySelectorAll("[data-open=keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => sheet.showModal());
  }
})();
