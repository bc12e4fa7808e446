import { describe, expect, test } from "vitest";
import type { Proposal } from "../api/types";
import { changeEntry, removeEntry } from "./facts";
import {
  acceptEdit,
  addItem,
  addRestoredText,
  itemTextLines,
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
  textOf,
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

test("lines of an item without text do not count", () => {
  expect(itemTextLines(" a \n\n[ ] b\n")).toEqual(["a", "[ ] b"]);
  const edit = createEdit(proposal);
  const items = edit.items.map((item) => ({ ...item, text: `${item.text}\n` }));
  expect(isChanged({ ...edit, items }, proposal)).toBe(false);
  expect(textArgs({ ...edit, items })).toEqual(textArgs(edit));
});

test("the unchanged lines of an item keep their references", () => {
  const item = { kind: "decision", text: "a\nb\nc", refs: [1, 2, 3, 4], verified: true };
  const refsAfter = (line_refs: number[][] | undefined, text: string) => {
    const lines = { ...item, ...(line_refs && { line_refs }) };
    const several = { ...proposal, summary_json: { ...proposal.summary_json, body: [lines] } } as Proposal;
    const edit = createEdit(several);
    const args = textArgs({ ...edit, items: edit.items.map((item) => ({ ...item, text })) });
    return (args["summary_json"] as unknown as { body: { refs: number[] }[] }).body[0]?.refs;
  };
  const known = [[1, 2], [2, 3], [4]];
  expect(refsAfter(known, "a\nb\nc")).toEqual([1, 2, 3, 4]);
  expect(refsAfter(known, "a\nc")).toEqual([1, 2, 4]);
  expect(refsAfter(known, "a\nB\nc")).toEqual([1, 2, 4]);
  expect(refsAfter(known, "x")).toEqual([]);
  // The lines of which the references are not known may have all of them.
  expect(refsAfter(undefined, "a")).toEqual([1, 2, 3, 4]);
  expect(refsAfter(undefined, "x")).toEqual([]);
});

describe("facts", () => {
  const package_md = [
    "**Kettle &lt;b>** (unverified)",
    "It leaks.",
    "",
    "### Objective",
    "- \\# Mend it (unverified)",
    "",
    "### Next steps",
    "- \\- Buy glue",
    "- Glue it",
    "",
    "### Rules",
    "- \\> Never.",
    "- Ever.",
    "",
    "### Last request (still open)",
    "- Mend it",
    "",
  ].join("\n");
  const withFacts = {
    ...proposal,
    package_md,
    summary_json: {
      ...proposal.summary_json,
      title: "Kettle <b>",
      body: [
        { kind: "objective", text: "# Mend it", refs: [], verified: false, unfound: ["Mend"] },
        { kind: "next_step", text: "- Buy glue\nGlue it", refs: [3], verified: true },
      ],
      notes: { title_unfound: ["Kettle"] },
    },
  } as unknown as Proposal;
  const edit = createEdit(withFacts);
  const keyOf = (text: string) =>
    edit.facts.flatMap(({ entries }) => entries).find((entry) => entry.text === text)?.key ?? -1;

  test("a changed fact is sent with the whole text, in which nothing else changes", () => {
    const changed = { ...edit, facts: changeEntry(edit.facts, keyOf("Ever."), "Often.") };
    expect(isChanged(changed, withFacts)).toBe(true);
    const expected = package_md.replace("Ever.", "Often.");
    expect(textArgs(changed)).toEqual({ package_md: expected });
    expect(acceptEdit(changed)).toEqual({
      type: "approve",
      summary_sha256: "abc",
      args: { package_md: expected },
    });
    expect(textOf(changed)).toBe(expected);
    expect(switchToMarkdown(changed, withFacts).markdown).toBe(expected);
  });

  test("nothing about facts is sent if they are unchanged", () => {
    expect(isChanged(edit, withFacts)).toBe(false);
    const changed = { ...edit, title: "Pot", facts: changeEntry(edit.facts, keyOf("Ever."), "Ever. ") };
    expect(Object.keys(textArgs(changed))).toEqual(["summary_json"]);
  });

  test("changed items and facts are sent together, with the escapes and marks of all other lines", () => {
    const facts = removeEntry(edit.facts, keyOf("Mend it"));
    const items = edit.items.map((item) =>
      item.kind === "next_step" ? { ...item, text: "- Buy glue\nUse it" } : item,
    );
    expect(textArgs({ ...edit, tldr: "It drips.", items, facts })).toEqual({
      package_md: package_md
        .replace("It leaks.", "It drips.")
        .replace("- Glue it", "- Use it")
        .replace("\n### Last request (still open)\n- Mend it\n", ""),
    });
  });

  test("a changed part keeps its mark while it has a name that was not found", () => {
    const facts = removeEntry(edit.facts, keyOf("Ever."));
    const textWith = (title: string, objective: string) => {
      const items = edit.items.map((item) =>
        item.kind === "objective" ? { ...item, text: objective } : item,
      );
      return textOf({ ...edit, title, items, facts });
    };
    const kept = textWith("A Kettle", "Mend all");
    expect(kept).toContain("**A Kettle** (unverified)\n");
    expect(kept).toContain("- Mend all (unverified)\n");
    expect(textWith("A pot", "Repair it")).not.toContain("unverified");
  });

  test("lost rules are put back into the fields or into the Markdown", () => {
    const lost = { ...edit, title: "Pot", facts: removeEntry(edit.facts, keyOf("Ever.")) };
    const restored = addRestoredText(lost, textOf(edit));
    expect(restored).toMatchObject({ format: "fields", title: "Pot", isMarkdownEdited: false });
    expect(Object.keys(textArgs(restored))).toEqual(["summary_json"]);
    expect(addRestoredText({ ...lost, format: "markdown" }, "text")).toMatchObject({
      markdown: "text",
      isMarkdownEdited: true,
    });
  });
});
