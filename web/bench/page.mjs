// Benchmarks the page in a real browser against the built program: first contentful paint, the time to open a
// thread of 10,000 messages, the memory of a tab, and the longest task while an answer streams. It prints the
// results and enforces no limits. Argument: the path of the program.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const MESSAGES = 10_000;
const THREADS = 10_000;
const FRAMES_PER_SECOND = 60;
const SECONDS = 15;
const ROUNDS = 5;

const program = resolve(process.argv[2]);
const home = mkdtempSync(join(tmpdir(), "segue-page-"));

const WORDS =
  "the clock is read twice between two attempts so the lease expires and `src/retry.rs` is **wrong** again".split(
    " ",
  );

/** Starts a fake model server that streams one text delta 60 times a second. */
async function startModel() {
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const sendEvent = (type, data) =>
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    const usage = { input_tokens: 10, output_tokens: 5 };
    sendEvent("message_start", {
      message: { id: "m", type: "message", role: "assistant", model: "m", content: [], usage },
    });
    sendEvent("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
    for (let frame = 0; frame < SECONDS * FRAMES_PER_SECOND; frame++) {
      const code =
        frame % 300 === 299 ? "\n\n```rust\nfn retry(clock: &impl Clock) -> u32 { 42 }\n```\n\n" : "";
      const end = frame % 40 === 39 ? ".\n\n" : " ";
      sendEvent("content_block_delta", {
        index: 0,
        delta: { type: "text_delta", text: WORDS[frame % WORDS.length] + end + code },
      });
      await new Promise((resolve) => setTimeout(resolve, 1_000 / FRAMES_PER_SECOND));
    }
    sendEvent("content_block_stop", { index: 0 });
    sendEvent("message_delta", { delta: { stop_reason: "end_turn" }, usage });
    sendEvent("message_stop", {});
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

async function serve(modelUrl) {
  const environment = { HOME: home, SEGUE_HOME: join(home, "home"), PATH: process.env.PATH };
  const child = spawn(
    program,
    ["serve", "--addr", "127.0.0.1:0", "--json", "--model", "anthropic/claude-sonnet-4-5"],
    {
      cwd: home,
      env: { ...environment, ANTHROPIC_API_KEY: "none", ANTHROPIC_BASE_URL: modelUrl },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const about = JSON.parse(line);
    return { url: about.url, key: readFileSync(about.token_file, "utf8").trim(), stop: () => child.kill() };
  }
}

/** Returns a session file with the given number of messages, in the format of another agent. */
function sessionFile(messages) {
  const lines = [];
  for (let index = 0; index < messages; index++) {
    const type = index % 2 ? "assistant" : "user";
    const text = `Message ${index}: ${WORDS.join(" ")}\n\n- one\n- two\n\n${index % 10 ? "" : "```rust\nlet a = 1;\n```"}`;
    const content = type === "user" ? text : [{ type: "text", text }];
    lines.push(
      JSON.stringify({
        type,
        uuid: `u${index}`,
        parentUuid: index ? `u${index - 1}` : null,
        sessionId: "s",
        timestamp: new Date(1.7e12 + index * 1000).toISOString(),
        message: { role: type, content, ...(type === "assistant" && { id: `m${index}`, model: "m" }) },
      }),
    );
  }
  return lines.join("\n");
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const milliseconds = (values) => `${Math.round(median(values))} ms (${values.map(Math.round).join(", ")})`;
const megabytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MB`;

const model = await startModel();
const server = await serve(model.url);
const headers = { "x-api-key": server.key, "content-type": "application/json" };
const request = async (method, path, body) => {
  const response = await fetch(server.url + path, {
    method,
    headers,
    body: body && (typeof body === "string" ? body : JSON.stringify(body)),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
};

const imported = await request("POST", "/api/import?name=long.jsonl", sessionFile(MESSAGES));
const long = imported.threads[0].thread_id;
for (let created = 0; created < THREADS; created += 100)
  await Promise.all(Array.from({ length: 100 }, () => request("POST", "/threads", {})));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
});

async function open(address) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  await context.addInitScript((key) => localStorage.setItem("segue.token", key), server.key);
  await context.addInitScript(() => {
    window.longTasks = [];
    new PerformanceObserver((list) =>
      window.longTasks.push(...list.getEntries().map((entry) => entry.duration)),
    ).observe({ type: "longtask", buffered: true });
  });
  const page = await context.newPage();
  await page.goto(`${server.url}/${address}`);
  return page;
}

const firstPaint = (page) =>
  page
    .waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime)
    .then((result) => result.jsonValue());

/** Returns the JavaScript heap size and the proportional memory of the largest renderer process. */
async function memory(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const heap = await page.evaluate(() => performance.memory.usedJSHeapSize);
  const browserSession = await browser.newBrowserCDPSession();
  const { processInfo } = await browserSession.send("SystemInfo.getProcessInfo");
  const sizes = processInfo
    .filter((info) => info.type === "renderer")
    .map((one) => readFileSync(`/proc/${one.id}/smaps_rollup`, "utf8"))
    .map((text) => 1024 * Number(/^Pss:\s+(\d+)/m.exec(text)[1]));
  return { heap, tab: Math.max(...sizes) };
}

const paintTimes = [];
const openTimes = [];
for (let round = 0; round < ROUNDS; round++) {
  const home = await open("#/");
  paintTimes.push(await firstPaint(home));
  await home.context().close();
  const page = await open(`#/threads/${long}`);
  await page
    .getByText(`Message ${MESSAGES - 1}:`)
    .first()
    .waitFor();
  openTimes.push(await page.evaluate(() => performance.now()));
  if (round === ROUNDS - 1) {
    const before = await memory(page);
    console.log(
      `tab with ${MESSAGES} messages, opened     ${megabytes(before.tab)} (scripts' heap ${megabytes(before.heap)})`,
    );
    await page.mouse.move(800, 400);
    for (let turn = 0; turn < 400; turn++) {
      await page.mouse.wheel(0, -3_000);
      if (turn % 10 === 9) await page.waitForTimeout(50);
    }
    const after = await memory(page);
    console.log(
      `the same, far scrolled             ${megabytes(after.tab)} (scripts' heap ${megabytes(after.heap)})`,
    );
    console.log(
      `longest task while scrolling       ${Math.round(Math.max(0, ...(await page.evaluate(() => window.longTasks))))} ms`,
    );
  }
  await page.context().close();
}
console.log(`first contentful paint             ${milliseconds(paintTimes)}`);
console.log(`${MESSAGES} messages: newest shown after   ${milliseconds(openTimes)}`);

const streaming = (await request("POST", "/threads", {})).thread_id;
const page = await open(`#/threads/${streaming}`);
const composer = page.getByRole("textbox", { name: /message/i });
await composer.fill("Go on");
await page.evaluate(() => (window.longTasks.length = 0));
await composer.press("Enter");
await page.getByRole("button", { name: /stop/i }).waitFor();
await page
  .getByRole("button", { name: /stop/i })
  .waitFor({ state: "detached", timeout: (SECONDS + 60) * 1_000 });
const tasks = await page.evaluate(() => window.longTasks);
console.log(
  `${FRAMES_PER_SECOND} frames a second, ${SECONDS} s: tasks over 50 ms  ${tasks.length}, the longest ${Math.round(Math.max(0, ...tasks))} ms`,
);

await browser.close();
server.stop();
model.close();
rmSync(home, { recursive: true, force: true });
process.exit(0);
