import { expect, test } from "vitest";
import { completions, isWhole, written } from "./commands";

const names = (text: string) => completions(text).map(({ name }) => name);

test("what is begun with a slash is completed until it is a word", () => {
  expect(names("/")).toHaveLength(6);
  expect(names("/c")).toEqual(["compact"]);
  expect(names("/HAND")).toEqual(["handoff"]);
  expect(names("/compact now")).toEqual([]);
  expect(names("say /c")).toEqual([]);
  expect(names("")).toEqual([]);
});

test("a known command is found with what follows it, anything else is a message", () => {
  expect(written("/handoff  finish the\nrelease ")).toMatchObject({
    command: { name: "handoff" },
    rest: "finish the\nrelease",
  });
  expect(written(" /fork ")).toMatchObject({ command: { name: "fork" }, rest: "" });
  for (const message of ["/etc/hosts is empty", "/unknown", "/", "a /fork", "//fork"])
    expect(written(message)).toBeNull();
});

test("words after a command that takes none are a message, and nothing is done", () => {
  expect(written("/fork the repo on GitHub and open a pull request")).toBeNull();
  expect(written("/uncompact\nwhat you just condensed")).toBeNull();
  expect(written("/compact the tests")).toMatchObject({ command: { name: "compact" }, rest: "the tests" });
});

test("a word that is whole needs no completion, whatever of it is written large", () => {
  const [compact] = completions("/compact");
  expect(compact && isWhole("/Compact", compact)).toBe(true);
  expect(compact && isWhole("/comp", compact)).toBe(false);
});
