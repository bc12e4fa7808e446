// Accessibility: axe-core finds no serious violation on any page, light and dark, on a desktop and on a
// phone. No page scrolls sideways, and the layout does not shift while an answer streams.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { ask, check, open, openGate, PHONE, run, equal, thread, runTurn, waitUntil, WIDE } from "./suite.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function checkAccessibility(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  check(serious.length === 0, {
    where,
    serious: serious.map((one) => [
      one.id,
      one.help,
      one.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 160)}`),
    ]),
  });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(wide <= 0, { where, wide });
}

/** Creates data for every page. */
async function createWorld() {
  const id = await thread();
  await runTurn(id, "Please [look around]");
  await runTurn(id, "What is it? [markdown]");
  for (let question = 0; question < 6; question++)
    await runTurn(id, `Question ${question}: ${"and so on, ".repeat(200)}`);
  await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
  const [last] = await ask("GET", `/threads/${id}/runs?limit=1`);
  const { handoff, proposal } = await ask("POST", `/api/threads/${id}/handoffs`, {});
  const decided = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
    decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }],
  });
  const child = decided.child_thread_id;
  await runTurn(child, "Go on.");
  const waits = await ask("POST", `/api/threads/${child}/handoffs`, {});
  const asking = await thread();
  const asks = await runTurn(asking, "Please [two of them]");
  check(asks.__interrupt__?.length > 0, asks);
  await ask("POST", "/api/memory/remember", { text: "Kettles are blue." });
  return {
    home: ["#/", (page) => page.getByRole("textbox", { name: "First message" })],
    thread: [`#/threads/${id}`, (page) => page.getByRole("button", { name: /messages compacted/ })],
    child: [`#/threads/${child}`, (page) => page.getByRole("region", { name: "Pending handoff" })],
    question: [`#/threads/${asking}`, (page) => page.getByRole("region", { name: "Waiting for you" })],
    handoffs: ["#/handoffs", (page) => page.getByRole("main").getByText("Kettle, next part").first()],
    review: [
      `#/handoffs/${waits.handoff.handoff_id}`,
      (page) => page.getByRole("button", { name: "Accept" }),
    ],
    accepted: [
      `#/handoffs/${handoff.handoff_id}`,
      (page) => page.getByRole("heading", { name: "Kettle, next part" }),
    ],
    lineage: [`#/threads/${id}/lineage`, (page) => page.getByRole("tree")],
    trace: [`#/threads/${id}/runs/${last.run_id}`, (page) => page.getByRole("table", { name: "Run spans" })],
    search: ["#/search?q=kettle", (page) => page.locator("mark").first()],
    memory: ["#/memory", (page) => page.getByRole("group", { name: "Managed by Segue" })],
  };
}

let world;
const worldPages = async () => (world ??= await createWorld());

async function checkAllPages(size, scheme) {
  for (const [where, [address, there]] of Object.entries(await worldPages())) {
    const page = await open(address, { size, scheme });
    await there(page).first().waitFor();
    if (process.env.SHOTS)
      await page.screenshot({ path: `${process.env.SHOTS}/${where}-${size.width}-${scheme}.png` });
    await checkAccessibility(page, where);
    if (where === "thread") {
      await page.getByRole("button", { name: /messages compacted/ }).click();
      for (const call of await page.getByRole("log").getByRole("button", { expanded: false }).all())
        await call.click({ timeout: 1_000 }).catch(() => undefined);
      await checkAccessibility(page, "thread, opened");
    }
    if (where === "review") {
      await page.getByRole("button", { name: "Edit" }).click();
      await checkAccessibility(page, "review, edited");
    }
    await page.keyboard.press("Escape");
    await page.context().close();
  }
}

run({
  "wide and light": () => checkAllPages(WIDE, "light"),
  "on a phone, dark": () => checkAllPages(PHONE, "dark"),

  async "the keyboard help and the sign-in page are accessible"() {
    const page = await open();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await checkAccessibility(page, "keys");
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    await page.getByLabel("Token or key").waitFor();
    await checkAccessibility(page, "sign-in");
  },

  async "the layout does not shift while an answer streams"() {
    const id = await thread();
    for (let question = 0; question < 4; question++) await runTurn(id, `Question ${question}?`);
    const page = await open(`#/threads/${id}`);
    await page.getByRole("log").getByText("Question 3?").waitFor();
    await page.evaluate(() => {
      window.shift = 0;
      new PerformanceObserver((list) =>
        list.getEntries().forEach((entry) => (window.shift += entry.hadRecentInput ? 0 : entry.value)),
      ).observe({ type: "layout-shift" });
    });
    await page.getByRole("textbox", { name: "Message" }).fill("Mend it [held last]");
    await page.keyboard.press("Enter");
    await page.getByRole("log").getByText("then the rest").waitFor();
    await openGate("last");
    await waitUntil(
      async () => (await page.getByRole("button", { name: "Good answer" }).count()) === 5,
      "it is stored",
    );
    const shift = await page.evaluate(() => window.shift);
    // Content scrolls up while the reader follows it. Beyond that nothing may shift; the Web Vitals rate a
    // score up to 0.1 as good.
    check(shift < 0.1, { shift });
    equal(await page.getByRole("log").getByText("then the rest").count(), 1);
  },
});
