// The thread list: scrolling, filtering, renaming, forking, exporting, deleting and undoing, and importing a
// session.
import { readFileSync } from "node:fs";
import { ask, check, open, PHONE, run, equal, server, thread, runTurn, waitUntil } from "./suite.mjs";

const list = (page) => page.getByRole("complementary", { name: "Threads" });
const rows = (page) => list(page).getByRole("list", { name: "Threads" });
const row = (page, name) => rows(page).getByRole("link", { name, exact: true });
const exists = async (id) => {
  const response = await fetch(`${server.url}/api/threads/${id}`, { headers: { "x-api-key": server.key } });
  return response.status === 200;
};

async function createNamedThread(name) {
  const id = await thread();
  await runTurn(id, `About ${name}.`);
  await ask("PATCH", `/api/threads/${id}`, { name });
  return id;
}

async function runAction(page, name, action) {
  await row(page, name).hover();
  await list(page)
    .getByRole("button", { name: `Actions for ${name}` })
    .click();
  await page.getByRole("menuitem", { name: action }).click();
}

run({
  async "a thousand threads can be scrolled, each once, and filtered"() {
    const oldest = await createNamedThread("Teapot");
    for (let made = 0; made < 1_000; made += 20) await Promise.all(Array.from({ length: 20 }, thread));
    const page = await open("#/", { size: { width: 1280, height: 2_000 } });
    const { total } = await ask("GET", "/api/threads?limit=1");
    check(total > 1_000, { total });
    const links = rows(page).getByRole("link");
    await links.first().waitFor();
    const seen = new Map();
    await rows(page).hover({ position: { x: 50, y: 300 } });
    await waitUntil(async () => {
      const shown = await rows(page)
        .getByRole("listitem")
        .evaluateAll((all) =>
          all.map((one) => [Number(one.ariaPosInSet), one.querySelector("a")?.getAttribute("href") ?? null]),
        );
      // Waits until all visible rows are loaded.
      if (shown.some(([, href]) => href === null)) return false;
      for (const [place, href] of shown) seen.set(place, href);
      await page.mouse.wheel(0, 1_000);
      return seen.size === total;
    }, "every thread was there");
    equal(new Set(seen.values()).size, total);
    check(seen.get(total).includes(oldest), "the oldest is the last");
    await row(page, "Teapot").waitFor();
    await page.keyboard.press("f");
    await list(page).locator("input:focus").waitFor();
    await page.keyboard.type("teapo");
    await waitUntil(async () => (await links.count()) === 1, "only what was looked for");
    await row(page, "Teapot").waitFor();
    await page.keyboard.press("Escape");
    await waitUntil(async () => (await links.count()) > 5, "all of them");
  },

  async "a renamed thread is updated in every window"() {
    const id = await createNamedThread("Old name");
    const [page, other] = [await open(`#/threads/${id}`), await open(`#/threads/${id}`)];
    await row(other, "Old name").waitFor();
    await runAction(page, "Old name", "Rename…");
    const field = page.getByRole("textbox", { name: "Name" });
    await field.fill("A <b>new</b> name");
    await page.keyboard.press("Enter");
    for (const window of [page, other]) {
      await row(window, "A <b>new</b> name").waitFor();
      await window.getByRole("heading", { name: "A <b>new</b> name" }).waitFor();
    }
    equal((await ask("GET", `/api/threads/${id}`)).name, "A <b>new</b> name");
  },

  async "a deleted thread is restored by Undo, and otherwise gone"() {
    const [kept, lost] = [await createNamedThread("Keep me"), await createNamedThread("Lose me")];
    const page = await open(`#/threads/${kept}`);
    await runAction(page, "Keep me", /^Delete/);
    await row(page, "Keep me").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await row(page, "Keep me").waitFor();
    await runAction(page, "Lose me", /^Delete/);
    await page.close({ runBeforeUnload: true });
    await waitUntil(
      async () => !(await exists(lost)),
      "it is gone, though the page was closed before its time",
    );
    check(await exists(kept), "the other one is there");
  },

  async "a fork has the whole transcript and is marked as a fork"() {
    const id = await createNamedThread("Original");
    const page = await open(`#/threads/${id}`);
    await runAction(page, "Original", "Fork");
    await page.waitForURL((url) => url.hash.startsWith("#/threads/") && !url.hash.includes(id));
    await page.getByText("About Original.").waitFor();
    await page
      .getByText(/Fork of/)
      .first()
      .waitFor();
  },

  async "c6 a thread is exported as a complete file"() {
    const id = await createNamedThread("Take me along");
    const page = await open(`#/threads/${id}`);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      runAction(page, "Take me along", /Markdown/),
    ]);
    check(download.suggestedFilename().endsWith(".md"), download.suggestedFilename());
    const text = readFileSync(await download.path(), "utf8");
    check(text.includes("About Take me along.") && text.includes("Heard."), text);
  },

  async "keyboard: the help, the thread list and a new thread"() {
    await createNamedThread("By key");
    const page = await open();
    await row(page, "By key").waitFor();
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    for (const text of ["New thread", "Filter threads", "Search everything"])
      await dialog.getByText(text).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    await page.keyboard.press("f");
    await list(page).locator("input:focus").waitFor();
    await page.keyboard.type("By key");
    await waitUntil(async () => (await rows(page).getByRole("link").count()) === 1, "only one");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/threads\//);
    await page.getByText("About By key.").waitFor();
    await page.locator("body").click({ position: { x: 700, y: 400 } });
    await page.keyboard.press("n");
    await page.getByRole("textbox", { name: "First message" }).waitFor();
  },

  async "a session of another agent is imported and opened"() {
    const page = await open();
    const session = ["Where is the lid?", "In the drawer."].map((text, at) => ({
      type: at ? "assistant" : "user",
      uuid: `u${at}`,
      parentUuid: at ? "u0" : null,
      sessionId: crypto.randomUUID(),
      timestamp: "2026-01-01T00:00:00Z",
      message: at
        ? { role: "assistant", id: "m1", model: "m", content: [{ type: "text", text }] }
        : { role: "user", content: text },
    }));
    session[1].sessionId = session[0].sessionId;
    const file = {
      name: "session.jsonl",
      mimeType: "application/jsonl",
      buffer: Buffer.from(session.map((line) => JSON.stringify(line)).join("\n")),
    };
    await page.getByLabel("Session files").setInputFiles(file);
    const card = page.getByRole("region", { name: "Imported" }).getByRole("listitem");
    await card.getByText("Where is the lid?").waitFor();
    await card.getByRole("link", { name: "Open thread" }).click();
    await page.getByText("In the drawer.").waitFor();
  },

  async "on a phone the sidebar slides in, and the page fits the screen"() {
    const [id, other] = [await createNamedThread("Small"), await createNamedThread("Another")];
    const page = await open(`#/threads/${other}`, { size: PHONE });
    await page.getByText("About Another.").waitFor();
    equal(await page.getByText("About Small.").count(), 0);
    await page
      .getByRole("button", { name: /threads/i })
      .first()
      .click();
    await row(page, "Small").click();
    await page.waitForURL((url) => url.hash === `#/threads/${id}`);
    await page.getByText("About Small.").waitFor();
    await row(page, "Small").waitFor({ state: "hidden" });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(wide <= 0, { wide });
  },
});
