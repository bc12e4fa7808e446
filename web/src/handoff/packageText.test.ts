import { expect, test } from "vitest";
import { entryLines, escapeLine, factSections, parsePackage } from "./packageText";

test("calls that wait for approval are facts", () => {
  const markdown = "**T**\nS.\n\n### Objective\n- a\n\n### Calls that wait for approval\n- execute: {}\n";
  expect(factSections(markdown)).toEqual([
    { heading: "Calls that wait for approval", entries: ["execute: {}"] },
  ]);
});

test("an entry of several lines is one entry with its line breaks and indentation", () => {
  const markdown =
    "**T**\nD\n\n### Last request\n- Port it:\n\n  ```\n      a\n  ```\n\n### Commands\n- make\n";
  expect(factSections(markdown)).toEqual([
    { heading: "Last request", entries: ["Port it:\n\n```\n    a\n```"] },
    { heading: "Commands", entries: ["make"] },
  ]);
});

test("all lines together are the text again", () => {
  const markdown =
    "\n**T**\nS.\n\n\n### Progress\n- a\n\n  b\n### Rules\n\n* c\nlazy\n### Pins\n- d\n\n  e \n \n### Empty\n\n";
  const { head, sections, end } = parsePackage(markdown);
  const lines = sections.flatMap(({ headingLines, entries }) => [
    ...headingLines,
    ...entries.flatMap(({ lines }) => lines),
  ]);
  expect([...head, ...lines, ...end].join("\n")).toBe(markdown);
  expect(parsePackage("")).toEqual({ head: [], sections: [], end: [""] });
});

test("an escaped start and an escaped tag are shown as they were meant", () => {
  const entries = ["\\# a", "\\\\# b", "1\\. c", "x \\# d", "&lt;b> &gt;", "[ ] e"];
  const markdown = `### Rules\n${entries.map((entry) => `- ${entry}\n`).join("")}`;
  expect(factSections(markdown)[0]?.entries).toEqual([
    "# a",
    "\\# b",
    "1. c",
    "x \\# d",
    "<b> &gt;",
    "[ ] e",
  ]);
  expect(["# a", "\\# b", "1\\. c", "~/x", "~~~ x", "```", " a \n b "].map(escapeLine)).toEqual([
    "# a",
    "\\\\# b",
    "1\\\\. c",
    "~/x",
    "\\~~~ x",
    "`",
    "a b",
  ]);
  expect(entryLines("~~~\n  a\n\n\\# b\n~~~")).toEqual(["- ~~~", "    a", "", "  \\# b", "  ~~~"]);
});

test("headings of a person's own text are recognized as the server does", () => {
  const markdown =
    "**Objective**\nS.\n# Objective:\n- a\n**next step**\n- b\n## rules\n- c\n#### Last request (still open)\n- d\n  # e\n#f\n";
  expect(parsePackage(markdown).head).toEqual(["**Objective**", "S."]);
  const sections = parsePackage(markdown).sections.map(({ heading, isFact, entries }) => [
    heading,
    isFact,
    ...entries.map(({ text }) => text),
  ]);
  expect(sections).toEqual([
    ["Objective", false, "a"],
    ["Next steps", false, "b"],
    ["rules", true, "c"],
    ["Last request (still open)", true, "d\n# e", "#f"],
  ]);
  expect(parsePackage("# Rules\nS.\n").head).toEqual(["# Rules", "S."]);
});
