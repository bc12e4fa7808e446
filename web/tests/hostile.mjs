// K5, K7: content of models, tools, people and files is text. It cannot run scripts, load resources, add
// links or reorder its surroundings.
import { createServer } from "node:http";
import {
  ask,
  check,
  expectProblem,
  open,
  run,
  equal,
  server,
  openSignedOut,
  thread,
  runTurn,
  waitUntil,
} from "./suite.mjs";

const EVIL = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">\u202egnp.exe`;

async function checkInert(page) {
  equal(await page.evaluate(() => window.hacked ?? null), null);
  const found = await page.evaluate(() => {
    const main = document.getElementById("app");
    const links = [...main.querySelectorAll("a[href]")]
      .map((link) => link.getAttribute("href"))
      .filter((href) => !/^(#|https?:|mailto:)/.test(href));
    const elements = [
      ...main.querySelectorAll("script, iframe, object, embed, style, base, meta, form[action]"),
    ].map((one) => one.outerHTML);
    const pictures = [...main.querySelectorAll("img")]
      .map((one) => one.src)
      .filter((src) => !/^(blob|data):/.test(src));
    const handlers = [...main.querySelectorAll("*")]
      .filter((one) => [...one.attributes].some((attribute) => attribute.name.startsWith("on")))
      .map((one) => one.outerHTML);
    return [...links, ...elements, ...pictures, ...handlers];
  });
  equal(found, []);
}

/**
 * Expands everything within the locator, including nested content. Menus are skipped, because they show no
 * content.
 */
async function expandAll(within) {
  const closed = within.locator('[aria-expanded="false"]:not([aria-haspopup])');
  for (let left = 50; left > 0 && (await closed.count()) > 0; left--) await closed.first().click();
  equal(await closed.count(), 0);
}

/** Records requests to other origins. */
function recordForeignRequests(page) {
  const requests = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url) && !/^(blob|data):/.test(request.url()))
      requests.push(request.url());
  });
  return requests;
}

/** Waits until the words are shown, even if marks interrupt them. */
async function waitForWords(within, words) {
  await waitUntil(
    async () => (await within.allInnerTexts()).some((text) => text.replaceAll(/\s+/g, " ").includes(words)),
    words,
  );
}

/** Checks that a page of another origin cannot show this one in a frame. */
async function checkFraming() {
  const host = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<h1>Another page</h1><iframe src="${server.url}/#token=${server.key}"></iframe>`);
  });
  await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
  const page = await openSignedOut();
  const refused = page.waitForEvent("console", (message) => /frame-ancestors/.test(message.text()));
  // Waits for the frame, too.
  await page.goto(`http://127.0.0.1:${host.address().port}/`);
  await refused;
  await page.getByRole("heading", { name: "Another page" }).waitFor();
  const [, frame] = page.frames();
  check(frame.url().startsWith("chrome-error:"), frame.url());
  equal(await frame.locator("#app, main, aside").count(), 0);
  host.close();
  host.closeAllConnections();
}

