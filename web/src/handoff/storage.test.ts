import { expect, test } from "vitest";
import type { Proposal } from "../api/types";
import { createEdit, type SummaryEdit } from "./edit";
import { storeEdit, loadUnsent } from "./storage";

const proposal = {
  summary_sha256: "abc",
  package_md: "**Kettle**\n",
  summary_json: { title: "Kettle", tldr: "", body: [] },
} as unknown as Proposal;

test("an edit is kept while the drafts are loading, and removed when it equals its draft", () => {
  const edit = { ...createEdit(proposal), title: "Lid" };
  storeEdit("h", edit, [proposal]);
  expect(loadUnsent<SummaryEdit>("h", "edit")?.title).toBe("Lid");
  storeEdit("h", edit, null);
  expect(loadUnsent<SummaryEdit>("h", "edit")?.title).toBe("Lid");
  storeEdit("h", { ...edit, title: "Kettle" }, [proposal]);
  expect(loadUnsent<SummaryEdit>("h", "edit")).toBeNull();
});
