// The JavaScript SDK, unmodified, in the versions that known applications pin.

import { check, human, openGate, run, same, server, textOf } from "./suite.mjs";

const { Client } = await import(server.sdk);
const client = new Client({ apiUrl: server.url, apiKey: server.key });

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function newThread() {
  return (await client.threads.create()).thread_id;
}

async function refused(work, status) {
  try {
    await work;
  } catch (error) {
    check(error.status === status || String(error.message).includes(String(status)), `a different error: ${error.message}`);
    return;
  }
  throw new Error("it was not refused");
}

const texts = (values) => values.messages.map(textOf);

await run({
  async finds_assistants() {
    const found = await client.assistants.search({ graphId: "agent", limit: 100, offset: 0 });
    const system = found.find((one) => one.metadata.created_by === "system");
    check(system?.graph_id === "agent", found);
    same((await client.assistants.get(system.assistant_id)).name, "agent");
    check((await client.assistants.getGraph(system.assistant_id)).nodes.length > 2, "no graph");
  },

  async creates_searches_and_deletes_threads() {
    const threadId = crypto.randomUUID();
    const thread = await client.threads.create({ threadId, metadata: { label: threadId } });
    same([thread.thread_id, thread.status], [threadId, "idle"]);
    await refused(client.threads.create({ threadId }), 409);
    await client.threads.create({ threadId, ifExists: "do_nothing" });
    await client.threads.update(threadId, { metadata: { title: "A title" } });
    const found = await client.threads.search({ metadata: { label: threadId }, limit: 10, sortBy: "updated_at", sortOrder: "desc" });
    same(found.map((item) => [item.thread_id, item.metadata.title]), [[threadId, "A title"]]);
    const copy = await client.threads.copy(threadId);
    check(copy.thread_id !== threadId, "the copy is the thread");
    await client.threads.delete(threadId);
    await refused(client.threads.get(threadId), 404);
  },

  async streams_a_run() {
    const threadId = await newThread();
    let created;
    const parts = await collect(
      client.runs.stream(threadId, "agent", {
        input: human("[hello]", { id: "ask" }),
        streamMode: ["values", "messages-tuple", "updates", "custom"],
        streamResumable: true,
        onRunCreated: (run) => (created = run),
      }),
    );
    same(parts[0].event, "metadata");
    same([created.run_id, created.thread_id], [parts[0].data.run_id, threadId]);
    const values = parts.filter((part) => part.event === "values").at(-1).data;
    same(texts(values), ["[hello]", "Hello there."]);
    const chunks = parts.filter((part) => part.event === "messages").map((part) => part.data[0]);
    same(chunks.map(textOf).join(""), "Hello there.");
    check(chunks.every((chunk) => chunk.id === values.messages[1].id), "a chunk has another id");
    same((await client.runs.get(threadId, created.run_id)).status, "success");
  },

  async waits_lists_and_joins() {
    const threadId = await newThread();
    const values = await client.runs.wait(threadId, "agent", { input: human("[hello]") });
    same(texts(values), ["[hello]", "Hello there."]);
    const started = await client.runs.create(threadId, "agent", { input: human("[again]") });
    same(texts(await client.runs.join(threadId, started.run_id)).at(-1), "Answered once more.");
    same((await client.runs.list(threadId)).map((run) => run.status), ["success", "success"]);
    const failure = await client.runs.wait(threadId, "agent", { input: human("[fail]"), raiseError: false });
    check(failure.__error__?.message, failure);
  },

  async asks_and_accepts_decisions() {
    const threadId = await newThread();
    const interrupted = await client.runs.wait(threadId, "agent", { input: human("[tool]") });
    same(interrupted.__interrupt__[0].value.action_requests[0].name, "execute");
    const thread = await client.threads.get(threadId);
    same(thread.status, "interrupted");
    const state = await client.threads.getState(threadId);
    same(state.tasks.at(-1).interrupts, interrupted.__interrupt__);
    const values = await client.runs.wait(threadId, "agent", { command: { resume: { decisions: [{ type: "approve" }] } } });
    same(texts(values).at(-1), "The tool has answered.");
  },

  async forks_at_a_checkpoint() {
    const threadId = await newThread();
    await client.runs.wait(threadId, "agent", { input: human("[hello]", { id: "ask" }) });
    const history = await client.threads.getHistory(threadId, { limit: 10 });
    const first = history.findLast((state) => state.values.messages?.some((message) => message.id === "ask"));
    const checkpoint = first.parent_checkpoint;
    const values = await client.runs.wait(threadId, "agent", { input: human("[edited]"), checkpoint });
    same(texts(values), ["[edited]", "An answer to the edited question."]);
    const all = await client.threads.getHistory(threadId, { limit: 100 });
    check(history.every((old) => all.some((state) => state.checkpoint.checkpoint_id === old.checkpoint.checkpoint_id)), "a branch is lost");
    await client.threads.updateState(threadId, { values: human("noted"), asNode: "__start__" });
    same(textOf((await client.threads.getState(threadId)).values.messages.at(-1)), "noted");
  },

  async resumes_a_stream() {
    const threadId = await newThread();
    const started = await client.runs.create(threadId, "agent", { input: human("[hello]"), streamMode: ["messages-tuple"], streamResumable: true });
    await client.runs.join(threadId, started.run_id);
    const whole = await collect(client.runs.joinStream(threadId, started.run_id, { lastEventId: "-1" }));
    same(whole[0].event, "metadata");
    const rest = await collect(client.runs.joinStream(threadId, started.run_id, { lastEventId: whole[1].id }));
    same(rest.map((part) => part.id), whole.slice(2).map((part) => part.id));
  },

  async cancels_runs() {
    const threadId = await newThread();
    const started = await client.runs.create(threadId, "agent", { input: human("[held]") });
    await refused(client.runs.create(threadId, "agent", { input: human("x"), multitaskStrategy: "reject" }), 409);
    await client.runs.cancel(threadId, started.run_id, true);
    same((await client.runs.get(threadId, started.run_id)).status, "interrupted");
    const abortController = new AbortController();
    const stream = client.runs.stream(threadId, "agent", { input: human("[slow]"), onDisconnect: "continue", signal: abortController.signal });
    for await (const part of stream) if (part.event === "metadata") break;
    await openGate("slow");
    const [newest] = await client.runs.list(threadId, { limit: 1 });
    await client.runs.join(threadId, newest.run_id);
    same((await client.runs.get(threadId, newest.run_id)).status, "success");
  },

  async stores_items() {
    const namespace = [crypto.randomUUID(), "notes"];
    await client.store.putItem(namespace, "kettle", { metal: "brass" });
    same((await client.store.getItem(namespace, "kettle")).value, { metal: "brass" });
    same((await client.store.searchItems(namespace, { filter: { metal: "brass" } })).items.length, 1);
    same((await client.store.listNamespaces({ prefix: [namespace[0]] })).namespaces, [namespace]);
    await client.store.deleteItem(namespace, "kettle");
    same((await client.store.searchItems(namespace)).items, []);
  },

  async runs_without_a_thread() {
    same(texts(await client.runs.wait(null, "agent", { input: human("[hello]") })).at(-1), "Hello there.");
  },
});
