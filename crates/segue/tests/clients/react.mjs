// `@langchain/react`, unmodified: its hook over the event stream of a thread.

import { check, human, run, same, server, textOf } from "./suite.mjs";
import { mount } from "./hooks.mjs";

const { useStream } = await import("@langchain/react");

const ends = (text) => (stream) => !stream.isLoading && stream.messages.length > 0 && textOf(stream.messages.at(-1)) === text;

function open(more = {}) {
  return mount(useStream, { apiUrl: server.url, apiKey: server.key, assistantId: "agent", ...more });
}

await run({
  async sends_messages() {
    const view = open();
    await view.until((now) => now, "the first render");
    await view.now.submit(human("[hello]"));
    await view.until(ends("Hello there."), "the first answer");
    await view.now.submit(human("[again]"));
    const stream = await view.until(ends("Answered once more."), "the second answer");
    same(stream.messages.map(textOf), ["[hello]", "Hello there.", "[again]", "Answered once more."]);
    view.unmount();
  },

  async asks_and_accepts_decisions() {
    const view = open();
    await view.until((now) => now, "the first render");
    await view.now.submit(human("[tool]"));
    const stream = await view.until((now) => now.interrupts?.length > 0, "the question");
    check(stream.interrupts[0].value.action_requests[0].name === "execute", stream.interrupts);
    await stream.respond({ decisions: [{ type: "approve" }] });
    await view.until(ends("The tool has answered."), "the answer");
    view.unmount();
  },

  async opens_an_existing_thread() {
    const threadId = crypto.randomUUID();
    const first = open({ threadId });
    await first.until((now) => now, "the first render");
    await first.now.submit(human("[hello]"));
    await first.until(ends("Hello there."), "the answer");
    first.unmount();
    const second = open({ threadId });
    await second.until(ends("Hello there."), "the earlier answer");
    await second.now.submit(human("[again]"));
    await second.until(ends("Answered once more."), "the second answer");
    second.unmount();
  },
});
