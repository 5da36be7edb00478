// The log of a run: further lines as its reader comes to an edge of those that are here, new ones as they are written.
// A few thousand are kept at a time, whichever way he goes; his place stays where it is while lines come and go.
"use strict";

(() => {
  const box = document.getElementById("log-lines");
  if (!box) return;
  const MOST = 3000;
  const IN_ONE_LIST = 500;
  const POLL_MS = 3000;
  const says = document.querySelector("[data-log-says]");
  const button = document.querySelector("[data-log-follow]");
  const form = document.getElementById("log-form");
  const edge = (name) => box.querySelector(`[data-edge=${name}]`);
  const lists = () => box.querySelectorAll("ol");
  const first = () => box.querySelector("ol");
  const last = () => [...lists()].at(-1);
  const count = () => box.querySelectorAll("li").length;
  const hasEarlier = () => first().hasAttribute("data-earlier");
  const hasLater = () => last().hasAttribute("data-later");
  const isAtEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 40;

  let follows = false;
  let lastTop = 0;
  let isOver = !box.dataset.stream;
  let isRefused = false;
  let isAsking = false;
  let source = null;
  let timer = 0;
  let polls = 0;

  const url = (name, place) => `${box.dataset.page}?${box.dataset.asked ? `${box.dataset.asked}&` : ""}${name}=${place}`;

  function say(name) {
    says.textContent = box.getAttribute(`data-say-${name}`);
  }

  // What is read out by itself is what is added at the end while one is there, and not what one scrolls by.
  function show() {
    edge("earlier").hidden = !hasEarlier();
    edge("earlier").querySelector("a").href = url("before", first().dataset.first);
    edge("later").hidden = !hasLater();
    edge("later").querySelector("a").href = url("after", last().dataset.last);
    edge("end").hidden = hasLater();
    button.hidden = isOver || (follows && !hasLater());
    box.setAttribute("aria-live", follows && !isOver ? "polite" : "off");
  }

  function settle() {
    Croniq.localize(box);
    if (follows) box.scrollTop = box.scrollHeight;
    lastTop = box.scrollTop;
    show();
  }
  const soon = () => Croniq.soon(settle);

  // What stands above is put in or taken out: the lines that are read stay where they are.
  function keeping(change) {
    const before = box.scrollHeight;
    const top = box.scrollTop;
    change();
    box.scrollTop = top + box.scrollHeight - before;
    lastTop = box.scrollTop;
  }

  function trim(isAtTop) {
    while (count() > MOST && lists().length > 1) {
      if (isAtTop) {
        keeping(() => first().remove());
        first().setAttribute("data-earlier", "");
      } else {
        last().remove();
        last().setAttribute("data-later", "");
        stop();
      }
    }
  }

  function parsed(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content;
  }

  // Lines that were written since the last one that is here.
  function add(items, place) {
    if (!follows && count() + items.length > MOST) {
      // Their reader is elsewhere: they are asked for when he comes to the end of what is here.
      stop();
      last().setAttribute("data-later", "");
      say("newer");
      show();
      return;
    }
    let list = last();
    if (items.length && list.children.length + items.length > IN_ONE_LIST && list.children.length) {
      const [id, number] = list.dataset.last.split(".").map(Number);
      list = list.cloneNode(false);
      list.removeAttribute("data-earlier");
      list.dataset.first = `${id + 1}.${number + 1}`;
      last().after(list);
    }
    list.append(...items);
    list.dataset.last = place;
    if (items.length) edge("end").replaceChildren();
    trim(true);
    soon();
  }

  function finish() {
    isOver = true;
    stop();
    say("ended");
    if (count()) edge("end").textContent = box.getAttribute("data-say-ended");
    show();
  }

  // A part of the log; null where there is none to be had now.
  async function ask(name, place) {
    let answer;
    try {
      answer = await fetch(url(name, place), { headers: { "HX-Request": "true", "HX-Current-URL": location.href } });
    } catch {
      say("silent");
      return null;
    }
    const elsewhere = answer.headers.get("HX-Redirect");
    if (elsewhere) location.assign(elsewhere); // nobody is signed in any more
    if (elsewhere || [400, 403, 404].includes(answer.status)) {
      isRefused = true;
      say("refused");
      return null;
    }
    if (!answer.ok) {
      say("silent");
      return null;
    }
    return parsed(await answer.text()).querySelector("ol");
  }

  async function extend(isLater) {
    const list = isLater ? last() : first();
    if (isAsking || isRefused || !(isLater ? hasLater() : hasEarlier())) return;
    isAsking = true;
    const part = await ask(isLater ? "after" : "before", isLater ? list.dataset.last : list.dataset.first);
    isAsking = false;
    if (!part) return;
    if (isLater) {
      list.after(part);
      trim(true);
    } else {
      keeping(() => list.before(part));
      trim(false);
    }
    soon();
    look(); // the edge may be in sight still
    listen();
  }

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) extend(entry.target.dataset.edge === "later");
  }, { root: box, rootMargin: "600px 0px" });
  function look() {
    for (const name of ["earlier", "later"]) {
      observer.unobserve(edge(name));
      observer.observe(edge(name));
    }
  }

  function stop() {
    source?.close();
    source = null;
    clearTimeout(timer);
    timer = 0;
  }

  const isLive = () => !isOver && !isRefused && !document.hidden && !hasLater();

  function listen() {
    if (source || timer || !isLive()) return;
    const path = box.dataset.stream;
    source = new EventSource(`${path}${path.includes("?") ? "&" : "?"}after=${last().dataset.last}`);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("message", (event) => add([...parsed(event.data).children], event.lastEventId));
    source.addEventListener("end", finish);
    source.addEventListener("error", () => {
      // Closed: the answer was no stream. Else the browser asks again by itself, from the last line on.
      if (source?.readyState !== EventSource.CLOSED) return;
      stop();
      polls = 0;
      poll();
    });
  }

  // Where no stream is to be had: a part every few seconds, and now and then another try.
  function poll() {
    timer = setTimeout(async () => {
      const part = isLive() && (await ask("after", last().dataset.last));
      timer = 0;
      if (!isLive()) return;
      if (part) {
        say("polls");
        add([...part.children], part.dataset.last);
        last().toggleAttribute("data-later", part.hasAttribute("data-later"));
        if (part.hasAttribute("data-over") && !hasLater()) {
          finish();
          return;
        }
      }
      polls += 1;
      if (polls % 5) poll();
      else listen();
    }, POLL_MS);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) listen();
    else if (isLive() || source || timer) {
      stop();
      say("rests");
    }
  });
  box.addEventListener("scroll", () => {
    const before = follows;
    // Lines that come in the meantime move the end away: only who goes up leaves it.
    if (isAtEnd() && !hasLater()) follows = true;
    else if (box.scrollTop < lastTop) follows = false;
    lastTop = box.scrollTop;
    if (follows !== before) show();
    if (follows) listen();
  });
  button.addEventListener("click", () => {
    if (hasLater()) {
      location.assign(`${box.dataset.page}?${box.dataset.asked}`);
      return;
    }
    follows = true;
    soon();
    listen();
  });

  // A line's number is the address of the line.
  box.addEventListener("click", (event) => {
    const link = event.target.closest("li > a:first-child");
    if (!link || !form || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.replaceState(null, "", link.href);
    for (const marked of box.querySelectorAll("li[aria-current]")) marked.removeAttribute("aria-current");
    link.parentElement.setAttribute("aria-current", "true");
  });

  // How lines are shown changes at once, and one stays where one is.
  form?.addEventListener("change", (event) => {
    if (!event.target.matches("select")) return;
    if (!follows && ["wrap", "times"].includes(event.target.name)) {
      const there = box.getBoundingClientRect().top + box.clientHeight / 3;
      const line = [...box.querySelectorAll("li")].find((item) => item.getBoundingClientRect().bottom > there);
      if (line) form.elements.line.value = line.id.slice(1);
    }
    form.requestSubmit();
  });
  form?.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });

  const wanted = box.dataset.line && document.getElementById(`L${box.dataset.line}`);
  if (wanted) box.scrollTop += wanted.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  else if (!hasLater() && !location.hash) box.scrollTop = box.scrollHeight;
  follows = isAtEnd() && !hasLater() && !box.dataset.line;
  show();
  look();
  listen();
})();
