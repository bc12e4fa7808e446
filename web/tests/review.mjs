// The review of a handoff beside the conversation: items lead to their sources, and messages to their items.
import { readFileSync } from "node:fs";
import { ask, check, equal, open, PHONE, run, runTurn, waitUntil } from "./suite.mjs";

const example = readFileSync(new URL("../../examples/flaky-test.jsonl", import.meta.url), "utf8");
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Imports the example and drafts its handoff without a model, which names the sources of each item. */
async function draftExample() {
  const { threads } = await ask("POST", "/api/import?name=flaky-test.jsonl", example);
  const parent = threads[0].thread_id;
  // The draft that is pending already, if an earlier case has requested it.
  const { handoff } = await ask("POST", `/api/threads/${parent}/handoffs`, {});
  const args = { redraft: { model: "extractive" } };
  const decision = { type: "edit", edited_action: { name: "handoff_summary", args } };
  const { next } = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
    decisions: [decision],
  });
  return { parent, handoff: handoff.handoff_id, summary: next.proposal.summary_json };
}

/** Returns the item of the package with that text. */
const itemWith = (page, text) =>
  page.getByRole("region", { name: "Package" }).getByRole("listitem").filter({ hasText: text }).first();
/** Returns the message at a position. */
const message = (page, seq) => page.getByRole("log").locator(`[data-seq="${seq}"]`);

/** Waits until an element is within its scrolling pane. */
const waitUntilVisible = (element, what) =>
  waitUntil(
    () =>
      element.evaluateAll(([found]) => {
        let pane = found?.parentElement;
        while (pane && !/auto|scroll/.test(getComputedStyle(pane).overflowY)) pane = pane.parentElement;
        if (!pane) return false;
        const [inner, outer] = [found.getBoundingClientRect(), pane.getBoundingClientRect()];
        return inner.height > 0 && inner.bottom > outer.top && inner.top < outer.bottom;
      }),
    what,
  );
const isMarked = (element) => element.evaluate((one) => one.classList.contains("marked"));

