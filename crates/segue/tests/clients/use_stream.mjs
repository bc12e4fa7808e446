// React's `useStream`, called as in agent-chat-ui, deep-agents-ui and DeerFlow's frontend, in the SDK versions that these applications pin.

import { check, openGate, run, same, server, textOf } from "./suite.mjs";
import { mount } from "./hooks.mjs";

const { useStream } = await import(`${server.sdk}/react`);
const { Client } = await import(server.sdk);

const texts = (stream) => stream.messages.map(textOf);
const ends = (text) => (stream) => !stream.isLoading && stream.messages.length > 0 && textOf(stream.messages.at(-1)) === text;
const human = (content) => ({ type: "human", id: crypto.randomUUID(), content: [{ type: "text", text: content }] });

function chatUi(more = {}) {
  let threadId = null;
  const view = mount(useStream, {
    apiUrl: server.url,
    apiKey: server.key,
    assistantId: "agent",
    threadId: null,
    fetchStateHistory: true,
    onCustomEvent() {},
    onThreadId(id) {
      threadId = id;
      view.change({ threadId: id });
    },
    ...more,
  });
  return { view, threadId: () => threadId };
}

// Options that agent-chat-ui passes to every submit.
const submitOptions = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };

function submit(view, text, more = {}) {
  return view.now.submit({ messages: [human(text)], context: undefined }, { ...submitOptions, ...more });
}

async function ready(view) {
  await view.until((stream) => !stream.isLoading, "the first render");
}

