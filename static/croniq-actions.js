// What a button does is asked for once, confirmed where it destroys, and refused where it was clicked.
"use strict";

(() => {
  const MOST_MS = 30000;
  const FIELDS = "input:not([type=hidden]), select, textarea";
  const words = document.getElementById("words").dataset;

  // Say beside a button what came of it. Whatever the server said counts; else what its status means.
  function refuse(form, text, link) {
    const place = form.closest(".actions, .doing, td") || form;
    let said = place.querySelector(":scope > .said") || place.parentElement.querySelector(":scope > .said");
    if (!said) {
      said = document.createElement("p");
      said.className = "message message-error said";
      said.setAttribute("role", "alert");
      place === form ? form.after(said) : place.append(said);
    }
    said.textContent = text;
    if (link) said.append(" ", link);
  }

  // What is wrong with a field is said at the field, with the whole beside the button.
  function refuseFields(form, names, lines) {
    const others = lines.filter((line, number) => !sayAt(form, decodeURIComponent(names[number] || ""), line));
    if (others.length) refuse(form, others.join("\n"));
    const wrong = form.querySelector("[aria-invalid=true]");
    if (wrong) wrong.focus();
  }

  function sayAt(form, name, text) {
    const field = name && form.elements.namedItem(name);
    if (!field || !field.matches || !field.matches(FIELDS)) return false;
    const said = document.createElement("p");
    said.className = "wrong";
    said.id = `${field.id || name}-refused`;
    said.setAttribute("role", "alert");
    said.textContent = text;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", said.id);
    (field.closest("label") || field).after(said);
    return true;
  }

  function forget(form) {
    for (const said of form.querySelectorAll(".wrong[id$=-refused]")) {
      for (const field of form.querySelectorAll(`[aria-describedby="${CSS.escape(said.id)}"]`)) {
        field.removeAttribute("aria-invalid");
        field.removeAttribute("aria-describedby");
      }
      said.remove();
    }
  }

  function meaning(status) {
    return words[`said${status}`] || Croniq.say("saidStatus", { status });
  }

  function signIn() {
    const link = document.createElement("a");
    link.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
    link.textContent = words.signIn;
    return link;
  }

  function go(address) {
    const target = new URL(address, location.href);
    const isHere = target.href.split("#")[0] === location.href.split("#")[0];
    isHere ? location.reload() : location.assign(target.href);
  }

  // A form that is shown again, with what was wrong in it.
  function show(html) {
    const main = document.getElementById("main");
    main.innerHTML = new DOMParser().parseFromString(html, "text/html").getElementById("main").innerHTML;
    htmx.process(main);
    Croniq.localize(main);
    (main.querySelector("[aria-invalid=true]") || main).focus();
  }

  async function send(form, button) {
    const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
    const body = new URLSearchParams(new FormData(form, button));
    let answer;
    try {
      answer = await fetch(form.action, { method: "POST", headers, body, redirect: "manual", signal: AbortSignal.timeout(MOST_MS) });
    } catch (error) {
      // Whether it was done nobody knows: it is neither called done nor refused.
      refuse(form, error.name === "TimeoutError" ? words.saidTimeout : words.saidNothing);
      return;
    }
    const where = answer.headers.get("HX-Redirect");
    if (answer.ok && where) go(where);
    else if (answer.type === "opaqueredirect") location.reload();
    else if (answer.status === 401) refuse(form, words.said401, signIn());
    else if ((answer.headers.get("Content-Type") || "").startsWith("text/plain")) {
      refuseFields(form, (answer.headers.get("Croniq-Fields") || "").split(","), (await answer.text()).split("\n"));
    }
    else if (answer.ok || answer.status === 400) show(await answer.text());
    else refuse(form, meaning(answer.status));
  }

  async function act(form, button) {
    if (form.dataset.sending !== undefined) return;
    form.dataset.sending = "";
    forget(form);
    if (button) button.setAttribute("aria-disabled", "true");
    try {
      await send(form, button);
    } finally {
      delete form.dataset.sending;
      if (button) button.removeAttribute("aria-disabled");
    }
  }

  // A dialog that names what will be, before it is.
  function ask(form, button) {
    const dialog = document.getElementById("confirm");
    dialog.querySelector("h2").textContent = button ? button.textContent.trim() : "";
    dialog.querySelector("p").textContent = form.dataset.confirm;
    const yes = dialog.querySelector("[data-yes]");
    yes.textContent = button ? button.textContent.trim() : "";
    yes.onclick = () => {
      dialog.close();
      act(form, button);
    };
    dialog.onclose = () => button && button.focus();
    dialog.showModal();
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    // A form without an address of its own, one that signs in or out, and the language: the browser sends it.
    if (form.method !== "post" || !form.hasAttribute("action") || !form.closest("#main[data-actions]")) return;
    if (form.matches("[hx-post], [data-plain], [enctype='multipart/form-data']")) return;
    event.preventDefault();
    form.dataset.confirm ? ask(form, event.submitter) : act(form, event.submitter);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("dialog [data-close]")) event.target.closest("dialog").close();
  });

  // What htmx asks for besides live parts, such as the preview of a schedule. Fields stay: somebody has written in them.
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      const source = event.target;
      if (source.closest("[data-live], #banner")) return;
      const target = event.detail.target || source;
      const status = event.detail.xhr ? event.detail.xhr.status : 0;
      if (source.form && target.querySelector(FIELDS)) {
        forget(source.form);
        sayAt(source.form, source.name, status ? `${meaning(status)} ${words.kept}` : words.kept);
      } else target.textContent = status ? meaning(status) : words.saidNothing;
    });
  }
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.target.form && event.detail.successful) forget(event.target.form);
  });
})();
