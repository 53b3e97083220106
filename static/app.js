// The only first-party script: delegated listeners on data-* attributes. Every page works without it.
(() => {
  const root = document.documentElement;
  const one = (selector, from = document) => from.querySelector(selector);
  const announce = (text) => { const live = one('#live'); if (live && live.textContent !== text) live.textContent = text; };

  // Theme: the cookie lets the server write data-theme, so that there is no flash.
  const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  function toggleTheme(event) {
    event.preventDefault();
    root.dataset.theme = dark() ? 'light' : 'dark';
    document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new Event('millpond:theme'));
  }

  // Copy: plain http on a LAN address has no clipboard, then the text is selected instead.
  async function copy(button) {
    const text = button.dataset.copy === '@url' ? location.href : button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
      announce('Copied');
      button.dataset.copied = '';
    } catch {
      const shown = button.dataset.copyFrom && one(button.dataset.copyFrom);
      if (shown) { getSelection().selectAllChildren(shown); announce('Selected. Copy it with the keyboard.'); }
      else toast('This page is not served over https, so the browser does not let it copy. The text is: ' + text);
    }
  }

  function toast(text) {
    const box = one('#toasts');
    if (!box) return;
    const item = document.createElement('div');
    item.className = 'toast';
    item.setAttribute('role', 'alert');
    item.textContent = text;
    box.append(item);
    setTimeout(() => item.remove(), 12000);
  }

  document.addEventListener('click', (event) => {
    const theme = event.target.closest('[data-theme-toggle]');
    if (theme) return toggleTheme(event);
    const button = event.target.closest('[data-copy]');
    if (button) return void copy(button);
    const close = event.target.closest('[data-close-dialog]');
    if (close && close.closest('dialog')) { event.preventDefault(); close.closest('dialog').close(); }
    const row = event.target.closest('[role=treegrid] tr[tabindex]');
    if (row && !event.target.closest('a, button')) selectRow(row);
  });

  // A typed name arms the button that destroys; the server checks it again.
  document.addEventListener('input', (event) => {
    const wanted = event.target.dataset?.typedName;
    if (wanted === undefined) return;
    const button = one('[data-armed-by-name]', event.target.form);
    if (button) button.disabled = event.target.value !== wanted;
  });

  function armNames() {
    document.querySelectorAll('[data-typed-name]').forEach((input) => {
      const button = one('[data-armed-by-name]', input.form);
      if (button) button.disabled = input.value !== input.dataset.typedName;
    });
  }

  // Focus goes to what a swap wants to be read first: an error summary, else nothing moves.
  function focusWanted() {
    const wanted = one('[data-autofocus]');
    if (wanted) { wanted.removeAttribute('data-autofocus'); wanted.focus(); }
    const dialog = one('#dialog');
    if (dialog && dialog.children.length && !dialog.open) dialog.showModal();
    const said = one('[data-announce]');
    if (said) announce(said.dataset.announce);
    armNames();
  }
  document.addEventListener('htmx:after:swap', focusWanted);
  document.addEventListener('DOMContentLoaded', focusWanted);
  document.addEventListener('htmx:response:error', (event) => {
    const status = event.detail?.ctx?.response?.status ?? 0;
    if (status >= 500 || status === 0) toast('The server could not answer this (' + (status || 'no connection') + '). Nothing was changed on this page; try again.');
  });

  // Live state: the stream says it itself, so that stale numbers look stale.
  function setLive(state) {
    document.body.dataset.live = state;
    const mark = one('[data-live-mark]');
    if (!mark) return;
    mark.dataset.live = state;
    one('span', mark).textContent = state === 'on' ? 'Live' : 'Not live';
    if (state === 'off' && !mark.dataset.since) mark.dataset.since = new Date().toLocaleTimeString();
    if (state === 'on') delete mark.dataset.since;
    const since = one('[data-not-live-since]');
    if (since && mark.dataset.since) since.textContent = mark.dataset.since;
  }
  document.addEventListener('htmx:sse:after:connection', () => setLive('on'));
  document.addEventListener('htmx:sse:error', () => setLive('off'));

  // Times near now, and countdowns, are kept right between messages of the stream.
  const unit = (seconds) => seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  function tick() {
    document.querySelectorAll('time[data-ago]').forEach((time) => {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (seconds >= 0 && seconds < 86400) time.textContent = seconds < 2 ? 'now' : unit(seconds) + ' ago';
    });
    document.querySelectorAll('time[data-in]').forEach((time) => {
      const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
      time.textContent = seconds > 0 ? 'in ' + unit(seconds) : 'now';
    });
  }
  setInterval(tick, 1000);

  // The treegrid: arrows move, left goes to the parent, the row that has focus is selected.
  function selectRow(row) {
    row.closest('table').querySelectorAll('tr[tabindex]').forEach((other) => { other.tabIndex = -1; other.removeAttribute('aria-selected'); });
    row.tabIndex = 0;
    row.setAttribute('aria-selected', 'true');
    row.focus();
  }
  function moveInGrid(event, row) {
    const rows = [...row.closest('tbody').querySelectorAll('tr[tabindex]')];
    const at = rows.indexOf(row);
    const level = (r) => Number(r.getAttribute('aria-level'));
    let to;
    if (event.key === 'ArrowDown' || event.key === 'j') to = rows[at + 1];
    else if (event.key === 'ArrowUp' || event.key === 'k') to = rows[at - 1];
    else if (event.key === 'Home') to = rows[0];
    else if (event.key === 'End') to = rows.at(-1);
    else if (event.key === 'ArrowLeft') to = rows.slice(0, at).findLast((r) => level(r) < level(row));
    else if (event.key === 'ArrowRight') to = rows[at + 1] && level(rows[at + 1]) > level(row) ? rows[at + 1] : null;
    else if (event.key === 'Enter') return one('a', row)?.click();
    else return;
    event.preventDefault();
    if (to) selectRow(to);
  }

  // Shortcuts: `/`, `?`, and `g` then a letter. They can be switched off in the list of shortcuts.
  const places = { d: '/', h: '/hosts', v: '/volumes', p: '/policies', c: '/capacity', r: '/resync', t: '/tasks', e: '/events' };
  const shortcutsOff = () => { try { return localStorage.getItem('shortcuts') === 'off'; } catch { return false; } };
  let waitingForPlace = 0;
  document.addEventListener('keydown', (event) => {
    const row = event.target.closest('[role=treegrid] tr[tabindex]');
    if (row) return moveInGrid(event, row);
    if (event.ctrlKey || event.metaKey || event.altKey || shortcutsOff()) return;
    if (event.target.closest('input, select, textarea, [contenteditable]')) return;
    if (event.key === '/') { const find = one('#find'); if (find) { event.preventDefault(); find.focus(); } }
    else if (event.key === '?') one('#shortcuts')?.showModal();
    else if (event.key === 'g') waitingForPlace = event.timeStamp;
    else if (waitingForPlace && event.timeStamp - waitingForPlace < 1500 && places[event.key]) { waitingForPlace = 0; location.assign(places[event.key]); }
  });
  document.addEventListener('change', (event) => {
    if (event.target.id !== 'shortcuts-on') return;
    try { localStorage.setItem('shortcuts', event.target.checked ? 'on' : 'off'); } catch { /* storage is off: the choice lasts for the page */ }
  });
  document.addEventListener('DOMContentLoaded', () => {
    const box = one('#shortcuts-on');
    if (box) box.checked = !shortcutsOff();
    // The setup link carries its code behind the #, which never reaches a log; the page puts it into the field.
    const code = one('input[data-code-from-hash]');
    if (code && location.hash.length > 1 && !code.value) code.value = decodeURIComponent(location.hash.slice(1));
    if (one('[data-live-mark]') && !one('[hx-sse\\:connect]')) one('[data-live-mark]').hidden = true;
  });
})();
