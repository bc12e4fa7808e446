// Handoffs on the page: requesting, reviewing, refining, editing, declining and accepting, also with several
// clients, and the lineage.
import { execFileSync } from "node:child_process";
import {
  api,
  ask,
  check,
  equal,
  open,
  openGate,
  openSignedOut,
  PHONE,
  run,
  runTurn,
  server,
  thread,
  waitUntil,
} from "./suite.mjs";

/** Creates a thread with one turn. */
async function createThread(text = "Please mend the kettle, and never raise the timeout.") {
  const id = await thread();
  await runTurn(id, text);
  return id;
}

/** Hands a thread off, and returns its child. */
async function acceptHandoff(id, title = undefined) {
  const { handoff, proposal } = await requestHandoff(id);
  const { summary_sha256 } = proposal;
  const decision = { type: "approve", summary_sha256, ...(title && { args: { title } }) };
  const path = `/api/handoffs/${handoff.handoff_id}/decision`;
  return (await ask("POST", path, { decisions: [decision] })).child_thread_id;
}

const requestHandoff = (id, options = {}) => ask("POST", `/api/threads/${id}/handoffs`, options);
const loadHandoff = (id) => ask("GET", `/api/handoffs/${id}`);
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Opens the review of a pending handoff. */
async function openReview(id) {
  const page = await open(`#/handoffs/${id}`);
  await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
  return page;
}