await run({
  async agent_chat_ui_sends_messages() {
    const { view } = chatUi();
    await ready(view);
    await submit(view, "[hello]");
    await view.until(ends("Hello there."), "the first answer");
    await submit(view, "[again]");
    const stream = await view.until(ends("Answered once more."), "the second answer");
    same(texts(stream), ["[hello]", "Hello there.", "[again]", "Answered once more."]);
    view.unmount();
  },

  async agent_chat_ui_edits_and_regenerates() {
    const { view } = chatUi();
    await ready(view);
    await submit(view, "[hello]");
    await view.until(ends("Hello there."), "the first answer");
    await submit(view, "[again]");
    let stream = await view.until(ends("Answered once more."), "the second answer");
    await view.until((now) => now.getMessagesMetadata(now.messages[2])?.firstSeenState?.parent_checkpoint, "the checkpoint before the message");
    stream = view.now;
    const at = stream.getMessagesMetadata(stream.messages[2]).firstSeenState.parent_checkpoint;
    await stream.submit({ messages: [{ type: "human", content: "[edited]" }] }, { ...submitOptions, checkpoint: at });
    stream = await view.until(ends("An answer to the edited question."), "the answer to the edit");
    same(texts(stream), ["[hello]", "Hello there.", "[edited]", "An answer to the edited question."]);
    stream = await view.until((now) => now.getMessagesMetadata(now.messages[2])?.branchOptions?.length === 2, "two branches");
    const meta = stream.getMessagesMetadata(stream.messages[2]);
    stream.setBranch(meta.branchOptions.find((branch) => branch !== meta.branch));
    stream = await view.until((now) => texts(now).includes("Answered once more."), "the old branch");
    stream.setBranch(meta.branch);
    stream = await view.until((now) => texts(now).includes("An answer to the edited question."), "the new branch");
    const again = stream.getMessagesMetadata(stream.messages[3]).firstSeenState.parent_checkpoint;
    const before = stream.messages[3].id;
    await stream.submit(undefined, { ...submitOptions, checkpoint: again });
    stream = await view.until((now) => ends("An answer to the edited question.")(now) && now.messages[3].id !== before, "another answer");
    same(stream.messages.length, 4);
    view.unmount();
  },

  async agent_chat_ui_answers_questions() {
    const { view } = chatUi();
    await ready(view);
    await submit(view, "[tool]");
    let stream = await view.until((now) => now.interrupt?.value, "the question");
    const { action_requests: [action], review_configs: [config] } = stream.interrupt.value;
    same([action.name, config.action_name], ["execute", "execute"]);
    check(["ai", "tool"].includes(stream.messages.at(-1).type), "the last message is neither an answer nor a tool result");
    same(stream.messages.at(-1).tool_calls[0].name, "execute");
    await view.until((now) => !now.isLoading, "the end of the run");
    await view.now.submit({}, { command: { resume: { decisions: [{ type: "approve" }] } } });
    stream = await view.until(ends("The tool has answered."), "the answer");
    check(!stream.interrupt?.value, stream.interrupt);
    view.unmount();
  },

  async agent_chat_ui_marks_as_resolved() {
    const { view, threadId } = chatUi();
    await ready(view);
    await submit(view, "[tool]");
    await view.until((now) => now.interrupt?.value && !now.isLoading, "the question");
    await view.now.submit({}, { command: { goto: "__end__" } });
    await view.until((now) => !now.isLoading && !now.interrupt, "no question");
    const client = new Client({ apiUrl: server.url, apiKey: server.key });
    same((await client.threads.get(threadId())).status, "idle");
    view.unmount();
  },

  async deep_agents_ui_works() {
    const client = new Client({ apiUrl: server.url, defaultHeaders: { "Content-Type": "application/json", "X-Api-Key": server.key } });
    const [assistant] = await client.assistants.search({ graphId: "agent", limit: 100, offset: 0 });
    const { view, threadId } = chatUi({ client, apiUrl: undefined, apiKey: undefined, assistantId: assistant.assistant_id, reconnectOnMount: true });
    await ready(view);
    await view.now.submit(
      { messages: [{ id: crypto.randomUUID(), type: "human", content: "[todos]" }] },
      { config: { ...assistant.config, recursion_limit: 100 }, streamMode: ["values"] },
    );
    let stream = await view.until(ends("The plan stands."), "the answer");
    same(stream.values.todos[0].content, "Mend the kettle");
    await client.threads.updateState(threadId(), { values: { files: { "a.md": "text" } } });
    await view.now.submit({ messages: [{ id: crypto.randomUUID(), type: "human", content: "[tool]" }] }, { streamMode: ["values"] });
    stream = await view.until((now) => now.interrupt?.value && !now.isLoading, "the question");
    await stream.submit(null, { command: { resume: { decisions: [{ type: "reject", message: "not now" }] } } });
    await view.until(ends("The tool has answered."), "the answer after no");
    const listed = await client.threads.search({ limit: 20, offset: 0, sortBy: "updated_at", sortOrder: "desc", metadata: { assistant_id: assistant.assistant_id } });
    check(listed.some((thread) => thread.thread_id === threadId() && thread.values.messages.length > 0), "the thread is not listed");
    view.unmount();
  },

  async a_page_is_loaded_again_in_the_middle() {
    const first = chatUi({ reconnectOnMount: true });
    await ready(first.view);
    void submit(first.view, "[slow]", { onDisconnect: "continue" }).catch(() => {});
    await first.view.until((now) => now.messages.some((message) => message.type === "ai"), "the beginning of the answer");
    const threadId = first.threadId();
    first.view.unmount();
    const second = chatUi({ reconnectOnMount: true, threadId });
    const client = new Client({ apiUrl: server.url, apiKey: server.key });
    const [running] = await client.runs.list(threadId, { limit: 1 });
    await second.view.until((now) => now.messages.some((message) => message.type === "ai"), "what was said of the answer so far");
    await openGate("slow");
    const stream = await second.view.until(ends("A slow answer."), "the whole answer");
    same(texts(stream), ["[slow]", "A slow answer."]);
    same((await client.runs.get(threadId, running.run_id)).status, "success");
    second.view.unmount();
  },

  async deer_flow_works() {
    const threadId = crypto.randomUUID();
    const client = new Client({ apiUrl: server.url, apiKey: server.key });
    await client.threads.create({ threadId, metadata: {} });
    const { view } = chatUi({ client, threadId, fetchStateHistory: { limit: 1 }, reconnectOnMount: true, throttle: true, onUpdateEvent() {} });
    await ready(view);
    await view.now.submit(
      { messages: [human("[hello]")] },
      { config: { recursion_limit: 1000 }, context: { thread_id: threadId, mode: "flash" }, streamMode: ["messages-tuple", "values", "updates", "custom"], onDisconnect: "continue" },
    );
    await view.until(ends("Hello there."), "the answer");
    await client.threads.update(threadId, { metadata: { agent_name: "lead" } });
    await client.threads.updateState(threadId, { values: { title: "A title" } });
    same((await client.threads.getHistory(threadId, { limit: 1 })).length, 1);
    await client.threads.delete(threadId);
    view.unmount();
  },
});
