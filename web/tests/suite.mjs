// Runs cases in a real browser against a real server, one after the other, and says which failed. Arguments: the server, its key, the
// model behind it. Whatever the page complains about fails the case it happened in.
import { chromium } from "playwright-core";

const [, , url, key, modelUrl] = process.argv;

export const server = { url, key, modelUrl };

/** Characters of a page that are printed when a case fails. */
const SHOWN_CHARS_MAX = 2_000;
/** Milliseconds a case may take, and one expectation within it: bounds of what hangs, not measures. */
const CASE_MS_MAX = 180_000;
const EXPECT_MS_MAX = 20_000;

export const WIDE = { width: 1280, height: 860 };
export const PHONE = { width: 390, height: 844 };

let browser;
let problems = [];
let contexts = [];

export function check(condition, what) {
  if (!condition)
    throw new Error(typeof what === "string" ? what : JSON.stringify(what, null, 1)?.slice(0, 2_000));
}

export function same(found, expected) {
  check(JSON.stringify(found) === JSON.stringify(expected), { found, expected });
}

/** Forgets what the page complained about, which was to happen. */
export function forgive(pattern) {
  const known = problems.filter((problem) => pattern.test(problem));
  check(known.length > 0, `nothing was complained about like ${pattern}`);
  problems = problems.filter((problem) => !pattern.test(problem));
}

/** Waits until what `look` finds is true; whoever looks says what was there instead. */
export async function until(look, what) {
  const begun = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() - begun > EXPECT_MS_MAX) throw new Error(`it did not come true: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Lets the replies of the script go that wait at this gate. */
export async function openGate(name) {
  await fetch(`${modelUrl}/gates/${name}`);
}

/** A client of the HTTP API beside the page. */
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

/** The same, of what must succeed. */
export async function ask(method, path, body) {
  const { status, answer } = await api(method, path, body);
  check(status < 300 && !answer?.__error__, { method, path, status, answer });
  return answer;
}

/** Imports a session of another agent with so many messages, questions and answers in turn, whose words `say` knows by their number. */
export async function imported(name, count, say) {
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
          ? { role: "assistant", id: `m${at}`, model: "m", content: [{ type: "text", text: say(at) }] }
          : { role: "user", content: say(at) },
    }),
  );
  const { threads } = await ask("POST", `/api/import?name=${name}`, lines.join("\n"));
  return threads[0].thread_id;
}

/** Makes a thread. */
export async function thread() {
  return (await ask("POST", "/threads", {})).thread_id;
}

/** Does a turn and waits for its end. */
export async function turn(id, text) {
  return ask("POST", `/threads/${id}/runs/wait`, {
    assistant_id: "agent",
    input: { messages: [{ role: "user", content: text }] },
  });
}

/** Opens the page in a browser window of its own, let in with the token, at an address behind the `#`. */
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
  // On a narrow screen the list is there and out of reach.
  await page.locator("#threads").waitFor({ state: "attached" });
  if (address !== "#/") await page.evaluate((to) => (location.hash = to), address);
  return page;
}

/** Opens a browser window of somebody who was not let in, and whose complaints are nobody's business. */
export async function stranger() {
  const context = await browser.newContext({ viewport: WIDE });
  context.setDefaultTimeout(EXPECT_MS_MAX);
  contexts.push(context);
  return context.newPage();
}

function watch(page) {
  page.on("pageerror", (error) => problems.push(`error in the page: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // A refused request is the server's answer, and the page's to show.
    const isAnswer = /Failed to load resource|net::ERR_/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isAnswer)
      problems.push(`console: ${message.text()}`);
  });
}

export async function run(cases) {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  const failed = [];
  const wanted = process.env.ONLY ?? "";
  const chosen = Object.entries(cases).filter(([name]) => name.includes(wanted));
  if (chosen.length === 0) failed.push(`no case's name has ${JSON.stringify(wanted)} in it`);
  for (const [name, work] of chosen) {
    problems = [];
    contexts = [];
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("it takes too long")), CASE_MS_MAX);
    });
    try {
      await Promise.race([work(), late]);
      check(problems.length === 0, problems.join("\n"));
      console.log(`ok   ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAIL ${name}\n${error?.stack ?? error}\n${problems.join("\n")}`);
      console.log(`it shows:\n${await shown()}`);
      if (process.env.SHOTS) await shoot(name);
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

/** Keeps what the page looked like when a case failed, in the folder SHOTS names. */
/** What the pages of a case say, for who reads of a failure. */
async function shown() {
  const pages = contexts.flatMap((context) => context.pages());
  const texts = pages.map((page) =>
    page
      .locator("main")
      .innerText({ timeout: 1000 })
      .catch((error) => String(error)),
  );
  return (await Promise.all(texts)).map((text) => text.slice(0, SHOWN_CHARS_MAX)).join("\n---\n");
}

async function shoot(name) {
  const pages = contexts.flatMap((context) => context.pages());
  for (const [index, page] of pages.entries())
    await page
      .screenshot({ path: `${process.env.SHOTS}/${name.replaceAll(/\W+/g, "_")}_${index}.png` })
      .catch(() => undefined);
}
