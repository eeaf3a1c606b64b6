// What a person sees of a page, and can reach.
const text = (e) => (e.getAttribute('aria-label') || e.innerText || e.value || e.getAttribute('alt') || '').replace(/\s+/g, ' ').trim();
const visible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
const clickable = 'a[href], button, summary, input[type=submit], [role=button]';
const place = (words) => {
  const all = [...document.querySelectorAll(clickable)].filter(visible);
  const e = all.find((e) => text(e) === words) ?? all.find((e) => text(e).includes(words));
  if (!e || e.disabled) return [];
  e.scrollIntoView({ block: 'center', behavior: 'instant' });
  window.hit = false; // in the next page it is undefined
  addEventListener('click', (event) => {
    const e = event.target.closest(clickable);
    window.hit = !!e && text(e).includes(words);
  }, { capture: true, once: true });
  const r = e.getClientRects()[0];
  return [r.x + r.width / 2, r.y + r.height / 2];
};
const unfold = () => {
  for (const d of document.querySelectorAll('details')) {
    d.removeAttribute('name'); // of those with one name, one is open at a time
    d.open = true;
  }
  return true;
};
const labels = (e) => [...(e.labels ?? [])].map(text).concat(e.getAttribute('aria-label') ?? '');
const focus = (label) => {
  const e = [...document.querySelectorAll('input, select, textarea')].filter(visible).find((e) => labels(e).some((l) => l.includes(label)));
  e?.focus();
  return !!e;
};
const focused = () => {
  const e = document.activeElement;
  return e === document.body ? '' : labels(e).find((l) => l) || text(e) || e.tagName;
};
const scrolls = (e) => e && (getComputedStyle(e).overflowX !== 'visible' && e !== document.body || scrolls(e.parentElement));
const wide = () => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll('body *')].filter((e) => visible(e) && e.getBoundingClientRect().right > width + 0.5 && !scrolls(e.parentElement))
    .map((e) => e.tagName.toLowerCase() + ' ' + text(e).slice(0, 60));
};
const operable = 'a[href], button, summary, input, select, textarea, [role=button], [tabindex="0"]';
const mark = () => {
  document.activeElement.blur();
  const all = [...document.querySelectorAll(operable)].filter((e) => visible(e) && e.type !== 'hidden' && !e.disabled);
  all.forEach((e) => { e.unreached = true; });
  return all.length;
};
const unmark = () => {
  const e = document.activeElement;
  const style = getComputedStyle(e);
  const box = e.getBoundingClientRect();
  const shown = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== 'none';
  if (shown && box.bottom > 0 && box.top < innerHeight) delete e.unreached;
  return true;
};
const marked = () => [...document.querySelectorAll(operable)].filter((e) => e.unreached && visible(e))
  .map((e) => e.tagName.toLowerCase() + ' ' + (labels(e).find((l) => l) || text(e)).slice(0, 60));
