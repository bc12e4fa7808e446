// Captures the pictures of the page for the README and the book with Debian's Chromium, in light and dark. Arguments: the folder for
// the pictures, the session to import, and the command that starts `segue`. The caller sets the environment, the server's clock and the
// fonts.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [, , folder, sessionFile, ...segue] = process.argv;

const SIZE = { width: 1280, height: 800 };
/** The longest wait for an element, and for the page to stop changing, in milliseconds. */
const DEADLINE_MS = 30_000;
/** The browser's clock is fixed at this time after the newest change on the server, in milliseconds. */
const AGE_MS = 5 * 60_000;

/** Starts the server and waits until it answers. */
async function startServer() {
  const child = spawn(segue[0], [...segue.slice(1), "serve", "--addr", "127.0.0.1:0", "--json"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const { url, token_file } = JSON.parse(line);
    return { child, url, token: readFileSync(token_file, "utf8").trim() };
  }
  throw new Error("`segue serve` exited before it was ready");
}

/** Sends a request to the HTTP API and returns the response's JSON. Fails if the status is not 2xx. */
async function request(server, method, path, body) {
  const isJson = typeof body === "object";
  const response = await fetch(server.url + path, {
    method,
    headers: { "x-api-key": server.token, ...(isJson && { "content-type": "application/json" }) },
    body: isJson ? JSON.stringify(body) : body,
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Creates the threads: the imported session, which is compacted, and its forks and handoffs, one of which is pending. */
async function createThreads(server) {
  const session = readFileSync(sessionFile, "utf8");
  const imported = await request(server, "POST", "/api/import?name=flaky-test.jsonl", session);
  const root = imported.threads[0].thread_id;
  const rename = (id, name) => request(server, "PATCH", `/api/threads/${id}`, { name });
  const draft = (id) => request(server, "POST", `/api/threads/${id}/handoffs`, {});
  const fork = async (id, name, keep_seq) => {
    const { thread_id } = await request(server, "POST", `/api/threads/${id}/fork`, { keep_seq });
    await rename(thread_id, name);
    return thread_id;
  };
  const handOff = async (id, title) => {
    const { handoff, proposal } = await draft(id);
    const decision = { type: "approve", args: { title }, summary_sha256: proposal.summary_sha256 };
    const path = `/api/handoffs/${handoff.handoff_id}/decision`;
    return (await request(server, "POST", path, { decisions: [decision] })).child_thread_id;
  };

  await rename(root, "Flaky test lease_renewal.rs");
  const alternative = await fork(root, "Alternative: epoch in Claimed", 226);
  await handOff(alternative, "Write ADR 0007 first");
  await fork(alternative, "Same, but keep the ack grace", 154);
  const review = await fork(root, "Review: is it the same race?");
  const child = await handOff(root, "Fake-clock test for the ack grace");
  const { handoff } = await draft(review);
  await request(server, "POST", `/api/threads/${root}/compact`, {});
  return { root, child, handoff: handoff.handoff_id };
}

/** Returns the time of the newest change on the server, in milliseconds since 1970. */
async function newestChange(server) {
  const { threads } = await request(server, "GET", "/api/threads?limit=1");
  return Date.parse(threads[0].updated_at);
}

/** Scrolls the conversation up by the few pixels that are needed so that its top edge cuts no line of text. */
function alignTop(conversation) {
  const canScroll = (box) =>
    box.scrollHeight > box.clientHeight && getComputedStyle(box).overflowY !== "visible";
  let box = conversation;
  while (box && !canScroll(box)) box = box.parentElement;
  if (!box) return;
  const top = box.getBoundingClientRect().top;
  const lines = [];
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    lines.push(...range.getClientRects());
  }
  const isCut = (line, shift) => line.top + shift < top && line.bottom + shift > top;
  for (let shift = 0; shift < 40; shift++)
    if (!lines.some((line) => isCut(line, shift))) {
      box.scrollTop -= shift;
      return;
    }
}

/** Takes screenshots until two in a row are equal. Returns the last one. */
async function settledScreenshot(page, name) {
  const deadline = Date.now() + DEADLINE_MS;
  const take = () => page.screenshot({ animations: "disabled", caret: "hide" });
  let before = await take();
  while (Date.now() < deadline) {
    await page.waitForTimeout(250);
    const after = await take();
    if (after.equals(before)) return after;
    before = after;
  }
  throw new Error(`capture \`${name}\`: the page keeps changing`);
}

/** Opens the page at an address, waits until it shows the texts and no longer changes, and writes the picture. */
async function capture(browser, server, { name, address, texts, align, scheme }) {
  const context = await browser.newContext({
    viewport: SIZE,
    colorScheme: scheme,
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "UTC",
  });
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  await page.clock.setFixedTime(server.browserTime);
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.locator("#threads").waitFor();
  await page.evaluate((to) => (location.hash = to), address);
  for (const text of texts) {
    const shown = page.getByRole("main").getByText(text).first().waitFor();
    await shown.catch(() => {
      throw new Error(`capture \`${name}\`: the page at ${address} does not show ${text}`);
    });
  }
  await page.evaluate(() => document.fonts.ready);
  let picture = await settledScreenshot(page, name);
  if (align) {
    // A page that still loads would scroll back to its end.
    await page.getByText(align).first().evaluate(alignTop);
    picture = await settledScreenshot(page, name);
  }
  writeFileSync(join(folder, `${name}-${scheme}.png`), picture);
  await context.close();
}

async function captureAll(server) {
  const { root, child, handoff } = await createThreads(server);
  server.browserTime = (await newestChange(server)) + AGE_MS;
  const pictures = [
    {
      name: "page-thread",
      address: `#/threads/${root}`,
      texts: ["Not reproduced here", /237 messages/],
      align: "Not reproduced here",
    },
    { name: "page-handoff-review", address: `#/handoffs/${handoff}`, texts: ["Coverage", "Accept"] },
    { name: "page-lineage", address: `#/threads/${child}/lineage`, texts: ["Write ADR 0007 first"] },
  ];
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // Hinting and subpixel rendering depend on the screen. Repainting a part of a tile, or on several threads, can differ by a shade.
    args: [
      "--no-sandbox",
      "--font-render-hinting=none",
      "--disable-lcd-text",
      "--disable-gpu",
      "--disable-partial-raster",
      "--disable-skia-runtime-opts",
      "--num-raster-threads=1",
    ],
  });
  try {
    for (const scheme of ["light", "dark"])
      for (const picture of pictures) await capture(browser, server, { ...picture, scheme });
  } finally {
    await browser.close();
  }
}

let server;
try {
  server = await startServer();
  await captureAll(server);
} catch (error) {
  console.error(`pages.mjs: ${error.message}`);
  process.exitCode = 1;
} finally {
  server?.child.kill();
}
