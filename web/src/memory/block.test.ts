import { describe, expect, test } from "vitest";
import { isSame, join, merged, mergedNotes, notesOf, split } from "./block";

const BLOCK = "<current_thread_summary>\nNone recorded yet.\n</current_thread_summary>";
const file = (before: string, after: string) => `${before}${BLOCK}${after}`;
const take = (text: string, block: string | null = "None recorded yet.") => {
  const parts = split(text, block);
  if (!parts) throw new Error("cannot be split");
  return parts;
};

describe("the part that Segue keeps", () => {
  test("stands between the notes, with its heading, on lines of its own", () => {
    expect(take(file("# Notes\n", "\n- be kind\n"))).toMatchObject({
      before: "# Notes\n",
      managed: `${BLOCK}\n`,
      after: "- be kind\n",
    });
    expect(take(file("a\n\n## Recent Thread Snapshot\n", "\n"))).toMatchObject({
      before: "a\n\n",
      managed: `## Recent Thread Snapshot\n${BLOCK}\n`,
      after: "",
    });
    expect(take("only notes\n", null)).toMatchObject({ before: "only notes\n", managed: "", after: "" });
  });

  test("is found beside tags in a code fence that hold something else, and not guessed", () => {
    const fenced = "```\n<current_thread_summary>\nexample\n</current_thread_summary>\n```\n";
    expect(take(file(fenced, "\n")).before).toBe(fenced);
    expect(split(`${BLOCK}\n${BLOCK}`, "None recorded yet.")).toBeNull();
    expect(split("no block", "gone")).toBeNull();
    expect(split("<current_thread_summary>\nunclosed", "unclosed")).toBeNull();
  });

  test("stays as it is byte for byte, and so does what was not changed", () => {
    for (const text of [
      file("a\r\nb\r\n", "\r\nc"),
      `\ufeff${file("x\n", "\n")}`,
      file("", ""),
      file("old\rmac\r", "\r\nmixed\n"),
      file("## Recent Thread Snapshot\r\n  ", "  \r\n\r\n"),
    ]) {
      const parts = take(text);
      expect(join(parts, notesOf(parts))).toBe(text);
    }
  });

  test("keeps its lines to itself, whatever is written before and after it", () => {
    const parts = take(file("a\n", ""));
    expect(join(parts, { before: "a", after: "b" })).toBe(file("a\n", "\nb"));
    expect(join(parts, { before: "", after: "" })).toBe(file("", ""));
  });

  test("what is changed keeps the ends of lines that are there", () => {
    const parts = take(file("a\r\nb\r\n", "\r\nc\r\n"));
    const notes = notesOf(parts);
    expect(notes.before).toBe("a\nb\n");
    expect(join(parts, { ...notes, before: "a\nx\nb\n" })).toBe(file("a\r\nx\r\nb\r\n", "\r\nc\r\n"));
    const mixed = take(file("a\nb\r\nc\n", "\n"));
    expect(join(mixed, { before: "a\nb\nnew\nc\n", after: "" })).toBe(file("a\nb\r\nnew\r\nc\n", "\n"));
    expect(join(mixed, { before: "b\nc\n", after: "" })).toBe(file("b\r\nc\n", "\n"));
  });
});

describe("two changes of one text", () => {
  const base = "one\ntwo\nthree\nfour\nfive\n";
  test("of different lines are both kept", () => {
    expect(merged(base, base.replace("one", "ONE"), `${base}six\n`)).toBe(
      "ONE\ntwo\nthree\nfour\nfive\nsix\n",
    );
    expect(merged(base, base.replace("five", "FIVE"), base.replace("two\n", ""))).toBe(
      "one\nthree\nfour\nFIVE\n",
    );
    expect(merged(base, base, "other")).toBe("other");
    expect(merged(base, "mine", base)).toBe("mine");
    expect(merged(base, "same", "same")).toBe("same");
  });

  test("of the same lines, or of neighbours, are for a person", () => {
    expect(merged(base, base.replace("two", "2"), base.replace("two", "zwei"))).toBeNull();
    expect(merged(base, `${base}mine\n`, `${base}theirs\n`)).toBeNull();
    expect(
      mergedNotes({ before: "a", after: "" }, { before: "b", after: "" }, { before: "c", after: "" }),
    ).toBeNull();
  });

  test("never lose a line that one of them wrote", () => {
    const lines = () => Array.from({ length: 6 }, (_, index) => `line ${index}`);
    for (let mine = 0; mine < 6; mine++) {
      for (let theirs = 0; theirs < 6; theirs++) {
        const [a, b] = [lines(), lines()];
        a.splice(mine, 1, "mine");
        b.splice(theirs, 0, "theirs");
        const both = merged(lines().join("\n"), a.join("\n"), b.join("\n"));
        if (both === null) continue;
        expect(both.split("\n")).toContain("mine");
        expect(both.split("\n")).toContain("theirs");
      }
    }
  });

  test("notes are the same when both are", () => {
    expect(isSame({ before: "a", after: "b" }, { before: "a", after: "b" })).toBe(true);
    expect(isSame({ before: "a", after: "b" }, { before: "a", after: "" })).toBe(false);
  });
});
