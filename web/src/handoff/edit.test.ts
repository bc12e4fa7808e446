import { describe, expect, test } from "vitest";
import type { Proposal } from "../api/types";
import {
  acceptEdit,
  addItem,
  renderMarkdown,
  baseProposal,
  createEdit,
  byteLength,
  graphemeCount,
  isChanged,
  isModified,
  moveItem,
  validationErrors,
  switchToMarkdown,
  textArgs,
  type SummaryEdit,
} from "./edit";

const proposal = {
  summary_sha256: "abc",
  package_md: "**Kettle**\nIt leaks.\n\n### Objective\n- Mend it\n",
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

const texts = (edit: SummaryEdit) => edit.items.map((item) => item.text);

test("limits count grapheme clusters", () => {
  expect(graphemeCount("aé👩‍👩‍👧‍👦🇩🇪e\u0301")).toBe(5);
  expect(byteLength("é👩")).toBe(6);
});

test("a new edit equals the draft, sorted by kind", () => {
  const edit = createEdit(proposal);
  expect(texts(edit)).toEqual(["Mend it", "Buy glue", "Glue it", "lid.rs"]);
  expect(isChanged(edit, proposal)).toBe(false);
  expect(isChanged({ ...edit, format: "markdown" }, proposal)).toBe(false);
  expect(validationErrors(edit)).toEqual([]);
});

test("an item only moves among items of its kind", () => {
  const { items } = createEdit(proposal);
  const [first, second] = [items[1]?.key ?? 0, items[2]?.key ?? 0];
  const movedTexts = (key: number, by: -1 | 1) => moveItem(items, key, by).map((item) => item.text);
  expect(movedTexts(first, 1)).toEqual(["Mend it", "Glue it", "Buy glue", "lid.rs"]);
  expect(movedTexts(first, -1)).toEqual(texts(createEdit(proposal)));
  expect(movedTexts(second, 1)).toEqual(texts(createEdit(proposal)));
});

test("a new item has a unique key and is sorted by kind", () => {
  const items = addItem(createEdit(proposal).items, "objective");
  expect(items.map((item) => item.kind)).toEqual([
    "objective",
    "objective",
    "next_step",
    "next_step",
    "artifact",
  ]);
  expect(new Set(items.map((item) => item.key)).size).toBe(5);
});

describe("g6_a violated limit is a validation error", () => {
  const edit = createEdit(proposal);
  const cases: [string, Partial<SummaryEdit>, string][] = [
    ["title of 121", { title: "👍🏽".repeat(121) }, "The title has 121 characters, at most 120 are allowed."],
    ["title empty", { title: " " }, "The title is empty."],
    ["tldr of 201", { tldr: "x".repeat(201) }, "The TL;DR has 201 characters, at most 200 are allowed."],
    [
      "no item",
      { items: [{ key: 0, kind: "blocker", text: " ", refs: [], draftText: "", unverified: null }] },
      "There is no item.",
    ],
    [
      "thirteen items",
      {
        items: Array.from({ length: 13 }, (_, key) => ({
          key,
          kind: "blocker",
          text: "x",
          refs: [],
          draftText: "",
          unverified: null,
        })),
      },
      "There are 13 items, at most 12 are allowed.",
    ],
    ["empty Markdown", { format: "markdown", markdown: "\n" }, "There is no text."],
  ];
  for (const [name, overrides, error] of cases)
    test(name, () => expect(validationErrors({ ...edit, ...overrides })).toEqual([error]));

  test("texts at the limits are valid", () => {
    const longest = { ...edit, title: "👍🏽".repeat(120), tldr: "x".repeat(200) };
    expect(validationErrors(longest)).toEqual([]);
  });
});

test("g1_an edit keeps its base when there is a newer draft", () => {
  const { summary_json } = proposal;
  const newerProposal = {
    ...proposal,
    summary_sha256: "def",
    summary_json: { ...summary_json, title: "Pot" },
  };
  const edit = createEdit(proposal);
  expect(isModified(edit, [proposal, newerProposal])).toBe(false);
  const modified = { ...edit, title: "Lid" };
  expect(isModified(modified, [proposal, newerProposal])).toBe(true);
  expect(baseProposal(modified, [proposal, newerProposal])).toBe(proposal);
  expect(acceptEdit(modified)).toMatchObject({ edited_action: { args: { summary_sha256: "abc" } } });
  expect(acceptEdit(modified, "def")).toMatchObject({ edited_action: { args: { summary_sha256: "def" } } });
  expect(isModified(modified, [newerProposal])).toBe(true);
});

test("a changed item has no references, an unchanged one keeps them", () => {
  const edit = createEdit(proposal);
  const items = edit.items.map((item) => (item.kind === "objective" ? { ...item, text: "Paint it" } : item));
  expect(acceptEdit({ ...edit, items })).toMatchObject({
    edited_action: {
      args: {
        summary_json: {
          body: [
            { text: "Paint it", refs: [] },
            { text: "Buy glue" },
            { text: "Glue it", refs: [3] },
            { refs: [4] },
          ],
        },
      },
    },
  });
});

test("g1_an edit is accepted instead of its base", () => {
  const edit = { ...createEdit(proposal), title: "Lid" };
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
  expect(acceptEdit({ ...edit, format: "markdown" })).toEqual({
    type: "approve",
    summary_sha256: "abc",
    args: { package_md: proposal.package_md },
  });
});

test("the text of an edit can be sent with another decision", () => {
  const edit = { ...createEdit(proposal), title: "Lid" };
  expect(textArgs(edit)).toMatchObject({ summary_json: { title: "Lid", tldr: "It leaks." } });
  expect(textArgs({ ...edit, format: "markdown", markdown: "**Lid**" })).toEqual({ package_md: "**Lid**" });
});

test("fields become Markdown with the marks of unchanged items", () => {
  const edit = createEdit(proposal);
  expect(switchToMarkdown(edit, proposal).markdown).toBe(proposal.package_md);
  const items = edit.items.map((item) => (item.text === "Buy glue" ? { ...item, text: "Buy\nglue" } : item));
  const switched = switchToMarkdown({ ...edit, items }, proposal);
  expect(switched.format).toBe("markdown");
  expect(switched.markdown).toBe(
    "**Kettle**\nIt leaks.\n\n### Objective\n- Mend it (unverified)\n\n### Next steps\n- Buy\n- glue\n- Glue it\n\n### Artifacts\n- lid.rs\n",
  );
  expect(
    renderMarkdown({ ...edit, items: edit.items.map((item) => ({ ...item, text: "x" })) }),
  ).not.toContain("unverified");
});

test("the facts stay when fields become Markdown", () => {
  const facts = "\n### Last request (still open)\n- Mend it\n\n### Tasks\n- [ ] Buy glue\n- [x] Look\n";
  const withFacts = { ...proposal, package_md: proposal.package_md + facts };
  const edit = { ...createEdit(withFacts), title: "Pot" };
  const { markdown } = switchToMarkdown(edit, withFacts);
  expect(markdown.startsWith("**Pot**") && markdown.endsWith(facts)).toBe(true);
});

test("edited Markdown is not overwritten", () => {
  const edit = { ...createEdit(proposal), title: "Lid", isMarkdownEdited: true, markdown: "mine" };
  expect(switchToMarkdown(edit, proposal).markdown).toBe("mine");
});
