// Walks the dashboard in headless Chromium: every page and action, what the console says, accessibility, and pictures.
//   node walk.mjs READ_URL ACT_URL JOBS [PICTURES]       JOBS: "evil=12 delayed=34 ..."; PICTURES: a folder for screenshots
// test/cli/46_ui_browser.sh calls it.
// Prints `ok - name` or `not ok - name`.
import { createRequire } from 'node:module';
import { readFileSync, mkdirSync } from 'node:fs';

const modules = createRequire(process.env.BROWSER_MODULES + '/');
const { chromium } = modules('playwright-core');
const axe = readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');
const [read, act, words, pictures] = process.argv.slice(2);
const job = Object.fromEntries(words.split(' ').map((w) => w.split('=')));
if (pictures) mkdirSync(pictures, { recursive: true });

let bad = 0;
const is = (name, found, expected) => {
    const same = JSON.stringify(found) === JSON.stringify(expected);
    console.log((same ? 'ok - ' : 'not ok - ') + name);
    if (!same) console.log('#   found:    ' + JSON.stringify(found) + '\n#   expected: ' + JSON.stringify(expected));
    if (!same) bad = 1;
};

const browser = await chromium.launch({ executablePath: process.env.BROWSER, args: ['--no-sandbox', '--disable-gpu'] });
const open = async (options) => {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    page.said = [];
    page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) page.said.push(m.text()); });
    page.on('pageerror', (e) => page.said.push(String(e)));
    page.on('dialog', (d) => { page.said.push('dialog: ' + d.message()); d.dismiss(); });
    page.on('request', (r) => { if (!r.url().startsWith(read) && !r.url().startsWith(act) && !r.url().startsWith(job.several)) page.said.push('asks ' + r.url()); });
    return page;
};
const go = async (page, url) => (await page.goto(url, { waitUntil: 'load' })).status();
// axe is run by the debugger, where the policy of the page does not count
const faults = async (page) => {
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
    return found.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target).slice(0, 3).join(', '));
};
const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);

const paths = ['/', '/queues', '/queue?name=mail', '/queue?name=orders', '/jobs', '/jobs?queue=mail&state=dead', '/jobs?tag=none', `/job?id=${job.evil}`, `/job?id=${job.delayed}`,
    `/job?id=${job.gated}`, `/job?id=${job.dead}`, '/dead', '/schedules', '/schedule?name=nightly', '/workers', '/locks', '/tables', '/log', '/help', '/none'];
const colours = ['/', '/jobs?queue=mail&state=dead', `/job?id=${job.gated}`];
const some = ['/', '/queue?name=mail', '/jobs?queue=mail&state=dead', `/job?id=${job.gated}`, '/schedule?name=nightly', '/locks', '/log'];
const looks = [['light', { colorScheme: 'light', viewport: { width: 1280, height: 860 } }], ['dark', { colorScheme: 'dark', viewport: { width: 1280, height: 860 } }],
    ['phone', { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }]];
for (const [look, options] of looks) {
    const page = await open(options);
    for (const path of look === 'light' ? paths : some) {
        const expected = path === '/none' ? 404 : 200;
        is(`${look}: ${path}`, await go(page, read + path), expected);
        if (look === 'light' || (look === 'dark' && colours.includes(path))) is(`${look}: ${path} is accessible`, await faults(page), []);
        is(`${look}: ${path} is not wider than the window`, await fits(page), true);
        if (pictures) await page.screenshot({ path: `${pictures}/${look}-${(path.replace(/[^a-z]+/g, ' ').trim() || 'overview').replace(/ /g, '-')}.png`, fullPage: true });
    }
    is(`${look}: the console says nothing, and nothing else is loaded`, page.said.filter((t) => !t.includes('404')), []);
    await page.context().close();
}

// for doc/ui.md
if (pictures) for (const [name, path, options] of [['overview', '/', { colorScheme: 'light', viewport: { width: 1180, height: 900 } }],
    ['job', `/job?id=${job.gated}`, { colorScheme: 'dark', viewport: { width: 1180, height: 620 } }],
    ['phone', '/queue?name=mail', { colorScheme: 'light', viewport: { width: 390, height: 760 }, isMobile: true, hasTouch: true }]]) {
    const page = await open(options);
    await go(page, read + path);
    await page.screenshot({ path: `${pictures}/doc-${name}.png` });
    await page.context().close();
}

