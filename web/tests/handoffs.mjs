// A handoff on the page: requested, reviewed, refined, edited, declined, accepted; by several clients; and where it leads.
import { execFileSync } from "node:child_process";
import { api, ask, check, open, openGate, PHONE, run, same, thread, turn, until } from "./suite.mjs";

/** A thread in which something was said. */
async function kettle(text = "Please mend the kettle, and never raise the timeout.") {
  const id = await thread();
  await turn(id, text);
  return id;
}

const draft = (id, options = {}) => ask("POST", `/api/threads/${id}/handoffs`, options);
const handoffOf = (id) => ask("GET", `/api/handoffs/${id}`);
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Opens the review of a handoff that waits. */
async function review(id) {
  const page = await open(`#/handoffs/${id}`);
  await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
  return page;
}

run({
  async "m1 accepted is what was shown, and the child says where it comes from"() {
    const parent = await kettle();
    const { handoff, proposal } = await draft(parent);
    const page = await review(handoff.handoff_id);
    for (const text of ["The kettle is nearly mended.", "Mend the kettle.", "The lid is off.", "Polish it."])
      await page.getByText(text, { exact: true }).first().waitFor();
    await page.getByRole("tab", { name: "As the child reads it" }).click();
    check(
      (await page.getByRole("tabpanel").innerText()).includes("### Next steps"),
      "the text that is injected is there",
    );
    await button(page, "Accept").click();
    await page.waitForURL(/#\/threads\//);
    const { handoff: accepted } = await handoffOf(handoff.handoff_id);
    same([accepted.outcome, accepted.accepted_sha256], ["accepted", proposal.summary_sha256]);
    check(page.url().endsWith(accepted.child_thread_id), page.url());
    await page.getByText(/Continues/).waitFor();
    await page
      .getByRole("main")
      .getByRole("link", { name: /Please mend the kettle/ })
      .first()
      .click();
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${parent}`));
    await page.getByText(/Handed off to/).waitFor();
  },

  async "m6 what the source does not contain is marked, and what it covers is counted"() {
    const { handoff, proposal } = await draft(await kettle());
    const page = await review(handoff.handoff_id);
    await page.getByText("lid-9000.stl").first().waitFor();
    await page
      .getByText(/not found in|unverified|not verified/i)
      .first()
      .waitFor();
    const coverage = await page.getByRole("img", { name: /messages/ }).getAttribute("aria-label");
    check(coverage.includes(String(proposal.coverage.messages)), coverage);
  },

  async "g4 feedback is worked into another draft, and both can be compared and taken back"() {
    const { handoff } = await draft(await kettle());
    const page = await review(handoff.handoff_id);
    await page.keyboard.press("r");
    await page.getByRole("textbox", { name: "What should change?" }).fill("[shorter please]");
    await page.keyboard.press("Control+Enter");
    await page.getByText("Polish it briefly.").first().waitFor();
    await page.getByRole("tab", { name: "Changes" }).click();
    const changes = await page.getByRole("tabpanel").innerText();
    check(changes.includes("Polish it.") && changes.includes("Polish it briefly."), changes);
    await button(page, /Draft 1/).click();
    await button(page, "Propose this text again").click();
    await until(async () => (await handoffOf(handoff.handoff_id)).proposals.length === 3, "a third proposal");
    const { proposals } = await handoffOf(handoff.handoff_id);
    same(proposals[2].summary_md, proposals[0].summary_md);
    same(new Set(proposals.map((one) => one.summary_json.handoff_id)).size, 1);
  },

  async "what a person wrote is accepted as it stands, and limits are counted as one writes"() {
    const { handoff } = await draft(await kettle());
    const page = await review(handoff.handoff_id);
    await button(page, "Edit").click();
    const title = page.getByRole("textbox", { name: "Title" });
    await title.fill("x".repeat(121));
    check(await button(page, "Accept as edited").isDisabled(), "a title that is too long is not sent");
    await title.fill("The kettle 👩‍👩‍👧 goes on");
    await page.getByRole("textbox", { name: "Item 2: text" }).fill("The lid is off and <b>clean</b>.");
    await button(page, "Accept as edited").click();
    await page.waitForURL(/#\/threads\//);
    const { proposals } = await handoffOf(handoff.handoff_id);
    same(proposals.at(-1).summary_json.title, "The kettle 👩‍👩‍👧 goes on");
    check(proposals.at(-1).summary_md.includes("The lid is off and"), proposals.at(-1));
  },

  async "g15 declined, nothing is created, and Enter alone decides nothing"() {
    const parent = await kettle();
    const { handoff } = await draft(parent);
    const page = await review(handoff.handoff_id);
    const sent = [];
    page.on("request", (request) => request.method() !== "GET" && sent.push(request.postData()));
    await page.keyboard.press("Enter");
    await page.keyboard.press("d");
    await page.getByRole("textbox", { name: /Decline/ }).fill("too early");
    await page.keyboard.press("Enter");
    await button(page, "Decline the handoff").click();
    await page
      .getByText(/declined/i)
      .first()
      .waitFor();
    const { handoff: declined } = await handoffOf(handoff.handoff_id);
    same([declined.outcome, declined.child_thread_id], ["declined", null]);
    // Requests leave in the order in which they were asked for: there was none before the button was pressed.
    same(sent.length, 1);
    check(sent[0].includes('"reject"') && sent[0].includes("too early"), sent);
    const { threads } = await ask("GET", `/api/threads/${parent}/lineage`);
    same(threads.length, 1);
  },

  async "ended as a preview, nothing is created, and it says so before it is done"() {
    const parent = await kettle();
    const { handoff } = await draft(parent);
    const page = await review(handoff.handoff_id);
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "End it as a preview…" }).click();
    await page.getByText("it cannot be accepted").waitFor();
    await button(page, "Keep it waiting").click();
    await button(page, "Accept").waitFor();
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "End it as a preview…" }).click();
    await button(page, "End it as a preview").click();
    await button(page, "End it as a preview").waitFor({ state: "detached" });
    await page
      .getByText(/preview/i)
      .first()
      .waitFor();
    same(await button(page, "Accept").count(), 0);
    const { handoff: ended } = await handoffOf(handoff.handoff_id);
    same([ended.outcome, ended.child_thread_id], ["previewed", null]);
    same((await ask("GET", `/api/threads/${parent}/lineage`)).threads.length, 1);
  },

  async "what goes along is shown, and an item leads to the message it is from"() {
    const parent = await kettle();
    await turn(parent, "Please [look around]");
    const { handoff } = await draft(parent);
    const page = await review(handoff.handoff_id);
    const along = page.locator("section").filter({ has: page.getByRole("heading", { name: "Goes along" }) });
    await along.getByText("Please [look around]").waitFor();
    await along.getByText("Mend the spout").waitFor();
    const link = page
      .getByRole("main")
      .getByRole("link", { name: /^Message \d+/ })
      .first();
    const seq = /\d+/.exec((await link.getAttribute("aria-label")) ?? (await link.innerText()))[0];
    await link.click();
    await page.waitForURL((url) => url.hash === `#/threads/${parent}?at=${seq}`);
    await page.getByRole("log").getByText("Please mend the kettle").waitFor();
  },

  async "g20 two windows decide one handoff: the first counts, the second is told"() {
    const { handoff } = await draft(await kettle());
    const [one, two] = [await review(handoff.handoff_id), await review(handoff.handoff_id)];
    await button(two, "Decline…").click();
    await button(one, "Accept").click();
    await one.waitForURL(/#\/threads\//);
    const decline = button(two, "Decline the handoff");
    // It may have heard of it already; then it offers nothing to decide.
    await decline.click({ timeout: 2_000 }).catch(() => undefined);
    await two
      .getByText(/accepted/i)
      .first()
      .waitFor();
    await decline.waitFor({ state: "detached" });
    same((await handoffOf(handoff.handoff_id)).handoff.outcome, "accepted");
  },

  async "g20 a newer draft of another client does not take away what one types"() {
    const { handoff } = await draft(await kettle());
    const page = await review(handoff.handoff_id);
    await button(page, "Refine…").click();
    const field = page.getByRole("textbox", { name: "What should change?" });
    await field.fill("Name the files.");
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [
        { type: "edit", edited_action: { name: "handoff_summary", args: { feedback: "[shorter please]" } } },
      ],
    });
    await page.getByText("A newer draft is there").waitFor();
    same(await field.inputValue(), "Name the files.");
    await button(page, "Show it").click();
    await page.getByText("Polish it briefly.").first().waitFor();
    same(await field.inputValue(), "Name the files.");
  },

  async "m8 begun in the terminal, refined over HTTP, accepted on the page"() {
    const parent = await kettle();
    let printed = "";
    try {
      printed = execFileSync(process.env.SEGUE, ["handoff", parent, "--json"], { encoding: "utf8" });
    } catch (error) {
      // It ends with 3: something waits for a decision.
      same(error.status, 3);
      printed = error.stdout;
    }
    const { handoff } = JSON.parse(printed);
    const refined = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [
        { type: "edit", edited_action: { name: "handoff_summary", args: { feedback: "[shorter please]" } } },
      ],
    });
    const page = await review(handoff.handoff_id);
    await page.getByText("Polish it briefly.").first().waitFor();
    await button(page, "Accept").click();
    await page.waitForURL(/#\/threads\//);
    same((await handoffOf(handoff.handoff_id)).handoff.accepted_sha256, refined.next.proposal.summary_sha256);
  },

  async "a handoff is asked for on the thread's page; one that waits is shown everywhere"() {
    const parent = await kettle();
    const page = await open(`#/threads/${parent}`);
    await page.getByText("Heard.").waitFor();
    await page.keyboard.press("h");
    const dialog = page.getByRole("dialog", { name: "Hand off this thread" });
    await dialog.getByRole("textbox", { name: /Goal/ }).fill("[held draft] polish");
    await button(dialog, "Draft the handoff").click();
    await dialog.getByText(/draft/i).first().waitFor();
    await openGate("draft");
    await page.waitForURL(/#\/handoffs\//);
    await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
    await page.goto(`${page.url().split("#")[0]}#/threads/${parent}`);
    const card = page.getByRole("region", { name: "A handoff waits for you" });
    await card.getByText("The kettle is nearly mended.").waitFor();
    await page.getByRole("link", { name: /Handoffs.*waiting/ }).waitFor();
    await card.getByRole("link", { name: /Review/ }).click();
    await page.waitForURL(/#\/handoffs\//);
  },

  async "a handoff that was decided elsewhere is not there to be decided, and 409 names the outcome"() {
    const { handoff, proposal } = await draft(await kettle());
    const decision = { decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }] };
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, decision);
    const { status, answer } = await api("POST", `/api/handoffs/${handoff.handoff_id}/decision`, decision);
    check(status === 409 && /accepted/.test(answer.detail), answer);
    const page = await review(handoff.handoff_id);
    await page
      .getByText(/accepted/i)
      .first()
      .waitFor();
    same(await button(page, "Accept").count(), 0);
    await page
      .getByRole("link", { name: /child|thread/i })
      .first()
      .waitFor();
  },

  async "the lineage shows parents, children and forks, and leads to each"() {
    const parent = await kettle();
    const { handoff, proposal } = await draft(parent);
    const decision = { decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }] };
    const { child_thread_id: child } = await ask(
      "POST",
      `/api/handoffs/${handoff.handoff_id}/decision`,
      decision,
    );
    await turn(child, "Go on with it.");
    const fork = await ask("POST", `/api/threads/${child}/fork`, {});
    const page = await open(`#/threads/${child}/lineage`);
    const tree = page.getByRole("tree");
    await tree.waitFor();
    same(await tree.getByRole("treeitem").count(), 3);
    await tree.getByRole("treeitem").nth(2).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${fork.thread_id}`));
  },

  async "a chain of fifty is folded, unfolds, and is gone through by key; nothing is wider than a phone"() {
    const chain = [await kettle()];
    while (chain.length < 50)
      chain.push((await ask("POST", `/api/threads/${chain.at(-1)}/fork`, {})).thread_id);
    const page = await open(`#/threads/${chain[25]}/lineage`, { size: PHONE });
    const items = page.getByRole("treeitem");
    await items.first().waitFor();
    check((await items.count()) < 20, "its middle is folded");
    await fits(page);
    const folded = page.getByRole("treeitem", { expanded: false });
    while ((await folded.count()) > 0) {
      await folded.first().focus();
      await page.keyboard.press("Enter");
    }
    await until(async () => (await items.count()) === 50, "every one of them");
    await walked(page, 50);
    await fits(page);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${chain.at(-1)}`));
  },

  async "a thread with thirteen forks shows each, and leads to each by key; nothing is wider than a phone"() {
    const hub = await kettle();
    for (let made = 0; made < 13; made++) await ask("POST", `/api/threads/${hub}/fork`, {});
    const page = await open(`#/threads/${hub}/lineage`, { size: PHONE });
    await page.getByRole("treeitem").first().waitFor();
    same(await page.getByRole("treeitem").count(), 14);
    await walked(page, 14);
    await fits(page);
  },
});

/** Goes down from the first row of a family to its last, which has to be there after as many steps as there are rows. */
async function walked(page, rows) {
  const place = () => page.evaluate(() => document.activeElement?.getAttribute("data-row"));
  await page.locator('[role="treeitem"][tabindex="0"]').focus();
  await page.keyboard.press("Home");
  for (let at = 0; at < rows; at++) {
    await until(async () => (await place()) === String(at), `row ${at} has the focus`);
    const box = await page.locator(":focus").boundingBox();
    check(box && box.y >= 0 && box.y < PHONE.height && box.x >= 0 && box.x + box.width <= PHONE.width, {
      at,
      box,
    });
    await page.keyboard.press("ArrowDown");
  }
  same(await place(), String(rows - 1));
}

/** Sees to it that nothing is scrolled sideways. */
async function fits(page) {
  const wide = await page.evaluate(() =>
    [...document.querySelectorAll("html, main, main *")]
      .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "hidden")
      .filter((one) => one.localName === "html" || /auto|scroll/.test(getComputedStyle(one).overflowX))
      .map((one) => `${one.localName}.${one.className}: ${one.scrollWidth} in ${one.clientWidth}`),
  );
  same(wide, []);
}
