// Test runner: runs cases in a real browser against a real server, one after the other. Arguments: the URL of
// the server, its key, and the URL of the model. Any error or warning of the page fails its case.
import { chromium } from "playwright-core";

const [, , url, key, modelUrl] = process.argv;

export const server = { url, key, modelUrl };

/** The number of characters of a page that are printed when a case fails. */
const PAGE_CHARS_MAX = 2_000;
/** Timeouts of a case and of one expectation, in milliseconds. They only bound hanging tests. */
const CASE_MS_MAX = 180_000;
const EXPECT_MS_MAX = 20_000;

export const WIDE = { width: 1280, height: 860 };
export const PHONE = { width: 390, height: 844 };

/**
 * Chromium without its own windows and menus, which needs half the processor time of the whole browser. The page is
 * drawn by the same code.
 */
const HEADLESS_SHELL = "/usr/bin/chromium-headless-shell";

let browser;
let problems = [];
let contexts = [];

export function check(condition, what) {
  if (!condition)
    throw new Error(typeof what === "string" ? what : JSON.stringify(what, null, 1)?.slice(0, 2_000));
}

export function equal(found, expected) {
  check(JSON.stringify(found) === JSON.stringify(expected), { found, expected });
}

/** Removes expected problems from the list. Fails if there are none. */
export function expectProblem(pattern) {
  const known = problems.filter((problem) => pattern.test(problem));
  check(known.length > 0, `no problem matches ${pattern}`);
  problems = problems.filter((problem) => !pattern.test(problem));
}

/** Waits until `look` returns a truthy value, and returns it. */
export async function waitUntil(look, what) {
  const start = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() - start > EXPECT_MS_MAX) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Opens a gate, so that the scripted replies waiting there continue. */
export async function openGate(name) {
  await fetch(`${modelUrl}/gates/${name}`);
}

/** Sends a request to the HTTP API. */
export async function api(method, path, body, base = url) {
  const headers = { "x-api-key": key, ...(body === undefined ? {} : { "content-type": "application/json" }) };
  const response = await fetch(`${base}${path}`, {
    method,
    headers,
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const answer = text ? JSON.parse(text) : null;
  return { status: response.status, answer };
}

/** Sends a request that must succeed. */
export async function ask(method, path, body) {
  const { status, answer } = await api(method, path, body);
  check(status < 300 && !answer?.__error__, { method, path, status, answer });
  return answer;
}

/**
 * Imports a session with the given number of messages, alternating questions and answers; `textOf` returns the
 * text of each.
 */
export async function importSession(name, count, textOf) {
  const sessionId = crypto.randomUUID();
  const lines = Array.from({ length: count }, (_, at) =>
    JSON.stringify({
      type: at % 2 ? "assistant" : "user",
      uuid: `u${at}`,
      parentUuid: at ? `u${at - 1}` : null,
      sessionId,
      timestamp: new Date(1.7e12 + at * 1000).toISOString(),
      message:
        at % 2
          ? { role: "assistant", id: `m${at}`, model: "m", content: [{ type: "text", text: textOf(at) }] }
          : { role: "user", content: textOf(at) },
    }),
  );
  const { threads } = await ask("POST", `/api/import?name=${name}`, lines.join("\n"));
  return threads[0].thread_id;
}

/** Creates a thread. */
export async function thread() {
  return (await ask("POST", "/threads", {})).thread_id;
}

/** Sends a message and waits for the end of the run. */
export async function runTurn(id, text) {
  return ask("POST", `/threads/${id}/runs/wait`, {
    assistant_id: "agent",
    input: { messages: [{ role: "user", content: text }] },
  });
}

/** Opens the page in a new browser context, signed in, at the given address. */
export async function open(address = "#/", { size = WIDE, scheme = "light", base = url } = {}) {
  const context = await browser.newContext({
    viewport: size,
    colorScheme: scheme,
    acceptDownloads: true,
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(EXPECT_MS_MAX);
  contexts.push(context);
  const page = await context.newPage();
  watch(page);
  await page.goto(`${base}/#token=${key}`);
  // On a narrow screen the sidebar is in the document but hidden.
  await page.locator("#threads").waitFor({ state: "attached" });
  if (address !== "#/") await page.evaluate((to) => (location.hash = to), address);
  return page;
}

/** Opens a browser context that is not signed in and whose errors are ignored. */
export async function openSignedOut() {
  const context = await browser.newContext({ viewport: WIDE });
  context.setDefaultTimeout(EXPECT_MS_MAX);
  contexts.push(context);
  return context.newPage();
}

function watch(page) {
  page.on("pageerror", (error) => problems.push(`error in the page: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // The page shows refused requests itself.
    const isAnswer = /Failed to load resource|net::ERR_/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isAnswer)
      problems.push(`console: ${message.text()}`);
  });
}

export async function run(cases) {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? HEADLESS_SHELL,
    args: ["--no-sandbox"],
  });
  const failed = [];
  const filter = process.env.ONLY ?? "";
  const chosen = Object.entries(cases).filter(([name]) => name.includes(filter));
  if (chosen.length === 0) failed.push(`no case name contains ${JSON.stringify(filter)}`);
  for (const [name, work] of chosen) {
    problems = [];
    contexts = [];
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the case timed out")), CASE_MS_MAX);
    });
    try {
      await Promise.race([work(), timeout]);
      check(problems.length === 0, problems.join("\n"));
      console.log(`ok   ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAIL ${name}\n${error?.stack ?? error}\n${problems.join("\n")}`);
      console.log(`page text:\n${await pageTexts()}`);
      if (process.env.SHOTS) await takeScreenshots(name);
    } finally {
      clearTimeout(timer);
      await Promise.all(contexts.map((context) => context.close().catch(() => undefined)));
    }
  }
  await browser.close();
  const count = chosen.length;
  console.log(
    failed.length
      ? `${failed.length} of ${count} cases failed: ${failed.join(", ")}`
      : `all ${count} cases passed`,
  );
  process.exit(failed.length ? 1 : 0);
}

/** Returns the text of the open pages, for the report of a failure. */
async function pageTexts() {
  const pages = contexts.flatMap((context) => context.pages());
  const texts = pages.map((page) =>
    page
      .locator("main")
      .innerText({ timeout: 1000 })
      .catch((error) => String(error)),
  );
  return (await Promise.all(texts)).map((text) => text.slice(0, PAGE_CHARS_MAX)).join("\n---\n");
}

async function takeScreenshots(name) {
  const pages = contexts.flatMap((context) => context.pages());
  for (const [index, page] of pages.entries())
    await page
      .screenshot({ path: `${process.env.SHOTS}/${name.replaceAll(/\W+/g, "_")}_${index}.png` })
      .catch(() => undefined);
}
