import { expect, test } from "vitest";
import type { JsonObject } from "../api/types";
import { Said, positionOf, type StreamEvent } from "./said";

const PLACES = 2 ** 27;

/** Tells events, each with a number of its own, at positions of the journal. */
class Teller {
  private part = 0;
  private position = 0;

  constructor(readonly said = new Said()) {}

  at(position: number): this {
    this.position = position;
    return this;
  }
  event(method: string, data: JsonObject, namespace: string[] = []): StreamEvent {
    this.part += 1;
    const seq = this.position * PLACES + this.part;
    return { event_id: "run-1:1", seq, method, params: { namespace, timestamp: 1_000, data } };
  }
  tell(method: string, data: JsonObject, namespace: string[] = []): StreamEvent {
    const event = this.event(method, data, namespace);
    this.said.take(event);
    return event;
  }
  begins(id = "a1"): void {
    this.at(2).tell("lifecycle", { event: "running" });
    this.tell("history", { event: "stored", event_type: "human_message", entry: { seq: 2 } });
    this.at(3).tell("history", { event: "stored", event_type: "run_started", entry: null, content: {} });
    this.tell("messages", { event: "message-start", role: "ai", id });
  }
  delta(text: string, type = "text-delta"): void {
    const key = type === "text-delta" ? "text" : "reasoning";
    this.tell("messages", { event: "content-block-delta", delta: { type, [key]: text } });
  }
}

test("i7_an_answer_is_shown_after_its_question_was_read_with_its_reasoning", () => {
  const teller = new Teller();
  teller.begins();
  teller.delta("Hm", "reasoning-delta");
  teller.delta("Hel");
  expect(teller.said.saying()).toEqual([]);
  teller.said.settle(2);
  teller.delta("lo");
  expect(teller.said.saying()).toEqual([{ id: "a1", thinking: "Hm", text: "Hello" }]);
});

test("i4_what_is_told_twice_is_said_once", () => {
  const teller = new Teller();
  teller.begins();
  teller.said.settle(3);
  const event = teller.event("messages", {
    event: "content-block-delta",
    delta: { type: "text-delta", text: "once" },
  });
  teller.said.take(event);
  teller.said.take(event);
  expect(teller.said.saying()[0]?.text).toBe("once");
});

test("an answer that is told from its beginning again replaces what was said of it", () => {
  const teller = new Teller();
  teller.begins();
  teller.said.settle(3);
  teller.delta("Hel");
  teller.tell("messages", { event: "message-start", role: "ai", id: "a1" });
  teller.delta("Hello");
  expect(teller.said.saying()).toEqual([{ id: "a1", thinking: "", text: "Hello" }]);
});

test("c5_what_was_said_goes_when_it_was_read_and_not_before", () => {
  const teller = new Teller();
  teller.begins();
  teller.said.settle(3);
  teller.delta("Hello");
  teller.at(5).tell("messages", { event: "message-finish" });
  teller.said.settle(4);
  expect(teller.said.saying()).toHaveLength(1);
  teller.said.settle(5);
  expect(teller.said.saying()).toEqual([]);
});

test("an answer that was cut off goes with what was stored of it", () => {
  const teller = new Teller();
  teller.begins();
  teller.said.settle(3);
  teller.delta("Hel");
  teller.at(6).tell("lifecycle", { event: "interrupted" });
  expect(teller.said.saying()).toHaveLength(1);
  expect(teller.said.takeNews()).toMatchObject({ ended: true, stored: true });
  teller.said.settle(6);
  expect(teller.said.saying()).toEqual([]);
  expect(teller.said.run).toBeNull();
});

test("a call is worked on until its result was read, with the end of what it prints", () => {
  const teller = new Teller();
  teller.begins();
  teller.at(5).tell("tools", { event: "tool-started", tool_call_id: "c1", tool_name: "execute", input: {} });
  const before = teller.said.working;
  expect(teller.said.working).toBe(before);
  expect(teller.said.run).toMatchObject({ id: "run-1", tool: "execute" });
  for (const text of ["one\n", "x".repeat(20_000), "\ntwo"])
    teller.tell("custom", { name: "tool_output", payload: { tool_call_id: "c1", text } });
  const output = teller.said.working.get("c1")?.output ?? "";
  expect(output.endsWith("\ntwo")).toBe(true);
  expect(output.length).toBeLessThanOrEqual(16_000);
  teller.at(6).tell("tools", { event: "tool-finished", tool_call_id: "c1", output: "" });
  expect(teller.said.run).toMatchObject({ tool: null });
  expect(teller.said.working.has("c1")).toBe(true);
  teller.said.settle(6);
  expect(teller.said.working.has("c1")).toBe(false);
});