// several databases, of which one is down
const several = await open({ viewport: { width: 390, height: 844 } });
is('several: the first page', await go(several, job.several + '/'), 200);
is('several: it is accessible', await faults(several), []);
is('several: it is not wider than the window', await fits(several), true);
if (pictures) await several.screenshot({ path: `${pictures}/phone-databases.png`, fullPage: true });
await several.click('th a:text-is("first")');
await several.waitForURL('**/db/first/');
await several.click('nav a:text-is("Queues")');
await several.waitForURL('**/db/first/queues');
is('several: a page of a database', await several.locator('tbody tr').count() > 1, true);
is('several: it is accessible, too', await faults(several), []);
await go(several, job.several + '/db/first/');
await several.click('.findings b a >> nth=0');
await several.waitForURL('**/db/first/help#*');
is('several: a finding leads to its section', await several.locator('h2:target').count(), 1);
is('several: the console says nothing', several.said, []);
await several.context().close();

// without a script it can be read
const plain = await open({ javaScriptEnabled: false });
await go(plain, read + '/');
is('without a script: the overview has its queues', await plain.locator('table tbody tr').count() > 1, true);
is('without a script: no button that does nothing', await plain.locator('#pause').isVisible(), false);
await plain.context().close();

// live
const page = await open({});
await go(page, read + '/queues');
const counts = page.waitForResponse((r) => r.url() === read + '/queues', { timeout: 20000 });
is('it looks again by itself', (await counts).status(), 200);
await page.click('#pause');
is('it can be paused', await page.locator('#pause').getAttribute('aria-pressed'), 'true');
let asked = 0;
page.on('request', () => { asked++; });
await page.waitForTimeout(6500);
is('then it asks nothing', asked, 0);
await page.reload();
is('also after a reload', await page.locator('#pause').getAttribute('aria-pressed'), 'true');
await page.focus('body');
await page.keyboard.press('Tab');
is('by keyboard: the first stop leads to the content', await page.evaluate(() => document.activeElement.getAttribute('href')), '#main');
await page.context().close();

// what is hostile is text
const evil = await open({});
await go(evil, act + `/job?id=${job.evil}`);
is('hostile: no element of it is there', await evil.locator('main script, main img, #x').count(), 0);
is('hostile: it is shown as it is', (await evil.locator('main').innerText()).includes('<script>alert(1)</script>'), true);
is('hostile: nothing ran', evil.said, []);
await evil.context().close();

// actions
const hand = await open({});
await go(hand, act + '/queue?name=mail');
await Promise.all([hand.waitForURL('**/queue?name=mail'), hand.click('button:text-is("Pause"):not(#pause)')]);
await hand.waitForSelector('text=Paused: claims find no jobs');
is('act: a queue is paused', await hand.locator('button:text-is("Resume")').count(), 1);
is('act: with buttons it is accessible, too', await faults(hand), []);
await Promise.all([hand.waitForLoadState('load'), hand.click('button:text-is("Resume")')]);
await hand.waitForSelector('text=Paused: claims find no jobs', { state: 'detached' });
await go(hand, act + '/dead');
await hand.click('a:text-is("Redrive …") >> nth=0');
await hand.waitForSelector('text=fit now');
is('act: it tells the count first', /^(At least )?[0-9,]+ jobs? fits? now/.test(await hand.locator('p.lead').innerText()), true);
is('act: the question is accessible', await faults(hand), []);
if (pictures) await hand.screenshot({ path: `${pictures}/light-confirm.png`, fullPage: true });
await hand.click('button.danger');
await hand.waitForSelector('h1:text-is("Log of operations")');
is('act: and stands in the log', (await hand.locator('tbody tr').first().innerText()).includes('redrive'), true);
await go(hand, act + `/job?id=${job.delayed}`);
await hand.click('button:text-is("Run now")');
await hand.waitForSelector('.badge.ready, .badge.leased, .badge.done, .badge.delayed, .badge.dead');
await go(hand, act + '/schedule?name=nightly');
await hand.click('button:text-is("Run now")');
await hand.waitForSelector('h2:text-is("Last ticks") + .scroll');
is('act: a schedule runs now', await hand.locator('h2:text-is("Last ticks") + .scroll tbody tr').count(), 1);
await go(hand, act + `/job?id=${job.cancel}`);
await hand.click('a:text-is("Cancel …")');
await hand.click('button.danger');
await hand.waitForURL('**/queue?name=reports');
is('act: the console says nothing', hand.said.filter((t) => !t.includes('404')), []);
await browser.close();
process.exit(bad);