run({
  async "m1 accepting stores the shown text, and the child links to its parent"() {
    const parent = await createThread();
    const { handoff, proposal } = await requestHandoff(parent);
    const page = await openReview(handoff.handoff_id);
    for (const text of ["The kettle is nearly mended.", "Mend the kettle.", "The lid is off.", "Polish it."])
      await page.getByText(text, { exact: true }).first().waitFor();
    await page.getByRole("tab", { name: "Exact text" }).click();
    check(
      (await page.getByRole("tabpanel").innerText()).includes("### Next steps"),
      "the text that is injected is there",
    );
    await button(page, "Accept").click();
    await page.waitForURL(/#\/threads\//);
    const { handoff: accepted } = await loadHandoff(handoff.handoff_id);
    equal([accepted.outcome, accepted.accepted_sha256], ["accepted", proposal.summary_sha256]);
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

  async "m8 an address with a token and a route opens the review"() {
    const { handoff } = await requestHandoff(await createThread());
    const page = await openSignedOut();
    await page.goto(`${server.url}/#token=${server.key}&route=/handoffs/${handoff.handoff_id}`);
    await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
    check(page.url().endsWith(`/#/handoffs/${handoff.handoff_id}`), page.url());
  },

  async "m6 unverified identifiers are marked, and the coverage is shown"() {
    const { handoff, proposal } = await requestHandoff(await createThread());
    const page = await openReview(handoff.handoff_id);
    await page.getByText("lid-9000.stl").first().waitFor();
    await page
      .getByText(/not found in|unverified|not verified/i)
      .first()
      .waitFor();
    const coverage = await page.getByRole("slider", { name: /messages/ }).getAttribute("aria-label");
    check(coverage.includes(String(proposal.coverage.messages)), coverage);
  },

  async "g4 feedback leads to a new draft, and drafts can be compared and restored"() {
    const { handoff } = await requestHandoff(await createThread());
    const page = await openReview(handoff.handoff_id);
    await page.keyboard.press("r");
    await page.getByRole("textbox", { name: "What should change?" }).fill("[shorter please]");
    await page.keyboard.press("Control+Enter");
    await page.getByText("Polish it briefly.").first().waitFor();
    await page.getByRole("tab", { name: "Changes" }).click();
    const changes = await page.getByRole("tabpanel").innerText();
    check(changes.includes("Polish it.") && changes.includes("Polish it briefly."), changes);
    await button(page, /Draft 1/).click();
    await button(page, "Restore this draft").click();
    await waitUntil(
      async () => (await loadHandoff(handoff.handoff_id)).proposals.length === 3,
      "a third proposal",
    );
    const { proposals } = await loadHandoff(handoff.handoff_id);
    equal(proposals[2].package_md, proposals[0].package_md);
    equal(new Set(proposals.map((one) => one.summary_json.handoff_id)).size, 1);
  },

  async "an edit is accepted as written, and limits are counted while typing"() {
    const { handoff } = await requestHandoff(await createThread());
    const page = await openReview(handoff.handoff_id);
    await button(page, "Edit").click();
    const title = page.getByRole("textbox", { name: "Title" });
    await title.fill("x".repeat(121));
    check(await button(page, "Accept as edited").isDisabled(), "a title that is too long is not sent");
    await title.fill("The kettle 👩‍👩‍👧 goes on");
    await page.getByRole("textbox", { name: "Item 2: text" }).fill("The lid is off and <b>clean</b>.");
    await button(page, "Accept as edited").click();
    await page.waitForURL(/#\/threads\//);
    const { proposals } = await loadHandoff(handoff.handoff_id);
    equal(proposals.at(-1).summary_json.title, "The kettle 👩‍👩‍👧 goes on");
    check(proposals.at(-1).package_md.includes("The lid is off and"), proposals.at(-1));
  },

  async "g15 declining creates nothing, and Enter alone decides nothing"() {
    const parent = await createThread();
    const { handoff } = await requestHandoff(parent);
    const page = await openReview(handoff.handoff_id);
    const sent = [];
    page.on("request", (request) => request.method() !== "GET" && sent.push(request.postData()));
    await page.keyboard.press("Enter");
    await page.keyboard.press("d");
    await page.getByRole("textbox", { name: /Decline/ }).fill("too early");
    await page.keyboard.press("Enter");
    await button(page, "Decline handoff").click();
    await page
      .getByText(/declined/i)
      .first()
      .waitFor();
    const { handoff: declined } = await loadHandoff(handoff.handoff_id);
    equal([declined.outcome, declined.child_thread_id], ["declined", null]);
    // Requests are sent in order, so none was sent before the button was pressed.
    equal(sent.length, 1);
    check(sent[0].includes('"reject"') && sent[0].includes("too early"), sent);
    const { threads } = await ask("GET", `/api/threads/${parent}/lineage`);
    equal(threads.length, 1);
  },

  async "ending as a preview creates nothing, and explains that first"() {
    const parent = await createThread();
    const { handoff } = await requestHandoff(parent);
    const page = await openReview(handoff.handoff_id);
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "End as preview…" }).click();
    await page.getByText("it cannot be accepted").waitFor();
    await button(page, "Keep pending").click();
    await button(page, "Accept").waitFor();
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "End as preview…" }).click();
    await button(page, "End as preview").click();
    await button(page, "End as preview").waitFor({ state: "detached" });
    await page
      .getByText(/preview/i)
      .first()
      .waitFor();
    equal(await button(page, "Accept").count(), 0);
    const { handoff: ended } = await loadHandoff(handoff.handoff_id);
    equal([ended.outcome, ended.child_thread_id], ["previewed", null]);
    equal((await ask("GET", `/api/threads/${parent}/lineage`)).threads.length, 1);
  },

  async "carried-over facts are shown, and an item links to its source message"() {
    const parent = await createThread();
    await runTurn(parent, "Please [look around]");
    const { handoff } = await requestHandoff(parent);
    const page = await openReview(handoff.handoff_id);
    const facts = (heading) =>
      page.locator("details").filter({ has: page.locator("summary", { hasText: heading }) });
    await facts("Last request").getByText("Please [look around]").waitFor();
    await facts("Tasks").getByText("Mend the spout").waitFor();
    const link = page.getByRole("link", { name: /^Message \d+/ }).first();
    const seq = /\d+/.exec(await link.getAttribute("aria-label"))[0];
    equal(await link.getAttribute("href"), `#/threads/${parent}?at=${seq}`);
    await page.getByRole("link", { name: "Open thread" }).click();
    await page.waitForURL((url) => url.hash === `#/threads/${parent}`);
    await page.getByRole("log").getByText("Please mend the kettle").waitFor();
  },

  async "g20 two windows decide one handoff: the first counts, the second shows the outcome"() {
    const { handoff } = await requestHandoff(await createThread());
    const [one, two] = [await openReview(handoff.handoff_id), await openReview(handoff.handoff_id)];
    await button(two, "Decline…").click();
    await button(one, "Accept").click();
    await one.waitForURL(/#\/threads\//);
    const decline = button(two, "Decline handoff");
    // The page may already know of the decision; then the button is gone.
    await decline.click({ timeout: 2_000 }).catch(() => undefined);
    await two
      .getByText(/accepted/i)
      .first()
      .waitFor();
    await decline.waitFor({ state: "detached" });
    equal((await loadHandoff(handoff.handoff_id)).handoff.outcome, "accepted");
  },

  async "g20 a newer draft of another client keeps the typed text"() {
    const { handoff } = await requestHandoff(await createThread());
    const page = await openReview(handoff.handoff_id);
    await button(page, "Refine…").click();
    const field = page.getByRole("textbox", { name: "What should change?" });
    await field.fill("Name the files.");
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [
        { type: "edit", edited_action: { name: "handoff_summary", args: { feedback: "[shorter please]" } } },
      ],
    });
    await page.getByText("A newer draft is available").waitFor();
    equal(await field.inputValue(), "Name the files.");
    await button(page, "Show draft").click();
    await page.getByText("Polish it briefly.").first().waitFor();
    equal(await field.inputValue(), "Name the files.");
  },

  async "m8 a handoff is requested in the terminal, refined over HTTP and accepted on the page"() {
    const parent = await createThread();
    let printed = "";
    try {
      printed = execFileSync(process.env.SEGUE, ["handoff", parent, "--json"], { encoding: "utf8" });
    } catch (error) {
      // Exit status 3: a decision is pending.
      equal(error.status, 3);
      printed = error.stdout;
    }
    const { handoff } = JSON.parse(printed);
    const refined = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
      decisions: [
        { type: "edit", edited_action: { name: "handoff_summary", args: { feedback: "[shorter please]" } } },
      ],
    });
    const page = await openReview(handoff.handoff_id);
    await page.getByText("Polish it briefly.").first().waitFor();
    await button(page, "Accept").click();
    await page.waitForURL(/#\/threads\//);
    equal(
      (await loadHandoff(handoff.handoff_id)).handoff.accepted_sha256,
      refined.next.proposal.summary_sha256,
    );
  },

  async "a draft is cancelled in the header, and nothing is left of it"() {
    const parent = await createThread();
    const page = await open(`#/threads/${parent}`);
    await button(page, /^Hand off/).click();
    const dialog = page.getByRole("dialog", { name: "Hand off this thread" });
    await dialog.getByRole("textbox", { name: /Goal/ }).fill("[held draft]");
    await button(dialog, "Draft handoff").click();
    await button(dialog, "Continue in background").click();
    await button(page, "Drafting…").waitFor();
    await button(page, "Cancel draft").click();
    await button(page, /^Hand off/).waitFor();
    equal((await ask("GET", `/api/handoffs?status=all&thread_id=${parent}`)).handoffs, []);
    equal(await page.getByText("Could not draft the handoff").count(), 0);
    await requestHandoff(parent);
    await button(page, "Review handoff").click();
    await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
  },

  async "a handoff is requested on the thread page, and a pending one is shown everywhere"() {
    const parent = await createThread();
    const page = await open(`#/threads/${parent}`);
    await page.getByText("Heard.").waitFor();
    await page.keyboard.press("h");
    const dialog = page.getByRole("dialog", { name: "Hand off this thread" });
    await dialog.getByRole("textbox", { name: /Goal/ }).fill("[held draft] polish");
    await button(dialog, "Draft handoff").click();
    await dialog.getByText(/draft/i).first().waitFor();
    await openGate("draft");
    await page.waitForURL(/#\/handoffs\//);
    await page.getByRole("heading", { name: "Kettle, next part" }).waitFor();
    await page.goto(`${page.url().split("#")[0]}#/threads/${parent}`);
    const card = page.getByRole("region", { name: "Pending handoff" });
    await card.getByText("The kettle is nearly mended.").waitFor();
    await page.getByRole("link", { name: /Handoffs.*waiting/ }).waitFor();
    await card.getByRole("link", { name: /Review/ }).click();
    await page.waitForURL(/#\/handoffs\//);
  },

  async "a decided handoff cannot be decided again, and 409 names the outcome"() {
    const { handoff, proposal } = await requestHandoff(await createThread());
    const decision = { decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }] };
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, decision);
    const { status, answer } = await api("POST", `/api/handoffs/${handoff.handoff_id}/decision`, decision);
    check(status === 409 && /accepted/.test(answer.detail), answer);
    const page = await openReview(handoff.handoff_id);
    await page
      .getByText(/accepted/i)
      .first()
      .waitFor();
    equal(await button(page, "Accept").count(), 0);
    await page
      .getByRole("link", { name: /child|thread/i })
      .first()
      .waitFor();
  },

  async "two threads are merged into one child, each summary reviewed"() {
    const [parent, other] = [await createThread(), await createThread("Please mend the [teapot].")];
    await ask("PATCH", `/api/threads/${other}`, { name: "The teapot" });
    const child = await acceptHandoff(parent);
    const page = await open(`#/threads/${child}`);
    await button(page, "Merge another thread…").click();
    const dialog = page.getByRole("dialog", { name: "Merge another thread" });
    const start = button(dialog, "Draft handoff");
    check(await start.isDisabled(), "a thread has to be chosen");
    await dialog.getByRole("radio", { name: /The teapot/ }).waitFor();
    // The child and its parent are not offered.
    for (const id of [child, parent]) equal(await dialog.locator(`input[value="${id}"]`).count(), 0);
    await dialog.getByRole("searchbox", { name: "Thread to merge" }).fill("teapot");
    await dialog.getByRole("radio", { name: /The teapot/ }).check();
    await start.click();
    await page.waitForURL(/#\/handoffs\//);
    const merged = page.url().split("#/handoffs/")[1];
    await page.getByText(/Accepting adds this summary to Kettle, next part/).waitFor();
    const before = await loadHandoff(merged);
    equal([before.handoff.parent_thread_id, before.handoff.into], [other, child]);
    await button(page, "Accept").click();
    await page.waitForURL((url) => url.hash === `#/threads/${child}`);
    await page.getByText(/Continues .* and .* by handoff/).waitFor();
    await page.getByRole("main").getByRole("link", { name: "The teapot" }).waitFor();
    const summaries = page.getByRole("heading", { level: 2, name: "Kettle, next part" });
    // The packages load after the thread.
    await summaries.nth(1).waitFor();
    equal(await summaries.count(), 2);
    const { packages } = await ask("GET", `/api/threads/${child}/packages`);
    equal(
      packages.map(({ parent_thread_id }) => parent_thread_id),
      [parent, other],
    );
    equal(packages[1].summary_sha256, before.pending.proposal.summary_sha256);
    await runTurn(child, "Go on with both.");
    await button(page, "Merge another thread…").waitFor({ state: "detached" });
  },

  async "a thread is handed off into an earlier child, which may get its first message meanwhile"() {
    const [parent, other] = [await createThread(), await createThread()];
    const child = await acceptHandoff(parent, "An earlier child");
    const page = await open(`#/threads/${other}`);
    await page.getByText("Heard.").waitFor();
    await page.keyboard.press("h");
    const dialog = page.getByRole("dialog", { name: "Hand off this thread" });
    await dialog.getByRole("combobox", { name: "Continue in" }).selectOption(child);
    await button(dialog, "Draft handoff").click();
    await page.waitForURL(/#\/handoffs\//);
    await page.getByText(/Accepting adds this summary to An earlier child/).waitFor();
    await runTurn(child, "I begin already.");
    await button(page, "Accept").click();
    await page
      .getByRole("alert")
      .getByText(/it has messages already/)
      .waitFor();
    const { handoff } = await loadHandoff(page.url().split("#/handoffs/")[1]);
    equal([handoff.outcome, handoff.child_thread_id], ["pending", null]);
  },

  async "calls that wait for approval are listed, and the choice about them is carried out"() {
    const parent = await createThread();
    await runTurn(parent, "Please [run it]");
    const { handoff } = await requestHandoff(parent);
    const page = await openReview(handoff.handoff_id);
    const decision = page.getByRole("region", { name: "Decision" });
    await decision.getByText("1 call waits for approval:").waitFor();
    await decision
      .getByRole("listitem")
      .getByText(/printf/)
      .waitFor();
    await decision.getByRole("combobox", { name: /waits for approval/ }).selectOption("cancel");
    await button(page, "Accept").click();
    await page.waitForURL(/#\/threads\//);
    // The list of threads shows the decision without a reload.
    await page.locator(`#threads a[href="#/handoffs/${handoff.handoff_id}"]`).waitFor({ state: "detached" });
    equal((await ask("GET", `/api/threads/${parent}`)).interrupts, []);
    const child = page.url().split("#/threads/")[1];
    equal((await ask("GET", `/api/threads/${child}`)).interrupts, []);
  },

  async "a line that later work contradicts is announced, and updated in the child"() {
    const parent = await createThread("Please mend the kettle. [look around]");
    const child = await acceptHandoff(parent);
    await runTurn(child, "[finish it]");
    const page = await open(`#/threads/${child}`);
    await button(page, /Summary.*1 line outdated/).click();
    await button(page, "Update: [ ] Mend the spout (in progress)").click();
    await page.getByText("1 line outdated").waitFor({ state: "detached" });
    const { packages } = await ask("GET", `/api/threads/${child}/packages`);
    check(packages[0].package_md.includes("- [x] Mend the spout"), packages[0].package_md);
  },

  async "the lineage shows and links parents, children and forks"() {
    const parent = await createThread();
    const { handoff, proposal } = await requestHandoff(parent);
    const decision = { decisions: [{ type: "approve", summary_sha256: proposal.summary_sha256 }] };
    const { child_thread_id: child } = await ask(
      "POST",
      `/api/handoffs/${handoff.handoff_id}/decision`,
      decision,
    );
    await runTurn(child, "Go on with it.");
    const fork = await ask("POST", `/api/threads/${child}/fork`, {});
    const page = await open(`#/threads/${child}/lineage`);
    const tree = page.getByRole("tree");
    await tree.waitFor();
    equal(await tree.getByRole("treeitem").count(), 3);
    await tree.getByRole("treeitem").nth(2).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${fork.thread_id}`));
  },

  async "a chain of fifty is folded, expands and is navigable by keyboard; it fits a phone"() {
    const chain = [await createThread()];
    while (chain.length < 50)
      chain.push((await ask("POST", `/api/threads/${chain.at(-1)}/fork`, {})).thread_id);
    const page = await open(`#/threads/${chain[25]}/lineage`, { size: PHONE });
    const items = page.getByRole("treeitem");
    await items.first().waitFor();
    check((await items.count()) < 20, "its middle is folded");
    await checkNoOverflow(page);
    const folded = page.getByRole("treeitem", { expanded: false });
    while ((await folded.count()) > 0) {
      await folded.first().focus();
      await page.keyboard.press("Enter");
    }
    await waitUntil(async () => (await items.count()) === 50, "every one of them");
    await checkRowNavigation(page, 50);
    await checkNoOverflow(page);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${chain.at(-1)}`));
  },

  async "a thread with thirteen forks is navigable by keyboard; it fits a phone"() {
    const hub = await createThread();
    for (let made = 0; made < 13; made++) await ask("POST", `/api/threads/${hub}/fork`, {});
    const page = await open(`#/threads/${hub}/lineage`, { size: PHONE });
    await page.getByRole("treeitem").first().waitFor();
    equal(await page.getByRole("treeitem").count(), 14);
    await checkRowNavigation(page, 14);
    await checkNoOverflow(page);
  },
});

/** Moves from the first row of the tree to the last, which must take as many steps as there are rows. */
async function checkRowNavigation(page, rows) {
  const focusedRow = () => page.evaluate(() => document.activeElement?.getAttribute("data-row"));
  await page.locator('[role="treeitem"][tabindex="0"]').focus();
  await page.keyboard.press("Home");
  for (let at = 0; at < rows; at++) {
    await waitUntil(async () => (await focusedRow()) === String(at), `row ${at} has the focus`);
    const box = await page.locator(":focus").boundingBox();
    check(box && box.y >= 0 && box.y < PHONE.height && box.x >= 0 && box.x + box.width <= PHONE.width, {
      at,
      box,
    });
    await page.keyboard.press("ArrowDown");
  }
  equal(await focusedRow(), String(rows - 1));
}

/** Fails if anything scrolls sideways. */
async function checkNoOverflow(page) {
  const wide = await page.evaluate(() =>
    [...document.querySelectorAll("html, main, main *")]
      .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "hidden")
      .filter((one) => one.localName === "html" || /auto|scroll/.test(getComputedStyle(one).overflowX))
      .map((one) => `${one.localName}.${one.className}: ${one.scrollWidth} in ${one.clientWidth}`),
  );
  equal(wide, []);
}
