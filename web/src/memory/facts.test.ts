import { expect, test } from "vitest";
import { mergeFacts, nextFact, refusalMessage } from "./facts";

const facts = (ids: string) => [...ids].map((fact_id) => ({ fact_id }));
const ids = (list: { fact_id: string }[]) => list.map(({ fact_id }) => fact_id).join("");

test("facts with unsaved edits stay in their positions when the list is reloaded", () => {
  expect(ids(mergeFacts(facts("abcd"), facts("acde"), {}))).toBe("acde");
  expect(ids(mergeFacts(facts("abcd"), facts("acde"), { b: "typed", c: "" }))).toBe("abcde");
  expect(ids(mergeFacts(facts("abc"), facts("c"), { a: "", b: "" }))).toBe("abc");
  expect(ids(mergeFacts(facts("abc"), [], { c: "typed" }))).toBe("c");
});

test("the focus moves to the nearest fact that is left, preferably a later one", () => {
  expect(nextFact(facts("abc"), facts("ac"), "b")).toBe("c");
  expect(nextFact(facts("abc"), facts("ab"), "c")).toBe("b");
  expect(nextFact(facts("abcd"), facts("ad"), "b")).toBe("d");
  expect(nextFact(facts("a"), facts("x"), "a")).toBe("x");
  expect(nextFact(facts("a"), [], "a")).toBeNull();
});

test("a refused decision is explained by the state of the fact", () => {
  expect(refusalMessage("declined")).toBe("This fact was declined elsewhere.");
  expect(refusalMessage("accepted")).toBe("This fact was accepted elsewhere.");
  expect(refusalMessage("edited")).toMatch(/edited .* elsewhere/);
  expect(refusalMessage("superseded")).toMatch(/replaced/);
  expect(refusalMessage("proposed")).toMatch(/Try again/);
  expect(refusalMessage(null)).toMatch(/no longer exists/);
});
