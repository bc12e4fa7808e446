import { expect, test } from "vitest";
import type { HistoryEntry } from "../api/types";
import { excerptOf } from "./excerpt";

const base = { id: "m", seq: 1, run_id: null, created_at: "2026-01-01T00:00:00Z" };
const render = (entry: object) => {
  const { speaker, text } = excerptOf({ ...base, ...entry } as HistoryEntry);
  return `${speaker}: ${text}`;
};

test("an excerpt has the speaker and the start of any entry", () => {
  expect(render({ type: "human", content: [{ type: "text", text: " Mend\n the  kettle. " }] })).toBe(
    "User: Mend the kettle.",
  );
  expect(
    render({
      type: "ai",
      content: [
        { type: "thinking", text: "hm" },
        { type: "tool_call", id: "c", name: "ls", args: { path: "." } },
        { type: "text", text: "I look." },
      ],
    }),
  ).toBe("Assistant: I look. Calls ls: path .");
  expect(render({ type: "tool", name: "ls", content: [{ type: "text", text: "a file" }] })).toBe(
    "ls: a file",
  );
  expect(render({ type: "human", content: [{ type: "media", media_type: "image/png" }] })).toBe(
    "User: (image/png)",
  );
  expect(render({ type: "summary_marker", summary: "### Goal" })).toBe("Compacted: ### Goal");
});

test("a long excerpt is cut between characters", () => {
  const { text } = excerptOf({ ...base, type: "human", content: [{ type: "text", text: "👩".repeat(400) }] });
  expect([...text]).toHaveLength(281);
  expect(text.endsWith("👩…")).toBe(true);
});