test("what a sub-agent does stays below its call", () => {
  const teller = new Teller();
  teller.begins();
  teller.said.settle(3);
  teller.at(5).tell("tools", { event: "tool-started", tool_call_id: "c2", tool_name: "task", input: {} });
  const inside = ["tools:c2"];
  teller.tell("lifecycle", { event: "started", thread_id: "t2" }, inside);
  teller.tell("messages", { event: "message-start", role: "ai", id: "b1" }, inside);
  teller.tell("tools", { event: "tool-started", tool_call_id: "d1", tool_name: "ls" }, inside);
  teller.tell("history", { event: "stored", event_type: "tool_message", entry: {} }, inside);
  expect(teller.said.working.get("c2")).toMatchObject({ doing: "ls", thread: "t2" });
  expect([...teller.said.working.keys()]).toEqual(["c2"]);
  expect(teller.said.saying()).toEqual([]);
});

test("c5_a_compaction_is_told_while_it_works", () => {
  const teller = new Teller();
  const compacting = (payload: JsonObject) => teller.tell("custom", { name: "compacting", payload });
  compacting({ state: "began", trigger: "auto", replaced_count: 15, tokens_before: 4340 });
  expect(teller.said.compacting).toEqual({ trigger: "auto", count: 15, tokens: 4340 });
  for (const state of ["condensed", "failed", "stopped"]) {
    compacting({ state: "began", trigger: "manual" });
    teller.said.takeNews();
    compacting({ state, trigger: "manual" });
    expect(teller.said.compacting).toBeNull();
    expect(teller.said.takeNews()).toMatchObject({ stored: true, state: true });
  }
});

test("news says what is to be read, once", () => {
  const teller = new Teller();
  teller.at(4).tell("history", { event: "stored", event_type: "memory_read", entry: null, content: {} });
  expect(teller.said.takeNews()).toMatchObject({ stored: false, rewritten: false });
  teller.at(5).tell("history", {
    event: "stored",
    event_type: "thread_rewound",
    entry: null,
    content: { keep_seq: 2 },
  });
  expect(teller.said.takeNews()).toMatchObject({ rewritten: true, state: true, markers: true });
  expect(teller.said.takeNews()).toMatchObject({ rewritten: false, state: false, markers: false });
  teller.at(6).tell("history", { event: "missed", after_seq: 3 });
  expect(teller.said.takeNews()).toMatchObject({ stored: true, rewritten: true });
});

test("tasks that were written are looked at as soon as they are stored", () => {
  const teller = new Teller();
  const stored = (entry: object) =>
    teller.tell("history", {
      event: "stored",
      event_type: "tool_message",
      entry: { type: "tool", ...entry },
    });
  stored({ seq: 4, name: "ls" });
  expect(teller.said.takeNews()).toMatchObject({ stored: true, state: false });
  stored({ seq: 5, name: "write_todos" });
  expect(teller.said.takeNews()).toMatchObject({ stored: true, state: true });
});

test("a failed run says why, until another one works", () => {
  const teller = new Teller();
  teller.begins();
  teller.at(4).tell("history", {
    event: "stored",
    event_type: "run_failed",
    entry: null,
    content: { kind: "model", message: "refused (400)" },
  });
  teller.tell("lifecycle", { event: "failed", error: "refused (400)" });
  expect(teller.said.failure).toBe("refused (400)");
  teller.at(6).tell("lifecycle", { event: "running" });
  expect(teller.said.failure).toBeNull();
});

test("the position is the number without what counts within it", () => {
  expect(positionOf(402_654_208)).toBe(3);
  expect(positionOf(7 * PLACES + PLACES - 1)).toBe(7);
});

test("i7_what_is_said_anew_after_a_server_came_back_takes_the_place_of_what_was_said_before", () => {
  const teller = new Teller();
  teller.begins();
  teller.delta("Long ago");
  teller.said.settle(3);
  expect(teller.said.saying().map(({ text }) => text)).toEqual(["Long ago"]);
  teller.said.again();
  const successor = new Teller(teller.said);
  successor.begins("a2");
  successor.delta("New");
  expect(teller.said.saying().map(({ text }) => text)).toEqual(["New"]);
});
