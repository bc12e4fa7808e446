import { describe, expect, test } from "vitest";
import { isSame, joinFile, mergeText, mergeNotes, notesOf, splitFile } from "./agentFile";

const BLOCK = "<current_thread_summary>\nNone recorded yet.\n</current_thread_summary>";
const file = (before: string, after: string) => `${before}${BLOCK}${after}`;
const splitOrFail = (text: string, block: string | null = "None recorded yet.") => {
  const parts = splitFile(text, block);
  if (!parts) throw new Error("cannot be split");
  return parts;
};

describe("the managed section", () => {
  test("is between the notes, with its heading, on separate lines", () => {
    expect(splitOrFail(file("# Notes\n", "\n- be kind\n"))).toMatchObject({
      before: "# Notes\n",
      managed: `${BLOCK}\n`,
      after: "- be kind\n",
    });
    expect(splitOrFail(file("a\n\n## Recent Thread Snapshot\n", "\n"))).toMatchObject({
      before: "a\n\n",
      managed: `## Recent Thread Snapshot\n${BLOCK}\n`,
      after: "",
    });
    expect(splitOrFail("only notes\n", null)).toMatchObject({
      before: "only notes\n",
      managed: "",
      after: "",
    });
  });

  test("is distinguished from tags in a code fence, and never guessed", () => {
    const fenced = "```\n<current_thread_summary>\nexample\n</current_thread_summary>\n```\n";
    expect(splitOrFail(file(fenced, "\n")).before).toBe(fenced);
    expect(splitFile(`${BLOCK}\n${BLOCK}`, "None recorded yet.")).toBeNull();
    expect(splitFile("no block", "gone")).toBeNull();
    expect(splitFile("<current_thread_summary>\nunclosed", "unclosed")).toBeNull();
  });

  test("and unchanged text are kept byte for byte", () => {
    for (const text of [
      file("a\r\nb\r\n", "\r\nc"),
      `\ufeff${file("x\n", "\n")}`,
      file("", ""),
      file("old\rmac\r", "\r\nmixed\n"),
      file("## Recent Thread Snapshot\r\n  ", "  \r\n\r\n"),
    ]) {
      const parts = splitOrFail(text);
      expect(joinFile(parts, notesOf(parts))).toBe(text);
    }
  });

  test("stays on separate lines, whatever the notes are", () => {
    const parts = splitOrFail(file("a\n", ""));
    expect(joinFile(parts, { before: "a", after: "b" })).toBe(file("a\n", "\nb"));
    expect(joinFile(parts, { before: "", after: "" })).toBe(file("", ""));
  });

  test("edited notes keep their line endings", () => {
    const parts = splitOrFail(file("a\r\nb\r\n", "\r\nc\r\n"));
    const notes = notesOf(parts);
    expect(notes.before).toBe("a\nb\n");
    expect(joinFile(parts, { ...notes, before: "a\nx\nb\n" })).toBe(file("a\r\nx\r\nb\r\n", "\r\nc\r\n"));
    const mixed = splitOrFail(file("a\nb\r\nc\n", "\n"));
    expect(joinFile(mixed, { before: "a\nb\nnew\nc\n", after: "" })).toBe(file("a\nb\r\nnew\r\nc\n", "\n"));
    expect(joinFile(mixed, { before: "b\nc\n", after: "" })).toBe(file("b\r\nc\n", "\n"));
  });
});

describe("merging two changes", () => {
  const base = "one\ntwo\nthree\nfour\nfive\n";
  test("keeps both if they affect different lines", () => {
    expect(mergeText(base, base.replace("one", "ONE"), `${base}six\n`)).toBe(
      "ONE\ntwo\nthree\nfour\nfive\nsix\n",
    );
    expect(mergeText(base, base.replace("five", "FIVE"), base.replace("two\n", ""))).toBe(
      "one\nthree\nfour\nFIVE\n",
    );
    expect(mergeText(base, base, "other")).toBe("other");
    expect(mergeText(base, "mine", base)).toBe("mine");
    expect(mergeText(base, "same", "same")).toBe("same");
  });

  test("is a conflict if they affect the same or adjacent lines", () => {
    expect(mergeText(base, base.replace("two", "2"), base.replace("two", "zwei"))).toBeNull();
    expect(mergeText(base, `${base}mine\n`, `${base}theirs\n`)).toBeNull();
    expect(
      mergeNotes({ before: "a", after: "" }, { before: "b", after: "" }, { before: "c", after: "" }),
    ).toBeNull();
  });

  test("never loses a line", () => {
    const lines = () => Array.from({ length: 6 }, (_, index) => `line ${index}`);
    for (let mine = 0; mine < 6; mine++) {
      for (let theirs = 0; theirs < 6; theirs++) {
        const [a, b] = [lines(), lines()];
        a.splice(mine, 1, "mine");
        b.splice(theirs, 0, "theirs");
        const merged = mergeText(lines().join("\n"), a.join("\n"), b.join("\n"));
        if (merged === null) continue;
        expect(merged.split("\n")).toContain("mine");
        expect(merged.split("\n")).toContain("theirs");
      }
    }
  });

  test("notes are equal if both parts are", () => {
    expect(isSame({ before: "a", after: "b" }, { before: "a", after: "b" })).toBe(true);
    expect(isSame({ before: "a", after: "b" }, { before: "a", after: "" })).toBe(false);
  });
});
