import { describe, expect, test } from "vitest";
import type { JournalEvent, JsonObject } from "../api/types";
import { barPosition, axisTicks } from "./axis";
import { totalTokens } from "./eventFields";
import { buildTrace } from "./spans";

const T0 = Date.parse("2026-03-01T09:00:00Z");
const USAGE = { input_tokens: 100, output_tokens: 20, cache_read_tokens: 5, cache_write_tokens: 0 };

function event(seq: number, ms: number, event_type: string, content: JsonObject = {}): JournalEvent {
  return {
    thread_id: "t",
    seq,
    event_id: `e${seq}`,
    run_id: "r",
    event_type,
    category: event_type.endsWith("_message") ? "message" : "lifecycle",
    content,
    metadata: null,
    created_at: new Date(T0 + ms).toISOString(),
  };
}

const human = event(2, 0, "human_message", { content: [{ type: "text", text: "Look around\nplease" }] });
const runStarted = event(3, 0, "run_started", { how: "admitted", model: "anthropic/one" });
const memory = event(4, 10, "memory_read", { sources: [] });
const answerWithCalls = event(5, 1_000, "ai_message", {
  content: [
    { type: "text", text: "I will." },
    { type: "tool_call", id: "c1", name: "ls", args: { path: "src" } },
    { type: "tool_call", id: "c2", name: "execute", args: { command: "make" } },
  ],
  model: "anthropic/one",
  usage: USAGE,
});
const result = (seq: number, ms: number, id: string, more: JsonObject = {}) =>
  event(seq, ms, "tool_message", { call_id: id, name: "x", content: [], status: "success", ...more });
const runEnded = (seq: number, ms: number) => event(seq, ms, "run_ended", { status: "success", steps: 3 });

const run = (status: string, ms = 0) => ({ status, created_at: new Date(T0 + ms).toISOString() });

/** Renders one span per line: kind, label, detail, range and state. */
function render(events: JournalEvent[], status = "success", now = T0 + 9_000, created = 0): string[] {
  return buildTrace(events, run(status, created), now).spans.map(
    (span) =>
      `${"  ".repeat(span.depth - 1)}${span.kind} ${span.label}${span.detail ? ` (${span.detail})` : ""} ` +
      `${span.start - T0}..${span.end - T0}${span.state === "done" ? "" : ` ${span.state}`}`,
  );
}

