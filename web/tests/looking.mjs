// Search, memory, traces and the model's context.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  ask,
  check,
  equal,
  importSession,
  open,
  openGate,
  PHONE,
  run,
  runTurn,
  thread,
  waitUntil,
} from "./suite.mjs";

const file = join(process.env.SEGUE_HOME, "agents/agent/agent.md");

run({
  async "a search finds a message and links to its position"() {
    const id = await thread();
    await runTurn(id, "The lighthouse keeper sails on Tuesdays.");
    const page = await open();
    await page.keyboard.press("/");
    await page.getByRole("searchbox", { name: "Search everything" }).fill("lighthouse keeper");
    const hit = page
      .getByRole("main")
      .getByRole("link", { name: /#\d+.*lighthouse/is })
      .first();
    await hit.waitFor();
    check(
      (await page.locator("mark").allInnerTexts()).some((text) => /lighthouse/i.test(text)),
      "the words are marked",
    );
    await hit.click();
    await page.waitForURL((url) => url.hash.startsWith(`#/threads/${id}?at=`));
    await page.getByRole("log").getByText("The lighthouse keeper sails on Tuesdays.").waitFor();
    await page.goBack();
    equal(await page.getByRole("searchbox", { name: "Search everything" }).inputValue(), "lighthouse keeper");
    await page.getByRole("searchbox", { name: "Search everything" }).fill("zyzzyva");
    await page
      .getByText(/no matches/i)
      .first()
      .waitFor();
  },

  async "f4 agent.md is edited around the managed section, and conflicting edits lose nothing"() {
    const parent = await thread();
    await runTurn(parent, "Mend the kettle.");
    const { handoff } = await ask("POST", `/api/threads/${parent}/handoffs`, {});
    // An accepted handoff is in agent.md until the child's first turn.
    await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, { decisions: [{ type: "approve" }] });
    await ask("POST", "/api/memory/remember", { text: "We never raise timeouts." });
    const page = await open("#/memory");
    const field = page.getByRole("textbox", { name: /^Notes( before|$)/ });
    await waitUntil(
      async () => (await field.inputValue()).includes("We never raise timeouts."),
      "what was remembered",
    );
    await page.getByRole("group", { name: "Managed by Segue" }).waitFor();
    await field.fill(`${await field.inputValue()}\nKettles are blue.`);
    await page.keyboard.press("Control+s");
    await waitUntil(() => readFileSync(file, "utf8").includes("Kettles are blue."), "it is saved");
    check(readFileSync(file, "utf8").includes("<current_thread_summary>"), "the part Segue keeps is there");
    const change = (text, colour) => text.replace("Kettles are blue.", `Kettles are ${colour}.`);
    await field.fill(change(await field.inputValue(), "green"));
    writeFileSync(file, change(readFileSync(file, "utf8"), "red"));
    await page.keyboard.press("Control+s");
    await page
      .getByRole("alert")
      .getByText(/Kettles are red/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Keep mine" }).click();
    check((await field.inputValue()).includes("Kettles are green."), "what was typed is there");
  },

  async "a sentence is added to agent.md"() {
    const page = await open("#/memory");
    await page.getByRole("textbox", { name: "Remember a sentence" }).fill("Teapots are red.");
    await page.keyboard.press("Enter");
    await waitUntil(() => readFileSync(file, "utf8").includes("Teapots are red."), "it is in agent.md");
  },

  async "a run is shown as a waterfall, with tokens and durations"() {
    const id = await thread();
    await runTurn(id, "Please [look around]");
    const [last] = await ask("GET", `/threads/${id}/runs?limit=1`);
    const page = await open(`#/threads/${id}/runs/${last.run_id}`);
    const table = page.getByRole("table", { name: "Run spans" });
    for (const name of [/ls/, /write_todos/]) await table.getByRole("button", { name }).first().waitFor();
    const rows = await table.getByRole("row").allInnerTexts();
    check(
      rows.some((text) => /\d+(\.\d)? (ms|s)/.test(text)),
      rows,
    );
    await table.getByRole("button", { name: /ls/ }).first().click();
    await table.getByText('"path"').first().waitFor();
  },

  async "an active run is shown until its end"() {
    const id = await thread();
    const { run_id } = await ask("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      input: { messages: [{ role: "user", content: "Trace me [held trace]" }] },
    });
    const page = await open(`#/threads/${id}/runs/${run_id}`);
    const state = page.getByLabel("Run totals").getByRole("status");
    await state.getByText("running", { exact: true }).waitFor();
    await openGate("trace");
    await state.getByText("success", { exact: true }).waitFor();
    const table = page.getByRole("table", { name: "Run spans" });
    check((await table.innerText()).includes("Traced."), await table.innerText());
  },

  async "the fill of the window is on the button of the header"() {
    const id = await importSession("fill.jsonl", 4, (at) => `Message ${at}`);
    for (const size of [undefined, PHONE]) {
      const page = await open(`#/threads/${id}`, { size });
      const offer = page.getByRole("button", { name: /^Hand off \d+% of the context window$/ });
      await offer.waitFor();
      check(
        /^Context: .* of .* tokens$/.test(await offer.getAttribute("title")),
        await offer.getAttribute("title"),
      );
      check(await offer.evaluate((one) => one.getBoundingClientRect().right <= innerWidth), "it fits");
    }
  },

  async "the context is shown part by part"() {
    const id = await thread();
    await runTurn(id, "Hello");
    const page = await open(`#/threads/${id}`);
    await page.getByRole("button", { name: "Thread actions" }).click();
    await page.getByRole("menuitem", { name: "Model context…" }).click();
    await page
      .getByRole("dialog", { name: "Model context" })
      .getByText(/instructions/i)
      .first()
      .waitFor();
  },
});
