import { expect, test } from "vitest";
import type { JsonObject } from "../api/types";
import { StreamState, positionOf, type StreamEvent } from "./streamState";

const SEQS_PER_POSITION = 2 ** 27;

/** Emits numbered events at journal positions. */
class TestStream {
  private subSeq = 0;
  private position = 0;

  constructor(readonly streamState = new StreamState()) {}

  atPosition(position: number): this {
    this.position = position;
    return this;
  }
  event(method: string, data: JsonObject, namespace: string[] = []): StreamEvent {
    this.subSeq += 1;
    const seq = this.position * SEQS_PER_POSITION + this.subSeq;
    return { event_id: "run-1:1", seq, method, params: { namespace, timestamp: 1_000, data } };
  }
  emit(method: string, data: JsonObject, namespace: string[] = []): StreamEvent {
    const event = this.event(method, data, namespace);
    this.streamState.applyEvent(event);
    return event;
  }
  startAnswer(id = "a1"): void {
    this.atPosition(2).emit("lifecycle", { event: "running" });
    this.emit("history", { event: "stored", event_type: "human_message", entry: { seq: 2 } });
    this.atPosition(3).emit("history", {
      event: "stored",
      event_type: "run_started",
      entry: null,
      content: {},
    });
    this.emit("messages", { event: "message-start", role: "ai", id });
  }
  emitDelta(text: string, type = "text-delta"): void {
    const key = type === "text-delta" ? "text" : "reasoning";
    this.emit("messages", { event: "content-block-delta", delta: { type, [key]: text } });
  }
}

test("i7_an_answer_with_its_reasoning_is_shown_after_its_question_is_loaded", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.emitDelta("Hm", "reasoning-delta");
  stream.emitDelta("Hel");
  expect(stream.streamState.streamingMessages()).toEqual([]);
  stream.streamState.discardStored(2);
  stream.emitDelta("lo");
  expect(stream.streamState.streamingMessages()).toEqual([{ id: "a1", thinking: "Hm", text: "Hello" }]);
});

test("i4_a_repeated_event_is_ignored", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.streamState.discardStored(3);
  const event = stream.event("messages", {
    event: "content-block-delta",
    delta: { type: "text-delta", text: "once" },
  });
  stream.streamState.applyEvent(event);
  stream.streamState.applyEvent(event);
  expect(stream.streamState.streamingMessages()[0]?.text).toBe("once");
});

test("a restarted answer replaces the partial one", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.streamState.discardStored(3);
  stream.emitDelta("Hel");
  stream.emit("messages", { event: "message-start", role: "ai", id: "a1" });
  stream.emitDelta("Hello");
  expect(stream.streamState.streamingMessages()).toEqual([{ id: "a1", thinking: "", text: "Hello" }]);
});

test("c5_a_streamed_answer_is_discarded_when_it_is_loaded", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.streamState.discardStored(3);
  stream.emitDelta("Hello");
  stream.atPosition(5).emit("messages", { event: "message-finish" });
  stream.streamState.discardStored(4);
  expect(stream.streamState.streamingMessages()).toHaveLength(1);
  stream.streamState.discardStored(5);
  expect(stream.streamState.streamingMessages()).toEqual([]);
});

test("an interrupted answer is discarded when its stored part is loaded", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.streamState.discardStored(3);
  stream.emitDelta("Hel");
  stream.atPosition(6).emit("lifecycle", { event: "interrupted" });
  expect(stream.streamState.streamingMessages()).toHaveLength(1);
  expect(stream.streamState.takeUpdate()).toMatchObject({ ended: true, hasStored: true });
  stream.streamState.discardStored(6);
  expect(stream.streamState.streamingMessages()).toEqual([]);
  expect(stream.streamState.run).toBeNull();
});

test("a call is in progress until its result is loaded, with the end of its output", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream
    .atPosition(5)
    .emit("tools", { event: "tool-started", tool_call_id: "c1", tool_name: "execute", input: {} });
  const before = stream.streamState.progress;
  expect(stream.streamState.progress).toBe(before);
  expect(stream.streamState.run).toMatchObject({ id: "run-1", tool: "execute" });
  for (const text of ["one\n", "x".repeat(20_000), "\ntwo"])
    stream.emit("custom", { name: "tool_output", payload: { tool_call_id: "c1", text } });
  const output = stream.streamState.progress.get("c1")?.output ?? "";
  expect(output.endsWith("\ntwo")).toBe(true);
  expect(output.length).toBeLessThanOrEqual(16_000);
  stream.atPosition(6).emit("tools", { event: "tool-finished", tool_call_id: "c1", output: "" });
  expect(stream.streamState.run).toMatchObject({ tool: null });
  expect(stream.streamState.progress.has("c1")).toBe(true);
  stream.streamState.discardStored(6);
  expect(stream.streamState.progress.has("c1")).toBe(false);
});

