// K5, K7: whatever a model, a tool, a person or a file says is text. Nothing of it runs, loads, links or turns around what stands beside it.
import { ask, check, forgive, open, run, same, server, thread, turn, until } from "./suite.mjs";

const EVIL = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">\u202egnp.exe`;

async function inert(page) {
  same(await page.evaluate(() => window.hacked ?? null), null);
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
  same(found, []);
}

/** Requests that left for elsewhere. */
function strangers(page) {
  const seen = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url) && !/^(blob|data):/.test(request.url()))
      seen.push(request.url());
  });
  return seen;
}

run({
  async "k7 an answer full of markup is text, live and after a reload"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    const left = strangers(page);
    await page.getByRole("textbox", { name: "Message" }).fill(`Say it [hostile] ${EVIL}`);
    await page.keyboard.press("Enter");
    const log = page.getByRole("log");
    await log.getByText("window.hacked = 6").waitFor();
    await inert(page);
    await page.reload();
    await log.getByText("window.hacked = 6").waitFor();
    await inert(page);
    for (const button of await log.getByRole("button", { expanded: false }).all())
      await button.click().catch(() => undefined);
    await inert(page);
    same(left, []);
  },

  async "k5 names, summaries, comments and search hits are text"() {
    const id = await thread();
    await turn(id, `Zebra ${EVIL}`);
    await ask("PATCH", `/api/threads/${id}`, { name: `Zebra ${EVIL}` });
    const { handoff } = await ask("POST", `/api/threads/${id}/handoffs`, { goal: EVIL });
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [{ type: "approve", args: { title: `Kettle ${EVIL}`, summary_md: undefined } }],
    });
    await ask("POST", "/api/memory/remember", { text: `Zebra ${EVIL}` });
    for (const address of [
      "#/",
      "#/handoffs",
      `#/handoffs/${handoff.handoff_id}`,
      `#/threads/${id}/lineage`,
      "#/search?q=zebra",
      "#/memory",
    ]) {
      const page = await open(address);
      const left = strangers(page);
      await page.getByText("<script>window.hacked").first().waitFor({ state: "attached" });
      await inert(page);
      same(left, []);
      await page.context().close();
    }
  },

  async "k7 the policy stands: no script that was put in runs, and nobody may frame the page"() {
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
          // Trusted Types refuse it before the policy does.
        }
      })
      .catch(() => undefined);
    same(await page.evaluate(() => window.hacked ?? null), null);
    forgive(/TrustedScript/);
  },

  async "k2 without the token nothing is told, and the token leaves the address at once"() {
    const page = await open();
    check(!page.url().includes("token"), page.url());
    const stranger = await page.context().browser().newContext();
    const their = await stranger.newPage();
    await their.goto(server.url);
    await their.getByLabel("Token or key").fill("0".repeat(64));
    await their.keyboard.press("Enter");
    await their.getByLabel("Token or key").waitFor();
    await their.getByLabel("Token or key").fill(server.key);
    await their.keyboard.press("Enter");
    await their.getByRole("complementary", { name: "Threads" }).waitFor();
    await stranger.close();
  },

  async "k7 an artifact that could act is given out as a file"() {
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
    await page.getByRole("log").getByText("Look").waitFor();
    await inert(page);
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const media = entries
      .flatMap((entry) => entry.content ?? [])
      .find((block) => block.type === "media" && block.sha256);
    if (media) {
      const response = await fetch(`${server.url}/api/threads/${id}/artifacts/${media.sha256}`, {
        headers: { "x-api-key": server.key },
      });
      check(/attachment/.test(response.headers.get("content-disposition") ?? ""), [...response.headers]);
    }
    await until(async () => (await page.evaluate(() => window.hacked ?? null)) === null, "nothing ran");
  },
});