describe("a run as spans", () => {
  test("an answer starts at the previous event, a call when it was proposed", () => {
    const events = [
      human,
      runStarted,
      memory,
      answerWithCalls,
      result(6, 1_500, "c1"),
      result(7, 3_000, "c2"),
      runEnded(8, 3_001),
    ];
    expect(render(events)).toEqual([
      "human Message (Look around) 0..0",
      "note Started (one) 0..0",
      "model one (I will.) 10..1000",
      "  tool ls (src) 1000..1500",
      "  tool execute (make) 1000..3000",
      "note Ended (success) 3001..3001",
    ]);
  });

  test("the order of the events does not matter", () => {
    const events = [
      human,
      runStarted,
      memory,
      answerWithCalls,
      result(6, 1_500, "c1"),
      result(7, 3_000, "c2"),
      runEnded(8, 3_001),
    ];
    expect(render(events.toReversed())).toEqual(render(events));
  });

  test("a stored duration takes precedence over the previous event", () => {
    const events = [
      runStarted,
      answerWithCalls,
      result(6, 5_000, "c1", { duration_ms: 300 }),
      result(7, 5_000, "c2"),
      runEnded(8, 5_001),
    ];
    expect(render(events)).toContain("  tool ls (src) 4700..5000");
    expect(render(events)).toContain("  tool execute (make) 1000..5000");
  });

  test("a call starts at its approval, and a call of an earlier run gets a span from its result", () => {
    const resumed = event(10, 0, "run_started", { how: "resumed", model: "anthropic/one" });
    const decided = event(11, 50, "tool_call_decided", {
      call_id: "c9",
      tool: "execute",
      decision: "approve",
      by: "person",
    });
    expect(
      render([resumed, decided, result(12, 2_000, "c9", { status: "error" }), runEnded(13, 2_001)]),
    ).toEqual([
      "note Started (resumed · one) 0..0",
      "tool execute 50..2000 failed",
      "note Ended (success) 2001..2001",
    ]);
  });

  test("a question leaves its calls waiting and ends the run", () => {
    const asked = event(6, 1_200, "run_interrupted", { interrupt_ids: ["i"], actions: ["execute"] });
    const built = buildTrace([runStarted, answerWithCalls, asked], run("success"), T0 + 60_000);
    expect(built.state).toBe("asked");
    expect(built.end - T0).toBe(1_200);
    expect(render([runStarted, answerWithCalls, asked])).toEqual([
      "note Started (one) 0..0",
      "model one (I will.) 0..1000",
      "  tool ls (src) 1000..1200 waiting",
      "  tool execute (make) 1000..1200 waiting",
      "question Question (execute) 1200..1200 waiting",
    ]);
  });

  test("an open answer or call ends now", () => {
    expect(render([runStarted], "running")).toEqual([
      "note Started (one) 0..0",
      "model Model 0..9000 working",
    ]);
    expect(render([runStarted, answerWithCalls, result(6, 1_500, "c1")], "running")).toEqual([
      "note Started (one) 0..0",
      "model one (I will.) 0..1000",
      "  tool ls (src) 1000..1500",
      "  tool execute (make) 1000..9000 working",
    ]);
    expect(render([], "pending")).toEqual([]);
  });

  test("calls without a result are lost when the run has ended, even without an end event", () => {
    expect(render([runStarted, answerWithCalls], "error").at(-1)).toBe(
      "  tool execute (make) 1000..1000 lost",
    );
  });

  test("a queue span is shown above the minimum duration", () => {
    expect(render([runStarted, runEnded(4, 1)], "success", T0, -5_000)[0]).toBe("queue Queued -5000..0");
    expect(render([runStarted, runEnded(4, 1)], "success", T0, -50)[0]).toBe("note Started (one) 0..0");
  });

  test("a compaction has its model calls as children, and tokens are counted once", () => {
    const called = event(4, 2_000, "model_called", {
      purpose: "compaction",
      model: "anthropic/one",
      usage: USAGE,
    });
    const condensed = event(5, 2_000, "middleware:summarize", {
      trigger: "auto",
      replaced_count: 12,
      tokens_before: 150_000,
      tokens_after: 18_000,
      duration_ms: 1_500,
      usage: USAGE,
    });
    const built = buildTrace([runStarted, called, condensed, runEnded(6, 3_600)], run("success"), T0);
    expect(render([runStarted, called, condensed, runEnded(6, 3_600)])).toEqual([
      "note Started (one) 0..0",
      "compaction 12 messages compacted (auto · 150,000 → 18,000 tokens) 2000..3500",
      "  internal one (compaction) 2000..3500",
      "note Ended (success) 3600..3600",
    ]);
    expect(totalTokens(built.totals.internal)).toBe(125);
    expect(totalTokens(built.totals.all)).toBe(125);
  });

  test("a failure has its reason, a sub-agent its tokens and its thread", () => {
    const sub = event(6, 1_900, "subagent_ended", {
      call_id: "c1",
      thread_id: "s",
      status: "success",
      usage: USAGE,
    });
    const failed = event(8, 2_000, "run_failed", { kind: "model", message: "no such thing" });
    const built = buildTrace(
      [runStarted, answerWithCalls, sub, result(7, 1_950, "c1"), failed],
      run("error"),
      T0,
    );
    expect(built).toMatchObject({ state: "error", error: "no such thing" });
    expect(built.spans.find((span) => span.id === "c1")).toMatchObject({ thread: "s", state: "done" });
    expect(totalTokens(built.totals.subagents)).toBe(125);
    expect(totalTokens(built.totals.all)).toBe(250);
  });

  test("a23_an unknown event is shown by its type", () => {
    expect(render([runStarted, event(4, 5, "kettle_boiled", { reason: "hot" }), runEnded(5, 6)])[1]).toBe(
      "note kettle boiled (hot) 5..5",
    );
  });

  test("spans are within the run and never negative, even if the clock jumps", () => {
    const skewed = [
      runStarted,
      answerWithCalls,
      result(6, 200, "c1"),
      event(7, 100, "model_called", {}),
      runEnded(8, 50),
    ];
    const built = buildTrace(skewed, run("success"), T0);
    for (const span of built.spans) {
      expect(span.end).toBeGreaterThanOrEqual(span.start);
      expect(span.start).toBeGreaterThanOrEqual(built.start);
      expect(span.end).toBeLessThanOrEqual(built.end);
    }
  });
});

test("events older than the run record are shown at their time", () => {
  expect(
    render([runStarted, answerWithCalls, runEnded(6, 1_001)], "success", T0, 60_000).slice(0, 2),
  ).toEqual(["note Started (one) 0..0", "model one (I will.) 0..1000"]);
  expect(buildTrace([runStarted, answerWithCalls], run("success", 60_000), T0)).toMatchObject({
    start: T0,
    end: T0 + 1_000,
  });
});

describe("the time axis", () => {
  test("has few, round ticks", () => {
    const labels = (length: number) => axisTicks(length).map(({ label }) => label);
    expect(labels(4_400)).toEqual(["0", "1 s", "2 s", "3 s", "4 s"]);
    expect(labels(90)).toEqual(["0", "20 ms", "40 ms", "60 ms", "80 ms"]);
    expect(labels(1_900)).toEqual(["0", "0.5 s", "1.0 s", "1.5 s"]);
    expect(labels(200_000)).toEqual(["0", "1 min", "2 min", "3 min"]);
    expect(labels(7_000_000)).toEqual(["0", "30 min", "60 min", "90 min"]);
    expect(labels(0)).toEqual(["0"]);
    for (const length of [1, 7, 999, 61_000, 86_400_000, 1e12])
      expect(axisTicks(length).length).toBeLessThanOrEqual(6);
  });

  test("keeps bars inside", () => {
    expect(barPosition({ start: 10, end: 10 }, { start: 0, end: 10 })).toEqual({ left: 100, width: 0 });
    expect(barPosition({ start: 5, end: 10 }, { start: 0, end: 10 })).toEqual({ left: 50, width: 50 });
    expect(barPosition({ start: 0, end: 0 }, { start: 0, end: 0 })).toEqual({ left: 0, width: 0 });
  });
});
