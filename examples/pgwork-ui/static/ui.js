// Loads the page again every five seconds, while it is visible. Everything works without it.
'use strict';
(() => {
    const every = 5000;
    const main = document.getElementById('main');
    const live = document.querySelector('.live');
    const button = document.getElementById('pause');
    const age = document.getElementById('age');
    let loaded = Date.now(), busy = false, lost = false;
    let paused = sessionStorage.getItem('pgwork-paused') === 'yes';

    if (!main || document.querySelector('form.confirm')) return;
    live.hidden = false;

    const focusable = (root) => [...root.querySelectorAll('a, button, summary, input, select, [tabindex]')];
    const reading = () => {
        const at = document.activeElement, selection = window.getSelection();
        if (main.contains(at) && at.matches('input, select')) return true;
        return !selection.isCollapsed && main.contains(selection.anchorNode);
    };

    // The new content takes over what the reader has opened, where the focus is, and how far tables are scrolled.
    const replace = (fresh) => {
        const at = focusable(main).indexOf(document.activeElement);
        const left = [...main.querySelectorAll('.scroll, pre')].map((e) => [e.scrollLeft, e.scrollTop]);
        for (const e of main.querySelectorAll('details[id][open]')) {
            const same = fresh.querySelector('#' + CSS.escape(e.id));
            if (same) same.open = true;
        }
        main.replaceChildren(...fresh.childNodes);
        [...main.querySelectorAll('.scroll, pre')].forEach((e, i) => {
            if (left[i]) [e.scrollLeft, e.scrollTop] = left[i];
        });
        if (at >= 0) focusable(main)[at]?.focus({ preventScroll: true });
    };

    const refresh = async () => {
        busy = true;
        try {
            const answer = await fetch(location.href, { cache: 'no-store', signal: AbortSignal.timeout(15000) });
            const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
            const fresh = page.getElementById('main');
            if (fresh && !reading()) replace(fresh);
            loaded = Date.now();
            lost = false;
        } catch {
            lost = true;
        }
        busy = false;
    };

    const show = () => {
        button.textContent = paused ? 'Go on' : 'Pause';
        button.setAttribute('aria-pressed', String(paused));
        age.textContent = lost ? 'no answer' : paused ? 'paused' : 'updated ' + Math.round((Date.now() - loaded) / 1000) + ' s ago';
    };

    button.addEventListener('click', () => {
        paused = !paused;
        sessionStorage.setItem('pgwork-paused', paused ? 'yes' : 'no');
        show();
    });
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    let tried = Date.now();
    setInterval(() => {
        if (!paused && !busy && !document.hidden && !reading() && Date.now() - tried >= every) {
            tried = Date.now();
            refresh().finally(show);
        }
        show();
    }, 1000);
    show();
})();
