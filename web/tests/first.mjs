// The first handoff of a person who has never seen the page, from the import to the child thread.
import { readFileSync } from "node:fs";
import { ask, check, equal, open, run, waitUntil } from "./suite.mjs";

/** The number of actions within which a dropped session is handed off: the drop, and clicks. */
const ACTIONS_MAX = 5;
const example = readFileSync(new URL("../../examples/flaky-test.jsonl", import.meta.url), "utf8");
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Drops files anywhere on the page. */
async function drop(page, files) {
  const transfer = await page.evaluateHandle((all) => {
    const data = new DataTransfer();
    for (const { name, text } of all) data.items.add(new File([text], name));
    return data;
  }, files);
  for (const type of ["dragover", "drop"]) await page.dispatchEvent("main", type, { dataTransfer: transfer });
}

run({
  async "a dropped session is handed off in at most five actions"() {
    equal((await ask("GET", "/api/threads?limit=1")).total, 0);
    const page = await open();
    await page.getByRole("heading", { name: "Welcome to Segue" }).waitFor();
    let actions = 0;
    const act = async (action) => {
      await action();
      actions += 1;
    };
    await act(() => drop(page, [{ name: "flaky-test.jsonl", text: example }]));
    const card = page.getByRole("region", { name: "Imported" }).getByRole("listitem");
    await card.getByText("243 messages, 30.8k tokens").waitFor();
    await act(() => button(card, "Draft a handoff").click());
    await page.waitForURL(/#\/handoffs\//);
    await act(() => button(page, "Accept").click());
    await page.waitForURL(/#\/threads\//);
    check(actions <= ACTIONS_MAX, { actions });
    const child = page.url().split("#/threads/")[1];
    const { parent_kind, parent_id } = await ask("GET", `/api/threads/${child}`);
    const { source } = await ask("GET", `/api/threads/${parent_id}`);
    equal([parent_kind, source], ["handoff", "claude"]);
    await page.getByText(/Continues/).waitFor();
  },

  async "a card of a thread with a pending handoff opens its review"() {
    const { threads } = await ask("POST", "/api/import?name=flaky-test.jsonl", example);
    const { handoff } = await ask("POST", `/api/threads/${threads[0].thread_id}/handoffs`, {});
    const page = await open();
    await page.getByRole("heading", { name: "Import a session" }).waitFor();
    await drop(page, [{ name: "flaky-test.jsonl", text: example }]);
    const card = page.getByRole("region", { name: "Imported" }).getByRole("listitem");
    // The question about the handoff is not a message.
    await card.getByText("243 messages, 30.8k tokens").waitFor();
    await card.getByText("no new entries since the last import").waitFor();
    await card.getByRole("link", { name: "Review handoff" }).click();
    await page.waitForURL((url) => url.hash === `#/handoffs/${handoff.handoff_id}`);
  },

  async "each imported thread has a card, and further ones are folded"() {
    const page = await open();
    await page.getByRole("heading", { name: "Import a session" }).waitFor();
    const session = (at) =>
      JSON.stringify({
        type: "user",
        uuid: `u${at}`,
        parentUuid: null,
        sessionId: crypto.randomUUID(),
        timestamp: "2026-01-01T00:00:00Z",
        message: { role: "user", content: `Where is lid ${at}?` },
      });
    await drop(
      page,
      [1, 2, 3, 4, 5].map((at) => ({ name: `lid-${at}.jsonl`, text: session(at) })),
    );
    const cards = page.getByRole("region", { name: "Imported" }).getByRole("listitem");
    const more = button(page, "Show 2 more");
    await more.waitFor();
    equal(await cards.count(), 3);
    // The offer has the focus, so Enter drafts.
    await waitUntil(
      () => button(cards.first(), "Draft a handoff").evaluate((one) => one.matches(":focus")),
      "focus",
    );
    await more.click();
    equal(await cards.count(), 5);
    await cards.last().getByRole("link", { name: "Open thread" }).click();
    await page.getByRole("log").getByText("Where is lid 5?").waitFor();
    await button(page, /^Hand off/).waitFor();
  },
});
