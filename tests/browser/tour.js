// Prepares a tour with the Tab key: `window.tour` will have each element that had the focus and whether that shows.
const selector = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
// A mark is an outline, a shadow or a ground; of a link in a drawing, the stroke of what it holds.
const look = (node) => [node, ...node.querySelectorAll("rect, circle, path")].map((one) => {
  const style = getComputedStyle(one);
  return [style.outlineStyle, style.outlineWidth, style.boxShadow, style.backgroundColor, style.stroke].join();
}).join(";");
document.activeElement?.blur();
window.tour = new Map();
window.stops = [...document.querySelectorAll(selector)].filter(
  (node) => node.tabIndex >= 0 && !node.disabled && node.checkVisibility({ visibilityProperty: true }));
// Of a group of radio buttons one is reached with Tab, the others from there with the arrows.
const groups = new Set();
window.stops = window.stops.filter((node) => {
  if (node.type !== "radio") return true;
  const isFirst = !groups.has(node.name);
  groups.add(node.name);
  return isFirst;
});
const unfocused = new Map(window.stops.map((node) => [node, look(node)]));
document.addEventListener("focusin", (event) => {
  window.tour.set(event.target, look(event.target) !== unfocused.get(event.target));
});
