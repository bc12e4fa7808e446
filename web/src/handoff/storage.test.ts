import { expect, test } from "vitest";
import type { Proposal } from "../api/types";
import { createEdit } from "./edit";
import { loadEdit, storeEdit, storeUnsent } from "./storage";

const proposal = {
  summary_sha256: "abc",
  package_md: "**Kettle**\n",
  summary_json: { title: "Kettle", tldr: "", body: [] },
} as unknown as Proposal;

test("an edit is kept while the drafts are loading, and removed when it equals its draft", () => {
  const edit = { ...createEdit(proposal), title: "Lid" };
  storeEdit("h", edit, [proposal]);
  expect(loadEdit("h")?.title).toBe("Lid");
  storeEdit("h", edit, null);
  expect(loadEdit("h")?.title).toBe("Lid");
  storeEdit("h", { ...edit, title: "Kettle" }, [proposal]);
  expect(loadEdit("h")).toBeNull();
});

test("an edit of an earlier version of the page gets the facts of its draft", () => {
  const markdown = "**Kettle**\n\n### Rules\n- Never.\n";
  const { facts, draftMarkdown, ...earlier } = createEdit({ ...proposal, package_md: markdown });
  storeUnsent("h", "edit", earlier);
  expect(loadEdit("h")).toMatchObject({ facts, draftMarkdown });
  expect(draftMarkdown).toBe(markdown);
});
