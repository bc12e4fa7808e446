// For everybody: no serious violation that axe-core finds on any place of the page, light and dark, wide and on a phone; nothing wider than
// the screen; and nothing moves while an answer streams.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { ask, check, open, openGate, PHONE, run, same, thread, turn, until, WIDE } from "./suite.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function sound(page, where) {
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

/** A world with something at every place. */
async function furnish() {
  const id = await thread();
  await turn(id, "Please [look around]");
  await turn(id, "What is it? [markdown]");
  for (let question = 0; question < 6; question++)
    await turn(id, `Question ${question}: ${"and so on, ".repeat(200)}`);
  await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
  const [last] = await ask("GET", `/threads/${id}/runs?limit=1`);
  const { handoff, proposal } = await ask("POST", `/api/threads/${id}/handoffs`, {});
  const decided = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
    decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }],
  });
  const child = decided.child_thread_id;
  await turn(child, "Go on.");
  const waits = await ask("POST", `/api/threads/${child}/handoffs`, {});
  const asking = await thread();
  const asks = await turn(asking, "Please [two of them]");
  check(asks.__interrupt__?.length > 0, asks);
  await ask("POST", "/api/memory/remember", { text: "Kettles are blue." });
  return {
    home: ["#/", (page) => page.getByRole("textbox", { name: "First message" })],
    thread: [`#/threads/${id}`, (page) => page.getByRole("button", { name: /messages condensed/ })],
    child: [`#/threads/${child}`, (page) => page.getByRole("region", { name: "A handoff waits for you" })],
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
    trace: [
      `#/threads/${id}/runs/${last.run_id}`,
      (page) => page.getByRole("table", { name: "What the run did" }),
    ],
    search: ["#/search?q=kettle", (page) => page.locator("mark").first()],
    memory: ["#/memory", (page) => page.getByRole("group", { name: "Managed by Segue" })],
  };
}

let world;
const places = async () => (world ??= await furnish());

async function everywhere(size, scheme) {
  for (const [where, [address, there]] of Object.entries(await places())) {
    const page = await open(address, { size, scheme });
    await there(page).first().waitFor();
    if (process.env.SHOTS)
      await page.screenshot({ path: `${process.env.SHOTS}/${where}-${size.width}-${scheme}.png` });
    await sound(page, where);
    if (where === "thread") {
      await page.getByRole("button", { name: /messages condensed/ }).click();
      for (const call of await page.getByRole("log").getByRole("button", { expanded: false }).all())
        await call.click({ timeout: 1_000 }).catch(() => undefined);
      await sound(page, "thread, opened");
    }
    if (where === "review") {
      await page.getByRole("button", { name: "Edit" }).click();
      await sound(page, "review, edited");
    }
    await page.keyboard.press("Escape");
    await page.context().close();
  }
}

run({
  "wide and light": () => everywhere(WIDE, "light"),
  "on a phone, dark": () => everywhere(PHONE, "dark"),

  async "dialogs, menus and the sign-in are sound, too"() {
    const page = await open();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await sound(page, "keys");
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    await page.getByLabel("Token or key").waitFor();
    await sound(page, "sign-in");
  },

  async "nothing moves while an answer streams"() {
    const id = await thread();
    for (let question = 0; question < 4; question++) await turn(id, `Question ${question}?`);
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
    await until(
      async () => (await page.getByRole("button", { name: "Good answer" }).count()) === 5,
      "it is stored",
    );
    const shift = await page.evaluate(() => window.shift);
    // What the reader follows scrolls up; beyond that nothing may move. 0.1 is what the web's own measure calls good.
    check(shift < 0.1, { shift });
    same(await page.getByRole("log").getByText("then the rest").count(), 1);
  },
});
