import { describe, expect, test } from "vitest";
import type { Proposal } from "../api/types";
import {
  acceptEdit,
  added,
  asMarkdown,
  baseOf,
  begin,
  bytes,
  graphemes,
  isChanged,
  isWritten,
  moved,
  problemsOf,
  toMarkdown,
  type Edit,
} from "./edit";

const proposal = {
  summary_sha256: "abc",
  summary_md: "**Kettle**\nIt leaks.\n\n### Objective\n- Mend it\n",
  summary_json: {
    title: "Kettle",
    tldr: "It leaks.",
    body: [
      { kind: "artifact", text: "lid.rs", refs: [4], verified: true },
      { kind: "objective", text: "Mend it", refs: [1, 2], verified: false, unfound: ["it"] },
      { kind: "next_step", text: "Buy glue", refs: [], verified: true },
      { kind: "next_step", text: "Glue it", refs: [3], verified: true },
    ],
  },
} as unknown as Proposal;

const texts = (edit: Edit) => edit.items.map((item) => item.text);

test("limits count what people see as characters", () => {
  expect(graphemes("aé👩‍👩‍👧‍👦🇩🇪e\u0301")).toBe(5);
  expect(bytes("é👩")).toBe(6);
});

test("an edit begins as the draft, in the order of the kinds, and changes nothing", () => {
  const edit = begin(proposal);
  expect(texts(edit)).toEqual(["Mend it", "Buy glue", "Glue it", "lid.rs"]);
  expect(isChanged(edit, proposal)).toBe(false);
  expect(isChanged({ ...edit, how: "markdown" }, proposal)).toBe(false);
  expect(problemsOf(edit)).toEqual([]);
});

test("an item moves among those of its kind only", () => {
  const { items } = begin(proposal);
  const [first, second] = [items[1]?.key ?? 0, items[2]?.key ?? 0];
  const after = (key: number, by: -1 | 1) => moved(items, key, by).map((item) => item.text);
  expect(after(first, 1)).toEqual(["Mend it", "Glue it", "Buy glue", "lid.rs"]);
  expect(after(first, -1)).toEqual(texts(begin(proposal)));
  expect(after(second, 1)).toEqual(texts(begin(proposal)));
});

test("a new item has a key of its own and stands with its kind", () => {
  const items = added(begin(proposal).items, "objective");
  expect(items.map((item) => item.kind)).toEqual([
    "objective",
    "objective",
    "next_step",
    "next_step",
    "artifact",
  ]);
  expect(new Set(items.map((item) => item.key)).size).toBe(5);
});

describe("g6_what breaks a limit is said, not sent", () => {
  const edit = begin(proposal);
  const cases: [string, Partial<Edit>, string][] = [
    ["title of 121", { title: "👍🏽".repeat(121) }, "The title has 121 characters, at most 120 are allowed."],
    ["title empty", { title: " " }, "The title is empty."],
    ["tldr of 201", { tldr: "x".repeat(201) }, "The TL;DR has 201 characters, at most 200 are allowed."],
    [
      "no item",
      { items: [{ key: 0, kind: "blocker", text: " ", refs: [], unverified: null }] },
      "There is no item.",
    ],
    [
      "eight items",
      {
        items: Array.from({ length: 8 }, (_, key) => ({
          key,
          kind: "blocker",
          text: "x",
          refs: [],
          unverified: null,
        })),
      },
      "There are 8 items, at most 7 are allowed.",
    ],
    ["empty Markdown", { how: "markdown", markdown: "\n" }, "There is no text."],
  ];
  for (const [name, change, problem] of cases)
    test(name, () => expect(problemsOf({ ...edit, ...change })).toEqual([problem]));

  test("at the limits nothing is wrong", () => {
    const full = { ...edit, title: "👍🏽".repeat(120), tldr: "x".repeat(200) };
    expect(problemsOf(full)).toEqual([]);
  });
});

test("g1_an edit stays one of the draft it was made from when there is a newer one", () => {
  const { summary_json } = proposal;
  const newer = { ...proposal, summary_sha256: "def", summary_json: { ...summary_json, title: "Pot" } };
  const edit = begin(proposal);
  expect(isWritten(edit, [proposal, newer])).toBe(false);
  const mine = { ...edit, title: "Lid" };
  expect(isWritten(mine, [proposal, newer])).toBe(true);
  expect(baseOf(mine, [proposal, newer])).toBe(proposal);
  expect(acceptEdit(mine)).toMatchObject({ edited_action: { args: { summary_sha256: "abc" } } });
  expect(acceptEdit(mine, "def")).toMatchObject({ edited_action: { args: { summary_sha256: "def" } } });
  expect(isWritten(mine, [newer])).toBe(true);
});

test("g1_an edit is accepted in the place of the text it was made from", () => {
  const edit = { ...begin(proposal), title: "Lid" };
  expect(acceptEdit(edit)).toEqual({
    type: "edit",
    edited_action: {
      name: "handoff_summary",
      args: {
        summary_sha256: "abc",
        summary_json: {
          title: "Lid",
          tldr: "It leaks.",
          body: [
            { kind: "objective", text: "Mend it", refs: [1, 2], verified: true },
            { kind: "next_step", text: "Buy glue", refs: [], verified: true },
            { kind: "next_step", text: "Glue it", refs: [3], verified: true },
            { kind: "artifact", text: "lid.rs", refs: [4], verified: true },
          ],
        },
      },
    },
  });
  expect(acceptEdit({ ...edit, how: "markdown" })).toEqual({
    type: "approve",
    summary_sha256: "abc",
    args: { summary_md: proposal.summary_md },
  });
});

test("fields go on as Markdown, with the marks of what is as it was", () => {
  const edit = begin(proposal);
  expect(toMarkdown(edit, proposal).markdown).toBe(proposal.summary_md);
  const items = edit.items.map((item) => (item.text === "Buy glue" ? { ...item, text: "Buy\nglue" } : item));
  const own = toMarkdown({ ...edit, items }, proposal);
  expect(own.how).toBe("markdown");
  expect(own.markdown).toBe(
    "**Kettle**\nIt leaks.\n\n### Objective\n- Mend it (unverified)\n\n### Next steps\n- Buy\n- glue\n- Glue it\n\n### Artifacts\n- lid.rs\n",
  );
  expect(asMarkdown({ ...edit, items: edit.items.map((item) => ({ ...item, text: "x" })) })).not.toContain(
    "unverified",
  );
});

test("Markdown that was changed by hand is not written over", () => {
  const edit = { ...begin(proposal), title: "Lid", isMarkdownOwn: true, markdown: "mine" };
  expect(toMarkdown(edit, proposal).markdown).toBe("mine");
});