run({
  async "k7 an answer full of markup is text, live and after a reload"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    const foreignRequests = recordForeignRequests(page);
    await page.getByRole("textbox", { name: "Message" }).fill(`Say it [hostile] ${EVIL}`);
    await page.keyboard.press("Enter");
    const log = page.getByRole("log");
    await log.getByText("window.hacked = 6").waitFor();
    await checkInert(page);
    await page.reload();
    await log.getByText("window.hacked = 6").waitFor();
    await checkInert(page);
    await expandAll(log);
    await log.getByText("window.hacked = 7").waitFor();
    await checkInert(page);
    equal(foreignRequests, []);
  },

  async "k5 names, summaries, comments and search hits are text"() {
    const id = await thread();
    await runTurn(id, `Zebra ${EVIL}`);
    await ask("PATCH", `/api/threads/${id}`, { name: `Zebra ${EVIL}` });
    const [{ run_id }] = await ask("GET", `/threads/${id}/runs?limit=1`);
    await ask("PUT", `/api/threads/${id}/runs/${run_id}/feedback`, { rating: 1, comment: `Comment ${EVIL}` });
    const { handoff } = await ask("POST", `/api/threads/${id}/handoffs`, { goal: EVIL });
    const body = ["objective", "next_step"].map((kind) => ({ kind, text: `Item ${EVIL}`, refs: [2] }));
    const summary_json = { title: `Kettle ${EVIL}`, tldr: `In short ${EVIL}`, body };
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [{ type: "edit", edited_action: { name: "handoff_summary", args: { summary_json } } }],
    });
    const { handoff: accepted } = await ask("GET", `/api/handoffs/${handoff.handoff_id}`);
    await ask("POST", "/api/memory/remember", { text: `Zebra ${EVIL}` });
    const pages = {
      "#/": ["Zebra"],
      "#/handoffs": ["Kettle"],
      [`#/handoffs/${handoff.handoff_id}`]: ["Kettle", "In short", "Item"],
      [`#/threads/${id}`]: ["Zebra", "Comment"],
      [`#/threads/${accepted.child_thread_id}`]: ["In short"],
      [`#/threads/${id}/lineage`]: ["Zebra"],
      [`#/threads/${id}/runs/${run_id}`]: ["Zebra"],
      "#/search?q=zebra": ["Zebra"],
    };
    for (const [address, words] of Object.entries(pages)) {
      const page = await open(address);
      const foreignRequests = recordForeignRequests(page);
      const main = page.getByRole("main");
      // The sidebar shows some of the words, too.
      for (const word of words) await waitForWords(main, `${word} <script>window.hacked`);
      await checkInert(page);
      equal(foreignRequests, []);
      await page.context().close();
    }
    const page = await open("#/memory");
    const notes = page.getByRole("textbox", { name: /^Notes( before|$)/ });
    await waitUntil(async () => (await notes.inputValue()).includes(EVIL.slice(0, 40)), "it is in the notes");
    await checkInert(page);
  },

  async "k7 the content security policy blocks injected scripts and framing"() {
    const response = await fetch(`${server.url}/`, { headers: { accept: "text/html" } });
    const policy = response.headers.get("content-security-policy");
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
    ])
      check(policy.includes(rule), policy);
    check(!policy.includes("unsafe"), policy);
    const page = await open();
    await page
      .evaluate(() => {
        const script = document.createElement("script");
        try {
          script.textContent = "window.hacked = 8";
          document.body.append(script);
        } catch {
          // Trusted Types block the script before the content security policy does.
        }
      })
      .catch(() => undefined);
    equal(await page.evaluate(() => window.hacked ?? null), null);
    expectProblem(/TrustedScript/);
    await checkFraming();
  },

  async "k2 without the token nothing is shown, and the token is removed from the address at once"() {
    const page = await open();
    check(!page.url().includes("token"), page.url());
    for (const path of ["/api/threads", "/api/handoffs", "/api/memory", "/api/search?q=a"])
      equal([path, (await fetch(`${server.url}${path}`)).status], [path, 401]);
    const guest = await openSignedOut();
    const refused = () => guest.waitForResponse((response) => response.status() === 401);
    const first = refused();
    await guest.goto(server.url);
    await first;
    const field = guest.getByLabel("Token or key");
    await field.fill("0".repeat(64));
    const second = refused();
    await guest.keyboard.press("Enter");
    await second;
    await guest.getByRole("alert").waitFor();
    equal(await guest.getByRole("complementary").count(), 0);
    await field.fill(server.key);
    await guest.keyboard.press("Enter");
    await guest.getByRole("complementary", { name: "Threads" }).waitFor();
  },

  async "k7 an active artifact is a download"() {
    const svg = Buffer.from(
      "<svg xmlns='http://www.w3.org/2000/svg'><script>window.hacked = 9</script></svg>",
    ).toString("base64");
    const id = await thread();
    await ask("POST", `/threads/${id}/runs/wait`, {
      assistant_id: "agent",
      input: {
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Look" },
              { type: "image_url", image_url: { url: `data:image/svg+xml;base64,${svg}` } },
            ],
          },
        ],
      },
    });
    const page = await open(`#/threads/${id}`);
    const log = page.getByRole("log");
    await log.getByText("Look").waitFor();
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const media = entries
      .flatMap((entry) => entry.content ?? [])
      .find((block) => block.type === "media" && block.sha256);
    check(media, entries);
    const path = `/api/threads/${id}/artifacts/${media.sha256}`;
    const response = await fetch(`${server.url}${path}`, { headers: { "x-api-key": server.key } });
    check(/^attachment/.test(response.headers.get("content-disposition") ?? ""), [...response.headers]);
    equal(response.headers.get("x-content-type-options"), "nosniff");
    await expandAll(log);
    equal(await log.locator("img").count(), 0);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      log.getByRole("button", { name: /^Save image\/svg/ }).click(),
    ]);
    check(!/\.(svg|html?)$/.test(download.suggestedFilename()), download.suggestedFilename());
    await checkInert(page);
  },
});