test("events of a sub-agent only change its call", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.streamState.discardStored(3);
  stream
    .atPosition(5)
    .emit("tools", { event: "tool-started", tool_call_id: "c2", tool_name: "task", input: {} });
  const subagentNamespace = ["tools:c2"];
  stream.emit("lifecycle", { event: "started", thread_id: "t2" }, subagentNamespace);
  stream.emit("messages", { event: "message-start", role: "ai", id: "b1" }, subagentNamespace);
  stream.emit("tools", { event: "tool-started", tool_call_id: "d1", tool_name: "ls" }, subagentNamespace);
  stream.emit("history", { event: "stored", event_type: "tool_message", entry: {} }, subagentNamespace);
  expect(stream.streamState.progress.get("c2")).toMatchObject({ currentTool: "ls", thread: "t2" });
  expect([...stream.streamState.progress.keys()]).toEqual(["c2"]);
  expect(stream.streamState.streamingMessages()).toEqual([]);
});

test("c5_a_compaction_is_reported_while_it_runs", () => {
  const stream = new TestStream();
  const emitCompaction = (payload: JsonObject) => stream.emit("custom", { name: "compacting", payload });
  emitCompaction({ state: "began", trigger: "auto", replaced_count: 15, tokens_before: 4340 });
  expect(stream.streamState.compaction).toEqual({ trigger: "auto", count: 15, tokens: 4340 });
  for (const state of ["condensed", "failed", "stopped"]) {
    emitCompaction({ state: "began", trigger: "manual" });
    stream.streamState.takeUpdate();
    emitCompaction({ state, trigger: "manual" });
    expect(stream.streamState.compaction).toBeNull();
    expect(stream.streamState.takeUpdate()).toMatchObject({ hasStored: true, state: true });
  }
});

test("an update is returned once", () => {
  const stream = new TestStream();
  stream
    .atPosition(4)
    .emit("history", { event: "stored", event_type: "memory_read", entry: null, content: {} });
  expect(stream.streamState.takeUpdate()).toMatchObject({ hasStored: false, historyChanged: false });
  stream.atPosition(5).emit("history", {
    event: "stored",
    event_type: "thread_rewound",
    entry: null,
    content: { keep_seq: 2 },
  });
  expect(stream.streamState.takeUpdate()).toMatchObject({ historyChanged: true, state: true, markers: true });
  expect(stream.streamState.takeUpdate()).toMatchObject({
    historyChanged: false,
    state: false,
    markers: false,
  });
  stream.atPosition(6).emit("history", { event: "missed", after_seq: 3 });
  expect(stream.streamState.takeUpdate()).toMatchObject({ hasStored: true, historyChanged: true });
});

test("a stored task list changes the thread's state", () => {
  const stream = new TestStream();
  const emitStored = (entry: object) =>
    stream.emit("history", {
      event: "stored",
      event_type: "tool_message",
      entry: { type: "tool", ...entry },
    });
  emitStored({ seq: 4, name: "ls" });
  expect(stream.streamState.takeUpdate()).toMatchObject({ hasStored: true, state: false });
  emitStored({ seq: 5, name: "write_todos" });
  expect(stream.streamState.takeUpdate()).toMatchObject({ hasStored: true, state: true });
});

test("a failure is reported until the next run starts", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.atPosition(4).emit("history", {
    event: "stored",
    event_type: "run_failed",
    entry: null,
    content: { kind: "model", message: "refused (400)" },
  });
  stream.emit("lifecycle", { event: "failed", error: "refused (400)" });
  expect(stream.streamState.failure).toBe("refused (400)");
  stream.atPosition(6).emit("lifecycle", { event: "running" });
  expect(stream.streamState.failure).toBeNull();
});

test("the position is the sequence number without its sub-sequence", () => {
  expect(positionOf(402_654_208)).toBe(3);
  expect(positionOf(7 * SEQS_PER_POSITION + SEQS_PER_POSITION - 1)).toBe(7);
});

test("i7_after_a_server_restart_new_content_replaces_the_old", () => {
  const stream = new TestStream();
  stream.startAnswer();
  stream.emitDelta("Long ago");
  stream.streamState.discardStored(3);
  expect(stream.streamState.streamingMessages().map(({ text }) => text)).toEqual(["Long ago"]);
  stream.streamState.reset();
  const successor = new TestStream(stream.streamState);
  successor.startAnswer("a2");
  successor.emitDelta("New");
  expect(stream.streamState.streamingMessages().map(({ text }) => text)).toEqual(["New"]);
});
