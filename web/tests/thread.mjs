// Conversations: streaming, tools, sub-agents, questions and stopping. The page is the same after a reload,
// during a turn and after a lost connection.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  ask,
  check,
  importSession,
  open,
  openGate,
  run,
  equal,
  server,
  thread,
  runTurn,
  waitUntil,
} from "./suite.mjs";

const log = (page) => page.getByRole("log", { name: "Conversation" });
const message = (page) => page.getByRole("textbox", { name: "Message" });

async function sendMessage(page, text) {
  await message(page).fill(text);
  await message(page).press("Enter");
}

/** Returns the structure and the text of the conversation without times. */
async function conversationStructure(page) {
  const shown = await log(page).evaluate((log) => {
    const copy = log.cloneNode(true);
    for (const time of copy.querySelectorAll("time")) time.textContent = "";
    const walk = (node) =>
      node.nodeType === 3
        ? node.textContent.trim()
        : node.nodeType === 1
          ? [
              node.localName,
              node.getAttribute("role"),
              node.getAttribute("aria-label"),
              ...[...node.childNodes].map(walk).filter((one) => one !== ""),
            ]
          : "";
    return [...copy.querySelectorAll("article, .marker, .call")].map(walk);
  });
  check(shown.length > 0 && shown.flat(9).some((one) => one), "something is drawn");
  return JSON.stringify(shown);
}

/** Waits until no run is active. */
const waitUntilIdle = (id) =>
  waitUntil(async () => (await ask("GET", `/api/threads/${id}`)).state !== "running", "the run's end");

/** Starts a proxy to the server whose connections can be cut. */
async function startProxy() {
  const { hostname, port } = new URL(server.url);
  const sockets = new Set();
  let isCut = false;
  const listener = createServer((client) => {
    if (isCut) return client.destroy();
    const upstream = connect(Number(port), hostname);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(from);
      from.on("data", (data) => to.write(data));
      from.on("close", () => (to.destroy(), sockets.delete(from)));
      from.on("error", () => to.destroy());
    }
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.destroy();
    },
    restore() {
      isCut = false;
    },
    close: () => listener.close(),
  };
}

/** Creates a thread with a pending call in a folder that has been deleted. */
function createThreadInMissingFolder() {
  const folder = mkdtempSync(join(tmpdir(), "segue-gone-"));
  const { status, stdout, stderr } = spawnSync(process.env.SEGUE, ["run", "-p", "Please [run it]"], {
    cwd: folder,
    encoding: "utf8",
  });
  rmSync(folder, { recursive: true });
  // Exit status 3: a decision is pending.
  check(status === 3, { status, stdout, stderr });
  const shown = spawnSync(process.env.SEGUE, ["threads", "show", "last", "--json"], { encoding: "utf8" });
  return JSON.parse(shown.stdout).thread_id;
}

/** Starts a second server on the same journal, without a model. */
async function serverWithoutModel() {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC|OPENAI)_|_MODEL$/.test(name)),
  );
  const child = spawn(process.env.SEGUE, ["serve", "--addr", "127.0.0.1:0", "--json"], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const { value } = await lines[Symbol.asyncIterator]().next();
  return { base: JSON.parse(value).url, stop: () => child.kill() };
}

