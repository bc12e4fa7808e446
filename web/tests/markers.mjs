// Compactions: the card while streaming and after a reload, its content, undoing, and feedback across
// compactions.
import {
  ask,
  check,
  importSession,
  open,
  openGate,
  run,
  equal,
  thread,
  runTurn,
  waitUntil,
} from "./suite.mjs";

const log = (page) => page.getByRole("log", { name: "Conversation" });
const card = (page) => log(page).getByRole("button", { name: /messages compacted/ });
const GOAL = "Find out why the retry test fails.";

/** Imports a thread of twelve questions and answers. */
function importLongThread() {
  return importSession("modules.jsonl", 24, (at) =>
    at % 2
      ? `Answer ${at >> 1}: ${"it parses what it is given, line by line. ".repeat(20)}`
      : `Question ${at >> 1}: what is in module ${at >> 1}?`,
  );
}

const markerHtml = (page) =>
  log(page).evaluate((log) => {
    const marker = log.querySelector(".marker").cloneNode(true);
    for (const time of marker.querySelectorAll("time")) time.textContent = "";
    return marker.innerHTML.replaceAll(/ (id|aria-controls)="[^"]*"/g, "").replaceAll("<!---->", "");
  });

run({
  async "c5 the card is the same live and after a reload; c8 no summary flashes"() {
    const id = await importLongThread();
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
    equal(flashed, false);
    equal(await card(page).getAttribute("aria-expanded"), "false");
    const live = await markerHtml(page);
    await page.reload();
    await card(page).waitFor();
    equal(await markerHtml(page), live);
    const { entries } = await ask("GET", `/api/threads/${id}/history?shown=markers`);
    check(
      (await card(page).innerText()).includes(`${entries[0].replaced_count} messages compacted`),
      entries,
    );
  },

  async "c5 c7 m10 the card expands by keyboard to the inert summary and the original messages"() {
    const id = await importLongThread();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    await card(page).focus();
    await page.keyboard.press("Enter");
    const marker = log(page).locator(".marker");
    await marker.getByText(GOAL).first().waitFor();
    const text = await marker.innerText();
    check(text.includes("onerror=alert(1)>") && text.includes("[a link](https://evil.example)"), text);
    equal(await marker.locator("img, a[href*=evil]").count(), 0);
    await marker.getByRole("button", { name: /original messages/i }).click();
    const originals = marker.getByRole("list", { name: "Original messages" });
    await originals.getByText("Question 0: what is in module 0?").waitFor();
    await marker.getByRole("button", { name: "First message" }).click();
    await waitUntil(
      async () =>
        log(page)
          .getByText("Question 0: what is in module 0?")
          .first()
          .isVisible()
          .catch(() => false),
      "the first message",
    );
  },

  async "m9 two compactions are two cards in order, and the newest is undone on the page"() {
    const id = await importLongThread();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 12 } });
    await runTurn(id, "And module twelve?");
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    await waitUntil(async () => (await card(page).count()) === 2, "two cards");
    await page.getByRole("textbox", { name: "Message" }).fill("/uncompact");
    await page.keyboard.press("Enter");
    await log(page).getByText("Compaction undone").waitFor();
    await log(page).getByText("undone", { exact: true }).waitFor();
    const { condensed } = await ask("GET", `/api/threads/${id}/context`);
    const { entries } = await ask("GET", `/api/threads/${id}/history?shown=markers`);
    equal(condensed.marker_seq, entries[0].seq);
  },

  async "c5 a running compaction is shown live, after a reload and in another window"() {
    const id = await importLongThread();
    const [page, other] = [await open(`#/threads/${id}`), await open(`#/threads/${id}`)];
    const progress = (window) => log(window).getByText(/^Compacting \d+ messages…$/);
    await log(other).getByText("Question 11").waitFor();
    await page.getByRole("textbox", { name: "Message" }).fill("/compact [held summary]");
    await page.keyboard.press("Enter");
    for (const window of [page, other]) await progress(window).waitFor();
    const text = await progress(page).innerText();
    await page.reload();
    await progress(page).waitFor();
    equal([await progress(page).innerText(), await progress(other).innerText()], [text, text]);
    equal(await card(page).count(), 0);
    await openGate("summary");
    for (const window of [page, other]) {
      await card(window).waitFor();
      await progress(window).waitFor({ state: "detached" });
    }
  },

  async "c5 a failed compaction is shown with its reason, live and after a reload"() {
    const id = await thread();
    for (const text of ["One.", "Two.", "Three."]) await runTurn(id, text);
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Three.").waitFor();
    const failure = log(page).getByRole("status").filter({ hasText: "Not compacted" });
    equal(await failure.count(), 0);
    const { outcome, reason } = await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 1 } });
    equal(outcome, "nothing");
    await failure.getByText(reason).waitFor();
    const live = await failure.innerText();
    await page.reload();
    await failure.getByText(reason).waitFor();
    equal([await failure.count(), await failure.innerText()], [1, live]);
    equal(await card(page).count(), 0);
  },

  async "c9 a thread without a compaction has no card"() {
    const id = await thread();
    await runTurn(id, "Hello");
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Heard.").waitFor();
    equal(await card(page).count(), 0);
  },

  async "d6 d7 feedback is stored for its run, also after a compaction"() {
    const id = await importLongThread();
    for (const text of ["First?", "Second? [markdown]", "Third?"]) await runTurn(id, text);
    const runs = (await ask("GET", `/threads/${id}/runs?limit=10`)).map((one) => one.run_id).reverse();
    await ask("POST", `/api/threads/${id}/compact`, { keep: { messages: 4 } });
    const page = await open(`#/threads/${id}`);
    const up = page.getByRole("button", { name: "Good answer" });
    await waitUntil(async () => (await up.count()) >= 3, "a thumb at each answer of a run");
    const second = log(page)
      .getByRole("article", { name: "Agent" })
      .filter({ has: page.getByRole("heading", { name: "Findings" }) })
      .first();
    await second.getByRole("button", { name: "Good answer" }).click();
    const rated = async (run_id) => (await fetchFeedback(id, run_id))?.rating ?? null;
    await waitUntil(async () => (await rated(runs[1])) === 1, "the second run is rated");
    equal([await rated(runs[0]), await rated(runs[2])], [null, null]);
    await page.reload();
    await waitUntil(
      async () =>
        (await second.getByRole("button", { name: "Good answer" }).getAttribute("aria-pressed")) === "true",
      "it is kept",
    );
    await second
      .getByRole("button", { name: /comment/i })
      .first()
      .click();
    await second.getByRole("textbox", { name: /Comment/ }).fill("<b>well done</b>");
    await second.getByRole("button", { name: "Save comment" }).click();
    await waitUntil(
      async () => (await fetchFeedback(id, runs[1]))?.comment === "<b>well done</b>",
      "the comment is kept",
    );
    await second.getByRole("button", { name: "Good answer" }).click();
    await waitUntil(async () => (await rated(runs[1])) === null, "it is taken back");
  },
});

async function fetchFeedback(id, run_id) {
  const { entries } = await ask("GET", `/api/threads/${id}/history?limit=200`);
  return entries.find((entry) => entry.run_id === run_id && "feedback" in entry)?.feedback ?? null;
}