run({
  async "selecting an item scrolls to its source and back"() {
    const { handoff, summary } = await draftExample();
    const page = await open(`#/handoffs/${handoff}`);
    const objective = summary.body.find(({ kind }) => kind === "objective");
    const [first] = objective.refs;
    await page.getByRole("log").getByText("Good. Go on with the fake-clock test").first().waitFor();
    equal(await message(page, first).count(), 0);
    const shownItem = itemWith(page, "It is always");
    await shownItem.click();
    await waitUntilVisible(message(page, first), "the source is shown");
    check(await isMarked(message(page, first)), "the source is marked");
    equal(await shownItem.getAttribute("aria-current"), "true");

    // All sources of an item are marked, also those that are further away.
    const changed = summary.body.find(({ kind }) => kind === "artifact");
    const changedItem = itemWith(page, changed.text.split("\n")[0].slice(0, 30));
    for (const seq of (changed.line_refs?.[0] ?? changed.refs).slice(0, 2)) {
      await changedItem.getByRole("link", { name: `Message ${seq}`, exact: true }).click();
      await waitUntilVisible(message(page, seq), `source ${seq} is shown`);
      await waitUntil(() => message(page, seq).evaluate((one) => one.matches(":focus")), "it has the focus");
      check(await isMarked(message(page, seq)), { seq });
    }

    // A message leads back to the items and rules that come from it.
    const rule = summary.carried.rules.find(({ refs }) => refs.includes(first));
    const ruleItem = page.locator("details [data-item]").filter({ hasText: rule.text.slice(0, 30) });
    await ruleItem.waitFor({ state: "hidden" });
    await shownItem.focus();
    await page.keyboard.press("Enter");
    await waitUntilVisible(message(page, first), "Enter shows the source");
    await message(page, first)
      .getByRole("button", { name: /of the package$/ })
      .click();
    await waitUntil(() => shownItem.evaluate((one) => one.matches(":focus")), "the item has the focus");
    await waitUntilVisible(shownItem, "the item is shown");
    await ruleItem.waitFor();
    for (const one of [shownItem, ruleItem]) equal(await one.getAttribute("aria-current"), "true");

    // The keys step through the items.
    await page.keyboard.press("j");
    await waitUntil(
      async () => (await shownItem.getAttribute("aria-current")) === null,
      "the next item is selected",
    );
    await page.keyboard.press("k");
    await waitUntil(
      async () => (await shownItem.getAttribute("aria-current")) === "true",
      "and the first one again",
    );
    await waitUntil(() => shownItem.evaluate((one) => one.matches(":focus")), "the focus follows");
    await waitUntilVisible(message(page, first), "so does the conversation");
    equal(await page.url().split("#")[1], `/handoffs/${handoff}`);
    // Only the panes scroll, so nothing can move the bars out of the window.
    equal(await page.evaluate(() => document.documentElement.scrollHeight - innerHeight), 0);
  },

  async "a click on a message marks its items"() {
    const { handoff, summary } = await draftExample();
    const page = await open(`#/handoffs/${handoff}`);
    const newest = Math.max(...summary.body.flatMap(({ refs }) => refs));
    const item = summary.body.find(({ refs }) => refs.includes(newest));
    const shownItem = itemWith(page, item.text.split("\n")[0].slice(0, 30));
    await message(page, newest).locator("p, pre, .text").first().click();
    await waitUntil(
      async () => (await shownItem.getAttribute("aria-current")) === "true",
      "the item is marked",
    );
    await waitUntilVisible(shownItem, "the item is shown");
    await page.getByText(/refer to this message|source of this item/).waitFor();
  },

  async "parts that the text lacks are added, and an edited text is saved as a draft"() {
    const { handoff, summary } = await draftExample();
    const page = await open(`#/handoffs/${handoff}`);
    const omitted = page.getByRole("region", { name: "Not in this text" });
    const [topic] = summary.notes.topics;
    // The text that will be added is shown first.
    await omitted.getByText(`Asked earlier: ${topic.request}`).waitFor();
    await omitted
      .getByRole("button", { name: `Show messages ${topic.first_seq} to ${topic.last_seq}`, exact: true })
      .click();
    await waitUntilVisible(message(page, topic.first_seq), "the topic is shown");

    // The strip leads to the first message.
    const strip = page.getByRole("slider", { name: /quoted/ });
    await strip.focus();
    await page.keyboard.press("End");
    check(/#\d+: \w+$/.test(await strip.getAttribute("aria-valuetext")), "the part has a text");
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    await waitUntilVisible(message(page, summary.coverage.quoted[0][0]), "the first part is shown");

    const proposals = async () => (await ask("GET", `/api/handoffs/${handoff}`)).proposals;
    const count = (await proposals()).length;
    // One key chooses, and Enter adds.
    await page.keyboard.press("+");
    await waitUntil(
      () =>
        button(omitted, /^Add: /)
          .first()
          .evaluate((one) => one.matches(":focus")),
      "the first part has the focus",
    );
    equal((await proposals()).length, count);
    const shownText = await omitted.getByText(`Asked earlier: ${topic.request}`).innerText();
    await button(omitted, `Add: ${topic.request}`).press("Enter");
    await waitUntil(async () => (await proposals()).length === count + 1, "the topic is added");
    const added = (await proposals()).at(-1).summary_json;
    check(
      added.body.some(({ text }) => text === shownText),
      { shownText, body: added.body },
    );
    check(!(added.notes?.topics ?? []).some(({ first_seq }) => first_seq === topic.first_seq), added.notes);
    await button(omitted, `Add: ${topic.request}`).waitFor({ state: "hidden" });

    await button(page, "Edit").click();
    await page.getByRole("textbox", { name: "Title" }).fill("A title of my own");
    await button(page, "Save as a draft").click();
    await page.getByRole("heading", { name: "A title of my own" }).waitFor();
    const review = await ask("GET", `/api/handoffs/${handoff}`);
    equal(review.proposals.length, count + 2);
    equal(review.pending.proposal.summary_json.title, "A title of my own");
  },

  async "an outdated draft is drafted again with the newer messages, and a lost rule is put back"() {
    const { parent, handoff } = await draftExample();
    await runTurn(parent, "And the backoff?");
    const page = await open(`#/handoffs/${handoff}`);
    const notice = page.getByText(/The draft does not cover \d+ newer messages\./);
    await notice.waitFor();
    const review = () => ask("GET", `/api/handoffs/${handoff}`);
    const count = (await review()).proposals.length;
    await button(page, "Redraft").click();
    await notice.waitFor({ state: "hidden" });
    const { proposals, pending } = await review();
    equal([proposals.length, pending.uncovered_messages], [count + 1, 0]);

    const { summary_json, summary_sha256 } = pending.proposal;
    const [rule] = summary_json.carried.rules;
    summary_json.carried.rules = summary_json.carried.rules.slice(1);
    const args = { summary_json, save_draft: true, summary_sha256 };
    const edit = { type: "edit", edited_action: { name: "handoff_summary", args } };
    await ask("POST", `/api/handoffs/${handoff}/decision`, { decisions: [edit] });
    await page.reload();
    const omitted = page.getByRole("region", { name: "Not in this text" });
    await button(omitted, `Add: ${rule.text}`).click();
    const hasRule = async () =>
      (await review()).pending?.proposal.summary_json.carried.rules.some(({ text }) => text === rule.text);
    await waitUntil(hasRule, "the rule is put back");
    await button(omitted, `Add: ${rule.text}`).waitFor({ state: "hidden" });
  },

  async "a phone shows the package first, and the conversation on request"() {
    const { handoff, summary } = await draftExample();
    const page = await open(`#/handoffs/${handoff}`, { size: PHONE });
    const shownItem = itemWith(page, "It is always");
    await shownItem.waitFor();
    equal(await page.getByRole("log").count(), 0);
    check(await button(page, "Accept").isVisible(), "accepting needs no scrolling");
    await shownItem.click();
    await page.getByRole("tab", { name: "Conversation" }).click();
    await waitUntilVisible(
      message(page, summary.body[0].refs[0]),
      "the source of the selected item is shown",
    );
    await shownItem.waitFor({ state: "hidden" });
    await message(page, summary.body[0].refs[0])
      .getByRole("button", { name: /of the package$/ })
      .click();
    await waitUntil(() => shownItem.evaluate((one) => one.matches(":focus")), "the item has the focus");
    check(await button(page, "Accept").isVisible(), "the decision stays");
  },
});
