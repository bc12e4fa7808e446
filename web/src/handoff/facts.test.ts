import { describe, expect, test } from "vitest";
import {
  addEntry,
  addSection,
  addableSections,
  changeEntry,
  editFacts,
  hasOneEntry,
  isMoreEntry,
  keepsLineBreaks,
  removeEntry,
  renderFacts,
  requestState,
  setRequestState,
  type EditSection,
} from "./facts";

const FACTS = [
  "",
  "### Goal of the new thread",
  "- Port &lt;b> to",
  "  PostgreSQL",
  "",
  "### Rules",
  "- \\# Never do it.",
  "- Always.",
  "",
  "### Last request (still open)",
  "- Port this:",
  "",
  "  ```rust",
  "      if x &lt;/b> {  }",
  "  ```",
  "  ### Commands",
  "",
  "### Files changed",
  "- src/1.rs",
  "- src/2.rs",
  "- and 2 more",
  "",
];
const MARKDOWN = ["**T**", "S.", "", "### Objective", "- o", ...FACTS].join("\n");

const render = (sections: readonly EditSection[]) => renderFacts(sections, MARKDOWN).join("\n");
/** Returns the lines of the facts with a text replaced. */
const replaced = (from: string, to: string) => {
  const text = FACTS.slice(0, -1).join("\n");
  expect(text).toContain(from);
  return text.replace(from, to);
};
const at = (name: string) => editFacts(MARKDOWN).findIndex((section) => section.name === name);
const keyOf = (text: string) =>
  editFacts(MARKDOWN)
    .flatMap((section) => section.entries)
    .find((entry) => entry.text.startsWith(text))?.key ?? -1;

test("the entries are texts without bullets, indentation and escapes", () => {
  const entries = editFacts(MARKDOWN).map(({ name, entries }) => [name, ...entries.map(({ text }) => text)]);
  expect(entries).toEqual([
    ["Goal of the new thread", "Port <b> to\nPostgreSQL"],
    ["Rules", "# Never do it.", "Always."],
    ["Last request", "Port this:\n\n```rust\n    if x </b> {  }\n```\n### Commands"],
    ["Files changed", "src/1.rs", "src/2.rs", "and 2 more"],
  ]);
});

test("unchanged facts are rendered byte for byte", () => {
  expect(render(editFacts(MARKDOWN))).toBe(FACTS.slice(0, -1).join("\n"));
  const own =
    "**T**\nS.\n\n### Rules\n\n* a \n\n- b\nlazy\n\n\n### Commands\n- make  \n### Tasks\n- [ ] c\n\n";
  expect(renderFacts(editFacts(own), own).join("\n")).toBe(
    "\n### Rules\n\n* a \n\n- b\nlazy\n\n\n### Commands\n- make  \n### Tasks\n- [ ] c",
  );
});

test("a section has the name that the server gives it, and its own heading line", () => {
  const own = "**T**\nS.\n\n## rules\n- a\n";
  expect(editFacts(own)).toMatchObject([{ name: "Rules", heading: "rules" }]);
  const changed = changeEntry(editFacts(own), 0, "b");
  expect(renderFacts(changed, own)).toEqual(["", "## rules", "- b"]);
});

test("a changed entry changes no other line", () => {
  const sections = editFacts(MARKDOWN);
  expect(render(changeEntry(sections, keyOf("src/1"), " src/one.rs\n x "))).toBe(
    replaced("- src/1.rs", "- src/one.rs x"),
  );
  const request = "Port that:\n\n```rust\n    if x </b> {  }\n```\n\n\n### Commands\n  deep\n";
  expect(render(changeEntry(sections, keyOf("Port this"), request))).toBe(
    replaced("- Port this:", "- Port that:").replace(
      "  ```\n  ### Commands",
      "  ```\n\n\n  ### Commands\n    deep",
    ),
  );
});

test("a text that looks escaped is escaped once more", () => {
  const sections = editFacts(MARKDOWN);
  const changed = (text: string) => render(changeEntry(sections, keyOf("Always"), text));
  expect(changed("\\# x")).toBe(replaced("- Always.", "- \\\\# x"));
  expect(changed("1\\. x")).toBe(replaced("- Always.", "- 1\\\\. x"));
  expect(changed("# x")).toBe(replaced("- Always.", "- # x"));
  const [rules] = editFacts("**T**\nS.\n\n### Rules\n- \\\\# x\n- 1\\. y\n- 1\\\\. z\n");
  expect(rules?.entries.map(({ text }) => text)).toEqual(["\\# x", "1. y", "1\\. z"]);
});

