import { expect, test } from "vitest";
import { completions, isComplete, parseCommand } from "./commands";

const names = (text: string) => completions(text).map(({ name }) => name);

test("a partial command is completed", () => {
  expect(names("/")).toHaveLength(7);
  expect(names("/c")).toEqual(["compact"]);
  expect(names("/HAND")).toEqual(["handoff"]);
  expect(names("/compact now")).toEqual([]);
  expect(names("say /c")).toEqual([]);
  expect(names("")).toEqual([]);
});

test("a known command is parsed with its argument, anything else is a message", () => {
  expect(parseCommand("/handoff  finish the\nrelease ")).toMatchObject({
    command: { name: "handoff" },
    rest: "finish the\nrelease",
  });
  expect(parseCommand(" /fork ")).toMatchObject({ command: { name: "fork" }, rest: "" });
  for (const message of ["/etc/hosts is empty", "/unknown", "/", "a /fork", "//fork"])
    expect(parseCommand(message)).toBeNull();
});

test("an argument after a command that takes none makes it a message", () => {
  expect(parseCommand("/fork the repo on GitHub and open a pull request")).toBeNull();
  expect(parseCommand("/uncompact\nwhat you just compacted")).toBeNull();
  expect(parseCommand("/compact the tests")).toMatchObject({
    command: { name: "compact" },
    rest: "the tests",
  });
});

test("a complete name in any case needs no completion", () => {
  const [compact] = completions("/compact");
  expect(compact && isComplete("/Compact", compact)).toBe(true);
  expect(compact && isComplete("/comp", compact)).toBe(false);
});
