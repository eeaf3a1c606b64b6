// Times in the viewer's zone, and how long ago they are. Output that follows its end.
(() => {
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
  const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
  const steps = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
  const words = (at) => {
    const seconds = (at - Date.now()) / 1000;
    const [unit, length] = steps.find(([, n]) => Math.abs(seconds) >= n) ?? ['second', 1];
    return relative.format(Math.trunc(seconds / length), unit);
  };
  const times = () => {
    for (const t of document.querySelectorAll('time')) {
      const at = new Date(t.dateTime);
      const text = words(at);
      if (t.textContent !== text) t.textContent = text;
      t.title = exact.format(at);
    }
  };
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
  const renew = () => { times(); follow(); };
  document.addEventListener('htmx:after:swap', renew);
  setInterval(times, 1000);
  renew();
})();
