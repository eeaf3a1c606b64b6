// What HTML and htmx cannot do: times, output that follows its end, and how a page that
// is open stays up to date.
(() => {
  const on = (name, act) => document.addEventListener(name, act);

  // A time is how long ago it was, or in how long it will be. In a sentence it is day and time.
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
  const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
  const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
  const steps = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
  const words = (at) => {
    const seconds = (at - Date.now()) / 1000;
    const [unit, length] = steps.find(([, n]) => Math.abs(seconds) >= n) ?? ['second', 1];
    return relative.format(Math.trunc(seconds / length), unit);
  };
  const times = () => {
    for (const t of document.querySelectorAll('time[datetime]')) {
      const at = new Date(t.dateTime);
      const text = t.className === 'date' ? date.format(at) : words(at), title = exact.format(at);
      if (t.textContent !== text) t.textContent = text;
      if (t.title !== title) t.title = title;
    }
  };
  on('htmx:before:morph:node', (e) => { // the new text is written by times
    const { oldNode, newNode } = e.detail;
    if (oldNode.className === 'zone' || oldNode.dataset?.utc != null) e.preventDefault();
    if (oldNode.tagName !== 'TIME') return;
    e.preventDefault();
    oldNode.dateTime = newNode.dateTime;
    oldNode.className = newNode.className;
  });

  // A form takes times in the zone in which the page shows them. Its address has UTC.
  const { timeZone } = exact.resolvedOptions();
  const minute = (at) => at.toISOString().slice(0, 16).replace('T', ' ');
  const zones = () => {
    for (const input of document.querySelectorAll('.utc:not([data-utc])')) {
      const utc = input.dataset.utc = input.defaultValue, at = new Date(utc.replace(' ', 'T') + 'Z');
      if (utc) input.defaultValue = minute(new Date(at - at.getTimezoneOffset() * 60000));
      if (input.value === utc) input.value = input.defaultValue;
      input.labels[0].querySelector('.zone').textContent = timeZone;
    }
  };
  on('formdata', (e) => {
    for (const input of e.target.querySelectorAll('.utc')) {
      const [, day, time = '00:00'] = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/.exec(input.value.trim()) ?? [];
      const at = new Date(`${day}T${time}`);
      if (input.value === input.defaultValue) e.formData.set(input.name, input.dataset.utc);
      else if (at > 0) e.formData.set(input.name, minute(at));
    }
  });

  // What the reader has opened or closed stays so while the page refreshes itself.
  htmx.config.morphIgnore.push('open');

  // The second click of a double click would be refused, as if the first had done nothing.
  on('submit', (e) => {
    if (e.target.method !== 'post') return;
    if (e.target.dataset.sent) e.preventDefault();
    e.target.dataset.sent = 'yes';
    document.getElementById('news')?.remove(); // the answer is another page: a stream without a session would fail
  });

  // Output that follows its end.
  const follow = () => {
    for (const log of document.querySelectorAll('.output')) {
      if (log.dataset.follow !== 'no') log.scrollTop = log.scrollHeight;
    }
  };
  document.addEventListener('scroll', (e) => {
    const log = e.target;
    if (!log.classList?.contains('output')) return;
    log.dataset.follow = log.scrollHeight - log.scrollTop - log.clientHeight < 20 ? 'yes' : 'no';
  }, true);

  // The address, the icon and what a screen reader says follow the content. In place of an
  // error, which has no stream, the page is loaded as a whole.
  let wrong = document.getElementById('main').dataset.error;
  const around = () => {
    const main = document.getElementById('main');
    if (wrong && !main.dataset.error) location.reload();
    wrong = main.dataset.error;
    const url = main.getAttribute('hx-get');
    if (!url) document.getElementById('news')?.remove(); // nothing will change: the stream ends
    if (url && url !== location.pathname + location.search) history.replaceState(null, '', url + location.hash);
    const icon = document.getElementById('icon'), spoken = document.getElementById('spoken');
    upgrade(main.dataset.build);
    if (icon.getAttribute('href') !== main.dataset.icon) icon.href = main.dataset.icon;
    if (spoken.textContent !== main.dataset.spoken) spoken.textContent = main.dataset.spoken;
  };

  // After an upgrade, the page loads itself again, with the scripts of the new build: not while its reader
  // types or has a form open, and once an hour at most, because instances of two builds may answer in turn.
  const build = document.getElementById('main').dataset.build;
  let other = '';
  const upgrade = (now) => {
    if (now) other = now === build ? '' : now;
    const busy = [...document.querySelectorAll('input:not([type=hidden]), textarea, select, .act[open], dialog[open]')].some((e) =>
      !e.closest('dialog:not([open])') && (e === document.activeElement || e.open ||
        (e.type === 'checkbox' ? e.checked !== e.defaultChecked : e.defaultValue !== undefined && e.value !== e.defaultValue)));
    if (!other || busy || Math.abs(Date.now() - (sessionStorage.upgraded ?? 0)) < 3600000) return;
    sessionStorage.upgraded = Date.now();
    location.reload();
  };

  // A page that could not be refreshed says since when. It is refreshed every 5 seconds
  // then; and if nothing came from the server for 40 seconds, which is how long a page in
  // the background or behind a proxy that keeps events back may be old.
  const stale = document.getElementById('stale');
  const refresh = () => {
    const news = document.getElementById('news');
    if (news) htmx.trigger(news, 'changed');
  };
  let heard = Date.now();
  const hear = () => { heard = Date.now(); };
  const fail = (e) => {
    const { ctx } = e.detail;
    if (ctx?.sourceElement?.id !== 'main' || ctx.response && ctx.response.status < 500 && ctx.response.status !== 429 || !stale.hidden) return;
    stale.querySelector('time').dateTime = new Date().toISOString();
    stale.hidden = false;
    times();
  };
  on('htmx:error', fail);
  on('htmx:response:error', fail);
  // A connection that was there is made again by htmx, the first one is not. A refused page
  // leads to the form if the session has ended.
  let lost = false;
  const lose = (e) => {
    if (e.detail.ctx?.sourceElement?.id !== 'news') return;
    lost = true;
    refresh();
  };
  on('htmx:error', lose);
  on('htmx:response:error', lose);
  on('htmx:sse:error', refresh);
  // A browser connects to a server six times at most: a page that was opened in the
  // background connects when it is seen.
  on('htmx:before:request', (e) => { if (e.detail.ctx.sourceElement?.id === 'news' && document.hidden) e.preventDefault(); });
  // A refresh that waited for a search has the address of before it.
  on('htmx:before:request', (e) => {
    const { sourceElement, request } = e.detail.ctx;
    if (sourceElement?.id === 'main') request.action = sourceElement.getAttribute('hx-get') ?? request.action;
  });
  const watch = () => {
    const news = document.getElementById('news');
    if (news && !document.hidden) { lost = false; htmx.trigger(news, 'watch'); }
  };
  on('visibilitychange', watch);
  on('htmx:sse:after:connection', hear);
  on('alive', (e) => { hear(); upgrade(e.detail.data); });
  setInterval(() => {
    upgrade();
    if (lost) watch();
    if (!stale.hidden || Date.now() - heard > 40000) refresh();
  }, 5000);

  // Single keys in lists of tasks. They move the focus from link to link, do nothing while somebody
  // types, and can be turned off: programs that take dictation send keys, too.
  const keys = document.getElementById('keys');
  if (keys) {
    const button = document.getElementById('keys-button'), used = document.getElementById('keys-on');
    const links = () => [...document.querySelectorAll('tbody th a')];
    const row = () => document.activeElement.closest('tbody tr');
    const move = (step) => {
      const all = links(), at = all.findIndex((a) => a.closest('tr') === row());
      all.at(at < 0 ? Math.min(step - 1, 0) : Math.min(Math.max(at + step, 0), all.length - 1))?.focus();
    };
    const go = (id) => document.getElementById(id)?.focus();
    const single = { j: () => move(1), k: () => move(-1), x: () => row()?.querySelector('[type=checkbox]')?.click(), a: () => go('review'), '/': () => go('search'), '?': () => keys.showModal() };
    const arrows = { ArrowDown: single.j, ArrowUp: single.k };
    const kept = (value) => { // a browser may refuse to keep it
      try { return value ? localStorage.setItem('keys', value) : localStorage.getItem('keys'); } catch { return null; }
    };
    button.hidden = false;
    button.addEventListener('click', single['?']);
    used.checked = kept() !== 'off';
    used.addEventListener('change', () => kept(used.checked ? 'on' : 'off'));
    on('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || keys.open || e.target.closest?.('input:not([name=task], [name=plan]), select, textarea, [contenteditable]')) return;
      const act = used.checked && single[e.key] || links().includes(e.target) && arrows[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    });
  }

  const renew = () => { times(); zones(); follow(); };
  on('htmx:after:swap', (e) => {
    const { ctx } = e.detail;
    if (ctx?.target?.id === 'main' && ctx.swap !== 'none') {
      stale.hidden = true;
      hear();
      around();
    }
    renew();
  });
  setInterval(times, 1000);
  renew();
})();
