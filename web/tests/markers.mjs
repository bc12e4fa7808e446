// Where messages were condensed: the card, live and after a reload, what it opens to, taking it back; and what a thumb lands on.
import { ask, check, imported, open, openGate, run, same, thread, turn, until } from "./suite.mjs";

const log = (page) => page.getByRole("log", { name: "Conversation" });
const card = (page) => log(page).getByRole("button", { name: /messages condensed/ });
const GOAL = "Find out why the retry test fails.";

/** A thread of twelve questions and answers. */
function long() {
  return imported("modules.jsonl", 24, (at) =>
    at % 2
      ? `Answer ${at >> 1}: ${"it parses what it is given, line by line. ".repeat(20)}`
      : `Question ${at >> 1}: what is in module ${at >> 1}?`,
  );
}

const shape = (page) =>
  log(page).evaluate((log) => {
    const marker = log.querySelector(".marker").cloneNode(true);
    for (const time of marker.querySelectorAll("time")) time.textContent = "";
    return marker.innerHTML.replaceAll(/ (id|aria-controls)="[^"]*"/g, "").replaceAll("<!---->", "");
  });

run({
  async "c5 the card is the same live, after a reload and in another window; c8 no summary is flashed"() {
    const id = await long();
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Question 11").waitFor();
    let flashed = false;
    await page.exposeFunction("flash", () => (flashed = true));
    await page.evaluate((goal) => {
      new MutationObserver(() => document.body.innerText.includes(goal) && window.flash()).observe(
        document.body,
        { subtree: true, childList: true, characterData: true },
      );
    }, GOAL);
    await page.getByRole("textbox", { name: "Message" }).fill("/compact the timeout");
    await page.keyboard.press("Enter");
    await card(page).waitFor();
    same(flashed, false);
    same(await card(page).getAttribute("aria-expanded"), "false");
    const live = await shape(page);
    await page.reload();
    await card(page).waitFor();
    same(await shape(page), live);
    const { entries } = await ask("GET", `/api/threads/${id}/history?shown=markers`);
    check(
      (await card(page).innerText()).includes(`${entries[0].replaced_count} messages condensed`),
      entries,
    );
  },

  async "c5 c7 m10 it opens by key to the summary, inert, and to the originals at their place"() {
    const id = await long();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    await card(page).focus();
    await page.keyboard.press("Enter");
    const marker = log(page).locator(".marker");
    await marker.getByText(GOAL).first().waitFor();
    const text = await marker.innerText();
    check(text.includes("onerror=alert(1)>") && text.includes("[a link](https://evil.example)"), text);
    same(await marker.locator("img, a[href*=evil]").count(), 0);
    await marker.getByRole("button", { name: /originals/i }).click();
    const originals = marker.getByRole("list", { name: "Originals" });
    await originals.getByText("Question 0: what is in module 0?").waitFor();
    await marker.getByRole("button", { name: "First message" }).click();
    await until(
      async () =>
        log(page)
          .getByText("Question 0: what is in module 0?")
          .first()
          .isVisible()
          .catch(() => false),
      "the first message",
    );
  },

  async "m9 two compactions are two cards in order, and the newest is taken back from the page"() {
    const id = await long();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 12 } });
    await turn(id, "And module twelve?");
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    await until(async () => (await card(page).count()) === 2, "two cards");
    await page.getByRole("textbox", { name: "Message" }).fill("/uncompact");
    await page.keyboard.press("Enter");
    await log(page).getByText("Condensing was taken back").waitFor();
    await log(page).getByText("taken back", { exact: true }).waitFor();
    const { condensed } = await ask("GET", `/api/threads/${id}/context`);
    const { entries } = await ask("GET", `/api/threads/${id}/history?shown=markers`);
    same(condensed.marker_seq, entries[0].seq);
  },

  async "c5 that a conversation is being condensed is shown while it is, after a reload and in another window too"() {
    const id = await long();
    const [page, other] = [await open(`#/threads/${id}`), await open(`#/threads/${id}`)];
    const going = (of) => log(of).getByText(/^Condensing \d+ messages…$/);
    await log(other).getByText("Question 11").waitFor();
    await page.getByRole("textbox", { name: "Message" }).fill("/compact [held summary]");
    await page.keyboard.press("Enter");
    for (const window of [page, other]) await going(window).waitFor();
    const told = await going(page).innerText();
    await page.reload();
    await going(page).waitFor();
    same([await going(page).innerText(), await going(other).innerText()], [told, told]);
    same(await card(page).count(), 0);
    await openGate("summary");
    for (const window of [page, other]) {
      await card(window).waitFor();
      await going(window).waitFor({ state: "detached" });
    }
  },

  async "c5 a conversation that could not be condensed says so and why, live and after a reload"() {
    const id = await thread();
    for (const text of ["One.", "Two.", "Three."]) await turn(id, text);
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Three.").waitFor();
    const failure = log(page).getByRole("status").filter({ hasText: "Not condensed" });
    same(await failure.count(), 0);
    const { outcome, reason } = await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 1 } });
    same(outcome, "nothing");
    await failure.getByText(reason).waitFor();
    const live = await failure.innerText();
    await page.reload();
    await failure.getByText(reason).waitFor();
    same([await failure.count(), await failure.innerText()], [1, live]);
    same(await card(page).count(), 0);
  },

  async "c9 a thread that was never condensed has no card"() {
    const id = await thread();
    await turn(id, "Hello");
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Heard.").waitFor();
    same(await card(page).count(), 0);
  },

  async "d6 d7 a thumb lands on the run it is shown at, whatever was condensed since, and is kept"() {
    const id = await long();
    for (const text of ["First?", "Second? [markdown]", "Third?"]) await turn(id, text);
    const runs = (await ask("GET", `/threads/${id}/runs?limit=10`)).map((one) => one.run_id).reverse();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    const up = page.getByRole("button", { name: "Good answer" });
    await until(async () => (await up.count()) >= 3, "a thumb at each answer of a run");
    const second = log(page)
      .getByRole("article", { name: "Agent" })
      .filter({ has: page.getByRole("heading", { name: "Findings" }) })
      .first();
    await second.getByRole("button", { name: "Good answer" }).click();
    const rated = async (run_id) => (await fetchFeedback(id, run_id))?.rating ?? null;
    await until(async () => (await rated(runs[1])) === 1, "the second run is rated");
    same([await rated(runs[0]), await rated(runs[2])], [null, null]);
    await page.reload();
    await until(
      async () =>
        (await second.getByRole("button", { name: "Good answer" }).getAttribute("aria-pressed")) === "true",
      "it is kept",
    );
    await second
      .getByRole("button", { name: /comment/i })
      .first()
      .click();
    await second.getByRole("textbox", { name: /Comment/ }).fill("<b>well done</b>");
    await second.getByRole("button", { name: "Keep the comment" }).click();
    await until(
      async () => (await fetchFeedback(id, runs[1]))?.comment === "<b>well done</b>",
      "the comment is kept",
    );
    await second.getByRole("button", { name: "Good answer" }).click();
    await until(async () => (await rated(runs[1])) === null, "it is taken back");
  },
});

async function fetchFeedback(id, run_id) {
  const { entries } = await ask("GET", `/api/threads/${id}/history?limit=200`);
  return entries.find((entry) => entry.run_id === run_id && "feedback" in entry)?.feedback ?? null;
}