run({
  async "a first message creates a thread, and the answer is rendered as Markdown"() {
    const page = await open("#/");
    await page.getByRole("textbox", { name: "First message" }).fill("What is it? [markdown]");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/threads\//);
    await log(page).getByRole("heading", { name: "Findings" }).waitFor();
    await log(page).getByRole("cell", { name: "the clock is passed in" }).waitFor();
    await log(page).getByRole("link", { name: "the documentation" }).waitFor();
    await log(page).getByText("pub fn retry").waitFor();
    const link = await log(page).getByRole("link", { name: "the documentation" }).getAttribute("rel");
    check(link.includes("noopener") && link.includes("noreferrer"), link);
  },

  async "i7 after a reload during a turn, the prompt, the reasoning and the answer are shown once each"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Mend it [held]");
    await log(page).getByText("then the rest").waitFor();
    const before = await log(page).innerText();
    await page.reload();
    await log(page).getByText("then the rest").waitFor();
    const text = await log(page).innerText();
    check(
      text.indexOf("Mend it [held]") < text.indexOf("Reasoning") &&
        text.indexOf("Reasoning") < text.indexOf("First the lid"),
      { before, text },
    );
    for (const once of ["Mend it [held]", "First the lid"]) equal(text.split(once).length, 2);
    await page.getByRole("button", { name: "Stop the run" }).waitFor();
    await openGate("held");
    await waitUntilIdle(id);
    await page.getByRole("button", { name: "Stop the run" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Good answer" }).waitFor();
    const live = await conversationStructure(page);
    await page.reload();
    await page.getByRole("button", { name: "Good answer" }).waitFor();
    equal(await conversationStructure(page), live);
  },

  async "i7 a connection lost during a turn is reported and restored; nothing is missing or duplicated"() {
    const id = await thread();
    const proxy = await startProxy();
    const page = await open(`#/threads/${id}`, { base: proxy.url });
    await sendMessage(page, "Mend it [held again]");
    await log(page).getByText("then the rest").waitFor();
    proxy.cut();
    await page.getByText("Connection lost").waitFor();
    await openGate("held-again");
    await waitUntilIdle(id);
    await ask("POST", `/threads/${id}/runs/wait`, {
      assistant_id: "agent",
      input: { messages: [{ role: "user", content: "And then? [markdown]" }] },
    });
    proxy.restore();
    await page.getByText("Connection lost").waitFor({ state: "detached" });
    await log(page).getByRole("heading", { name: "Findings" }).waitFor();
    await waitUntil(
      async () => (await page.getByRole("button", { name: "Good answer" }).count()) === 2,
      "both answers can be rated",
    );
    const live = await conversationStructure(page);
    await page.reload();
    await waitUntil(
      async () => (await page.getByRole("button", { name: "Good answer" }).count()) === 2,
      "both answers can be rated",
    );
    equal(await conversationStructure(page), live);
    proxy.close();
  },

  async "each tool call is one line that expands, and the tasks are shown"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [look around]");
    await log(page).getByText("There is a").waitFor();
    const ls = log(page).getByRole("button", { name: /ls/ }).first();
    equal(await ls.getAttribute("aria-expanded"), "false");
    await ls.focus();
    await page.keyboard.press("Enter");
    equal(await ls.getAttribute("aria-expanded"), "true");
    await page.getByRole("region", { name: "Tasks" }).getByText("Mend the spout").waitFor();
  },

  async "a message and a text are pinned, listed with their size and unpinned"() {
    const id = await importSession("pins.jsonl", 4, (at) => `The kettle says ${at}.`);
    const page = await open(`#/threads/${id}`);
    const pins = page.getByRole("region", { name: "Pins" });
    const question = log(page).getByRole("article", { name: "You" }).first();
    await question.getByRole("button", { name: /^Actions for message/ }).click();
    await page.getByRole("menuitem", { name: "Pin", exact: true }).click();
    await pins.getByText(/^1 pin, \d+ tokens of every request$/).waitFor();
    await sendMessage(page, "/pin Never boil it dry.");
    await pins.getByText(/^2 pins, /).waitFor();
    equal(await message(page).inputValue(), "");
    await pins.getByRole("button", { name: /^2 pins/ }).click();
    equal(await pins.getByRole("listitem").locator("p").allTextContents(), [
      "The kettle says 0.",
      "Never boil it dry.",
    ]);
    await log(page).getByText("Pin 2 added: “Never boil it dry.”").waitFor();
    // Another client unpins a text.
    await ask("DELETE", `/api/threads/${id}/pins/2`);
    await pins.getByText(/^1 pin, /).waitFor();
    await page.reload();
    await pins.getByRole("button", { name: /^1 pin/ }).click();
    await question.getByRole("button", { name: /^Actions for message/ }).click();
    await page.getByRole("menuitem", { name: "Unpin" }).waitFor();
    await page.keyboard.press("Escape");
    await pins.getByRole("button", { name: "Unpin pin 1" }).click();
    await pins.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await pins.getByText(/^1 pin, /).waitFor();
    equal((await ask("GET", `/api/threads/${id}/pins`)).pins[0].text, "The kettle says 0.");
  },

  async "a command is shown for approval and runs after it"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [run it]");
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByText("printf 'one").first().waitFor();
    await page.getByRole("listitem").filter({ hasText: "[run it]" }).getByText("needs you").waitFor();
    await question.getByRole("button", { name: /^Approve/ }).click();
    await log(page).getByText("It ran.").waitFor();
    await question.waitFor({ state: "detached" });
  },

  async "a call shows its folder; if that is missing, the call can be rejected or moved but not approved"() {
    const id = await thread();
    const page = await open("#/");
    // The server reports a missing folder until the thread is moved.
    let isMoved = false;
    let interruptId;
    await page.route(`**/api/threads/${id}`, async (route) => {
      const response = await route.fetch();
      const detail = await response.json();
      const path = isMoved ? "/here/kettle" : "/gone/kettle";
      interruptId = detail.interrupts[0]?.id;
      for (const { value } of detail.interrupts) value.workspace = path;
      detail.workspace = { path, exists: isMoved, server_path: "/here/kettle" };
      await route.fulfill({ response, json: detail });
    });
    await page.route(`**/api/threads/${id}/rehome`, (route) => {
      equal(route.request().method(), "POST");
      equal(route.request().postDataJSON(), { interrupt_id: interruptId });
      isMoved = true;
      return route.fulfill({ json: { thread_id: id, run_id: id, workspace: "/here/kettle" } });
    });
    await runTurn(id, "Please [run it]");
    await page.goto(`${server.url}/#/threads/${id}`);
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByText("/gone/kettle").waitFor();
    await question.getByRole("button", { name: /^Reject/ }).waitFor();
    equal(await question.getByRole("button", { name: /^(Approve|Edit)/ }).count(), 0);
    await question.getByRole("note").getByText("/here/kettle").waitFor();
    await question.getByRole("button", { name: "Continue here" }).click();
    await question.getByRole("note").waitFor({ state: "detached" });
    await question.getByText("Runs in").waitFor();
    await question.getByRole("button", { name: /^Approve/ }).click();
    await log(page).getByText("It ran.").waitFor();
    // A request may be in progress when the page is closed.
    await page.unrouteAll({ behavior: "ignoreErrors" });
  },

  async "if the folder of a call is missing, the call is requested again in the server's folder"() {
    for (const answer of ["Approve", "Reject"]) {
      const id = createThreadInMissingFolder();
      const page = await open(`#/threads/${id}`);
      const question = page.getByRole("region", { name: "Waiting for you" });
      await question.getByRole("note").waitFor();
      await question.getByRole("button", { name: "Continue here" }).click();
      await question.getByRole("note").waitFor({ state: "detached" });
      await question.getByText(`Runs in ${process.cwd()}`).waitFor();
      await question.getByRole("button", { name: new RegExp(`^${answer}`) }).click();
      if (answer === "Reject")
        await question
          .getByRole("button", { name: /^Reject/ })
          .last()
          .click();
      await log(page).getByText("It ran.").waitFor();
      await question.waitFor({ state: "detached" });
    }
  },

  async "the child of a session from another machine uses the server's folder"() {
    const example = readFileSync(new URL("../../examples/flaky-test.jsonl", import.meta.url), "utf8");
    for (const answer of ["Approve", "Reject"]) {
      const { threads } = await ask("POST", `/api/import?name=${answer}.jsonl`, example);
      const { handoff, proposal } = await ask("POST", `/api/threads/${threads[0].thread_id}/handoffs`, {});
      const decisions = [{ type: "approve", summary_sha256: proposal.summary_sha256 }];
      const { child_thread_id: child } = await ask("POST", `/api/handoffs/${handoff.handoff_id}/decision`, {
        decisions,
      });
      const page = await open(`#/threads/${child}`);
      await sendMessage(page, "Please [run it]");
      const question = page.getByRole("region", { name: "Waiting for you" });
      await question.getByText(`Runs in ${process.cwd()}`).waitFor();
      await question.getByRole("button", { name: new RegExp(`^${answer}`) }).click();
      if (answer === "Reject")
        await question
          .getByRole("button", { name: /^Reject/ })
          .last()
          .click();
      await log(page).getByText("It ran.").waitFor();
    }
  },

  async "a file change is shown as a diff, and a rejection reaches the model"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [write it]");
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByText("lid.txt").first().waitFor();
    await question.getByText("two").first().waitFor();
    await question
      .getByRole("button", { name: /^Reject/ })
      .first()
      .click();
    await question.getByRole("textbox").first().fill("not now");
    await question
      .getByRole("button", { name: /^Reject/ })
      .last()
      .click();
    await log(page).getByText("It is written.").waitFor();
    const history = await ask("GET", `/api/threads/${id}/history`);
    check(JSON.stringify(history.entries).includes("not now"), history.entries);
  },

  async "k8 hidden characters in a command are visible, and two calls get one decision each"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [two of them]");
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByText("U+202E").first().waitFor();
    check(!(await question.innerText()).includes("\u202e"), "nothing is turned around");
    const actions = question.getByRole("group", { name: "Answers" });
    equal(await actions.count(), 2);
    await actions
      .nth(0)
      .getByRole("button", { name: /^Approve/ })
      .click();
    await actions
      .nth(1)
      .getByRole("button", { name: /^Reject/ })
      .click();
    await question
      .getByRole("button", { name: /^Reject/ })
      .last()
      .click();
    await question.getByRole("button", { name: "Send 2 decisions" }).click();
    await log(page).getByText("Both were answered.").waitFor();
  },

  async "a call runs with edited arguments"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [run it]");
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByRole("button", { name: /^Edit/ }).click();
    await question.getByRole("textbox", { name: "command" }).fill("printf changed-by-hand");
    await question.getByRole("button", { name: "Approve with these arguments" }).click();
    await log(page).getByText("It ran.").waitFor();
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const result = JSON.stringify(entries.filter(({ type }) => type === "tool"));
    check(result.includes("changed-by-hand") && !result.includes("two"), result);
  },

  async "an answer replaces a call, which does not run"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [run it]");
    const question = page.getByRole("region", { name: "Waiting for you" });
    await question.getByRole("button", { name: /^Answer instead/ }).click();
    const sendButton = question.getByRole("button", { name: "Send answer" });
    check(await sendButton.isDisabled(), "there is nothing to give yet");
    await question.getByRole("textbox", { name: /Result for the agent/ }).fill("I ran it: all is well");
    await sendButton.click();
    await log(page).getByText("It ran.").waitFor();
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const result = JSON.stringify(entries.filter(({ type }) => type === "tool"));
    check(result.includes("I ran it: all is well") && !result.includes("two"), result);
  },

  async "several calls are approved at once"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [two of them]");
    await page
      .getByRole("region", { name: "Waiting for you" })
      .getByRole("button", { name: "Approve all" })
      .click();
    await log(page).getByText("Both were answered.").waitFor();
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const results = entries.filter(({ type }) => type === "tool");
    equal(results.length, 2);
    const first = results.find(({ call_id }) => call_id === "two1");
    check(JSON.stringify(first).includes("first"), results);
  },

  async "the activity of a sub-agent is shown under its call, also after a reload"() {
    const id = await thread();
    await runTurn(id, "Please [hand it on]");
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("The spout was looked at.").waitFor();
    await log(page)
      .getByRole("button", { name: /Look at the spout/ })
      .first()
      .click();
    await log(page)
      .getByRole("group", { name: "Sub-agent activity" })
      .getByText("The sub-agent saw a spout.")
      .first()
      .waitFor();
  },

  async "a stopped answer is kept and marked as cut off"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Mend it [held for good]");
    await log(page).getByText("then the rest").waitFor();
    await page.getByRole("button", { name: "Stop the run" }).click();
    await log(page)
      .getByText(/cut off/)
      .waitFor();
    await page.reload();
    await log(page)
      .getByText(/cut off/)
      .waitFor();
    check((await log(page).innerText()).includes("First the lid"), "the first part of the answer is missing");
  },

  async "a stopped run needs no answer in the list, on the home page or in its thread"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Mend it [looks and is held]");
    await log(page).getByText("then the rest").waitFor();
    await page.getByRole("button", { name: "Stop the run" }).click();
    await page.getByRole("main").getByText("Stopped", { exact: true }).first().waitFor();
    const row = page.getByRole("listitem").filter({ hasText: "[looks and is held]" });
    await row.getByText("stopped").waitFor();
    equal(await row.getByText("needs you").count(), 0);
    const { threads } = await ask("GET", "/api/threads?state=needs_you&limit=200");
    check(!threads.some(({ thread_id }) => thread_id === id), threads);
    equal((await ask("GET", `/threads/${id}`)).status, "interrupted");
    await page.getByRole("link", { name: /Segue/ }).first().click();
    const newest = page.getByRole("region", { name: "Recent threads" });
    await newest
      .getByRole("link", { name: /looks and is held/ })
      .getByText("stopped")
      .waitFor();
    equal(await page.getByRole("link", { name: /looks and is held.*Needs an answer/ }).count(), 0);
  },

  async "a failed turn shows its reason and can be retried; an unsent message is kept"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    await sendMessage(page, "Please [fail]");
    await page
      .getByText(/no such thing/)
      .first()
      .waitFor();
    const failedRuns = async () =>
      (await ask("GET", `/threads/${id}/runs?limit=10`)).filter(({ status }) => status === "error").length;
    equal(await failedRuns(), 1);
    await page.getByRole("button", { name: "Try again" }).click();
    await waitUntil(async () => (await failedRuns()) === 2, "it was tried again, and failed again");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await page
      .getByText(/no such thing/)
      .first()
      .waitFor();
    await page.route("**/threads/*/runs", (route) => route.abort());
    await sendMessage(page, "Words I want to keep");
    await page.getByText("The message was not sent").first().waitFor();
    equal(await message(page).inputValue(), "Words I want to keep");
    await page.unroute("**/threads/*/runs");
    await message(page).press("Enter");
    await log(page).getByText("Words I want to keep").waitFor();
    await waitUntil(
      async () => (await message(page).inputValue()) === "",
      "what was taken is not there any more",
    );
  },

  async "a failure that arrives before the response to the request stays visible"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    const tryAgain = page.getByRole("button", { name: "Try again" });
    // Each response is held back until the failed run is shown.
    await page.route("**/threads/*/runs", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      const response = await route.fetch();
      await tryAgain.waitFor();
      await route.fulfill({ response });
    });
    const answered = page.waitForResponse((response) => response.request().method() === "POST");
    await sendMessage(page, "Please [fail]");
    await answered;
    await waitUntil(
      async () => (await message(page).inputValue()) === "",
      "the sent message leaves the composer",
    );
    await tryAgain.waitFor();
  },

  async "the response to a sent message does not move the focus"() {
    const id = await thread();
    await runTurn(id, "Please [look around]");
    const page = await open(`#/threads/${id}`);
    const call = log(page).getByRole("button", { name: /ls/ }).first();
    await call.waitFor();
    // The response is held back until the focus is elsewhere.
    let isFocused;
    const focused = new Promise((resolve) => (isFocused = resolve));
    await page.route("**/threads/*/runs", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      const response = await route.fetch();
      await focused;
      await route.fulfill({ response });
    });
    await sendMessage(page, "What is it? [markdown]");
    await call.focus();
    isFocused();
    await waitUntil(
      async () => (await message(page).inputValue()) === "",
      "the sent message leaves the composer",
    );
    check(await call.evaluate((button) => button === document.activeElement), "the focus was moved");
  },

  async "a refused message stays in the composer with the error and a hint"() {
    const id = await thread();
    const page = await open(`#/threads/${id}`);
    const answers = [
      {
        status: 422,
        body: { detail: "The message is too long.", code: "invalid", hint: "Send less of it." },
      },
      { status: 503, body: { detail: "The server is shutting down.", code: "unavailable" } },
      { status: 500, body: null },
    ];
    for (const { status, body } of answers) {
      await page.route("**/threads/*/runs", (route) =>
        route.fulfill({ status, contentType: "application/json", body: JSON.stringify(body) }),
      );
      await sendMessage(page, "Words I want to keep");
      const alert = page.getByRole("alert").filter({ hasText: "The message was not sent" });
      await alert.getByText(body?.detail ?? "The server answered 500.").waitFor();
      await alert.getByText(body?.hint ?? "The message is still here.").waitFor();
      equal(await message(page).inputValue(), "Words I want to keep");
      await page.unroute("**/threads/*/runs");
    }
    await page.reload();
    equal(await message(page).inputValue(), "Words I want to keep");
    await message(page).press("Enter");
    await log(page).getByText("Words I want to keep").waitFor();
    await page.getByRole("alert").waitFor({ state: "detached" });
    // The same holds for the first message of a thread, which is not created then.
    await page.goto(`${server.url}/#/`);
    const first = page.getByRole("textbox", { name: "First message" });
    const before = (await ask("GET", "/api/threads?limit=1")).total;
    await page.route("**/threads/*/runs", (route) =>
      route.fulfill({ status: 422, contentType: "application/json", body: JSON.stringify(answers[0].body) }),
    );
    await first.fill("A beginning I want to keep");
    await first.press("Enter");
    await page.getByRole("alert").getByText("Send less of it.").waitFor();
    equal(await first.inputValue(), "A beginning I want to keep");
    await waitUntil(
      async () => (await ask("GET", "/api/threads?limit=1")).total === before,
      "no empty thread is left",
    );
  },

  async "without a model, a message is in the thread or in the composer, with a hint"() {
    const id = await thread();
    const without = await serverWithoutModel();
    const page = await open(`#/threads/${id}`, without);
    await sendMessage(page, "Words without a model");
    await page
      .getByText(/no model/)
      .first()
      .waitFor();
    await waitUntil(
      async () => (await message(page).getAttribute("readonly")) === null,
      "it was sent or not",
    );
    const { entries } = await ask("GET", `/api/threads/${id}/history`);
    const isStored = JSON.stringify(entries).includes("Words without a model");
    equal(await message(page).inputValue(), isStored ? "" : "Words without a model");
    without.stop();
  },

  async "b8 a long history is loaded on scrolling, in order, and a link jumps to its position"() {
    const textOf = (at) => (at % 2 ? `Answer number ${at}.` : `Question number ${at}?`);
    const id = await importSession("long.jsonl", 400, textOf);
    const page = await open(`#/threads/${id}`);
    await log(page).getByText("Answer number 399.").waitFor();
    const seen = new Set();
    await log(page).hover();
    await waitUntil(async () => {
      for (const number of (await log(page).innerText()).matchAll(/number (\d+)/g))
        seen.add(Number(number[1]));
      await page.mouse.wheel(0, -2_000);
      return seen.has(0);
    }, "the first message");
    equal(seen.size, 400);
    const { entries } = await ask("GET", `/api/threads/${id}/history?after_seq=99&limit=1`);
    await page.goto(`${server.url}/#/threads/${id}?at=${entries[0].seq}`);
    const text = entries[0].content[0].text;
    await waitUntil(
      async () =>
        log(page)
          .getByText(text, { exact: true })
          .first()
          .isVisible()
          .catch(() => false),
      text,
    );
    await page.getByRole("button", { name: /latest|newest/i }).click();
    await log(page).getByText("Answer number 399.").waitFor();
  },

  async "another client's turn is shown live"() {
    const id = await thread();
    const [one, two] = [await open(`#/threads/${id}`), await open(`#/threads/${id}`)];
    await sendMessage(one, "What is it? [markdown]");
    await log(two).getByText("What is it? [markdown]").waitFor();
    await log(two).getByRole("heading", { name: "Findings" }).waitFor();
    await two.getByRole("button", { name: "Good answer" }).waitFor();
    await one.getByRole("button", { name: "Good answer" }).waitFor();
    equal(await conversationStructure(two), await conversationStructure(one));
  },

  async "k3 a nonexistent thread is not found"() {
    const page = await open("#/threads/00000000-0000-7000-8000-000000000000");
    await page.getByRole("heading", { name: "Thread not found" }).waitFor();
  },
});
