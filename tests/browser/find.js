// What is shown and has this name, as `Person.all` asks for it: exactly that name before a name in which it occurs.
const [selector, name, within] = arguments;
const flat = (text) => (text || "").replace(/\s+/g, " ").trim();
const texts = (nodes, key) => [...(nodes || [])].map((node) => flat(node?.[key])).join(" ");
const namesOf = (node) => {
  const ids = (node.getAttribute("aria-labelledby") || "").split(" ").filter(Boolean);
  return [
    node.getAttribute("aria-label"),
    texts(ids.map((id) => document.getElementById(id)), "textContent"),
    texts(node.labels, "innerText"),
    texts(node.labels, "textContent"),
    node.innerText,
    node.title,
    node.placeholder,
    node.type === "submit" ? node.value : "",
  ].map(flat).filter(Boolean);
};
const shown = [...(within || document).querySelectorAll(selector)]
  .filter((node) => node.checkVisibility({ visibilityProperty: true }));
const exact = shown.filter((node) => namesOf(node).includes(name));
return exact.length || !name ? (name ? exact : shown) : shown.filter((node) => namesOf(node).some((one) => one.includes(name)));
