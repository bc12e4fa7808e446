import { expect, test } from "vitest";
import type { Entry } from "../api/types";
import { beginning } from "./beginning";

const base = { id: "m", seq: 1, run_id: null, created_at: "2026-01-01T00:00:00Z" };
const said = (entry: object) => {
  const { speaker, text } = beginning({ ...base, ...entry } as Entry);
  return `${speaker}: ${text}`;
};

test("a message says who speaks and how it begins, whatever it is made of", () => {
  expect(said({ type: "human", content: [{ type: "text", text: " Mend\n the  kettle. " }] })).toBe(
    "User: Mend the kettle.",
  );
  expect(
    said({
      type: "ai",
      content: [
        { type: "thinking", text: "hm" },
        { type: "tool_call", id: "c", name: "ls", args: { path: "." } },
        { type: "text", text: "I look." },
      ],
    }),
  ).toBe("Assistant: I look. Calls ls: path .");
  expect(said({ type: "tool", name: "ls", content: [{ type: "text", text: "a file" }] })).toBe("ls: a file");
  expect(said({ type: "human", content: [{ type: "media", media_type: "image/png" }] })).toBe(
    "User: (image/png)",
  );
  expect(said({ type: "summary_marker", summary: "### Goal" })).toBe("Condensed: ### Goal");
});

test("a long one is cut between letters", () => {
  const { text } = beginning({ ...base, type: "human", content: [{ type: "text", text: "👩".repeat(400) }] });
  expect([...text]).toHaveLength(281);
  expect(text.endsWith("👩…")).toBe(true);
});