test("an entry is removed with all its lines, and the last one with its section", () => {
  const sections = editFacts(MARKDOWN);
  expect(render(removeEntry(sections, keyOf("src/2")))).toBe(replaced("- src/2.rs\n", ""));
  expect(render(removeEntry(sections, keyOf("and 2")))).toBe(replaced("\n- and 2 more", ""));
  const without = removeEntry(sections, keyOf("Port this"));
  expect(without.map(({ name }) => name)).not.toContain("Last request");
  const request = FACTS.slice(8, 16).join("\n");
  expect(render(without)).toBe(replaced(`${request}\n`, ""));
});

test("an entry is added at the end, before the line about further entries, or after another entry", () => {
  const sections = editFacts(MARKDOWN);
  const added = addEntry(sections, at("Files changed"));
  expect(added.sections[3]?.entries.map(({ text }) => text)).toEqual([
    "src/1.rs",
    "src/2.rs",
    "",
    "and 2 more",
  ]);
  expect(render(added.sections)).toBe(render(sections));
  expect(render(changeEntry(added.sections, added.key, "src/3.rs"))).toBe(
    replaced("- and 2 more", "- src/3.rs\n- and 2 more"),
  );
  const between = addEntry(sections, at("Rules"), keyOf("# Never"));
  expect(render(changeEntry(between.sections, between.key, "Often."))).toBe(
    replaced("- Always.", "- Often.\n- Always."),
  );
});

describe("sections", () => {
  const sections = editFacts(MARKDOWN);

  test("a removed section is added again with its draft", () => {
    const without = removeEntry(sections, keyOf("Port this"));
    expect(addableSections(without, MARKDOWN)).toContainEqual({ name: "Last request", isInDraft: true });
    const again = addSection(without, "Last request", MARKDOWN);
    expect(render(again.sections)).toBe(render(sections));
    const keys = again.sections.flatMap(({ entries }) => entries.map(({ key }) => key));
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toContain(again.key);
  });
  test("a section that the draft lacks is added at its place with an empty entry", () => {
    expect(addableSections(sections, MARKDOWN)).toContainEqual({ name: "Pins", isInDraft: false });
    const { sections: added, key } = addSection(sections, "Pins", MARKDOWN);
    expect(added.map(({ name }) => name)).toEqual([
      "Goal of the new thread",
      "Rules",
      "Pins",
      "Last request",
      "Files changed",
    ]);
    expect(render(added)).toBe(render(sections));
    expect(render(changeEntry(added, key, "a\n\nb"))).toBe(
      replaced("\n### Last request", "\n### Pins\n- a\n\n  b\n\n### Last request"),
    );
  });
  test("sections that exist, and those that only the thread can fill, are not offered", () => {
    const names = addableSections(sections, MARKDOWN).map(({ name }) => name);
    expect(names).not.toContain("Rules");
    expect(names).not.toContain("Calls that wait for approval");
  });
});

test("the state of the last request is in its heading", () => {
  const sections = editFacts(MARKDOWN);
  const heading = (found: readonly EditSection[]) => found[at("Last request")]?.heading ?? "";
  expect(requestState(heading(sections))).toBe("open");
  const answered = setRequestState(sections, "answered");
  expect(requestState(heading(answered))).toBe("answered");
  expect(render(answered)).toBe(replaced("(still open)", "(answered; not to be done again)"));
  const unknown = setRequestState(sections, "unknown");
  expect(requestState(heading(unknown))).toBe("unknown");
  expect(render(unknown)).toBe(replaced(" (still open)", ""));
});

test("the sections differ in what their entries may be", () => {
  expect(["Goal of the new thread", "Pins", "Last request", "Rules"].map(keepsLineBreaks)).toEqual([
    true,
    true,
    true,
    false,
  ]);
  expect(["Goal of the new thread", "Last request", "Pins"].map(hasOneEntry)).toEqual([true, true, false]);
  const [, rules, , files] = editFacts(MARKDOWN);
  const last = files?.entries.at(-1);
  expect(files && last && isMoreEntry(files, last)).toBe(true);
  expect(rules?.entries.some((entry) => isMoreEntry(rules, entry))).toBe(false);
});
