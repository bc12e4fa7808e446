// Tests of code highlighting: the spans, and that adversarial input does not make highlighting slow.
import { describe, expect, test } from "vitest";
import { highlight } from "./highlight";

/** Renders the spans in a readable form: `kind‹text›`. */
const render = (code: string, lang: string) =>
  highlight(code, lang)
    .map(({ kind, text }) => (kind ? `${kind}‹${text}›` : text))
    .join("");

test.each([
  [
    "rust",
    "fn a<'x>() { b!(\"c\", 'd', 1_0u8) } // e",
    "keyword‹fn› title‹a›<attr‹'x›>() { title‹b›!(string‹\"c\"›, string‹'d'›, number‹1_0u8›) } comment‹// e›",
  ],
  ["rs", '#[test]\nr#"a"b"#', 'attr‹#[test]›\nstring‹r#"a"b"#›'],
  [
    "ts",
    "const a: string = `b\n${c}`; /* d",
    "keyword‹const› a: keyword‹string› = string‹`b\n${c}`›; comment‹/* d›",
  ],
  [
    "python",
    "@a.b\ndef c(d): # '\n  '''e\n'''",
    "attr‹@a.b›\nkeyword‹def› title‹c›(d): comment‹# '›\n  string‹'''e\n'''›",
  ],
  [
    "sh",
    "cat a | grep -n 'b' \"$c\" # d",
    "title‹cat› a | title‹grep› -n string‹'b'› string‹\"$c\"› comment‹# d›",
  ],
  ["json", '{"a": ["b", 1, true]}', '{attr‹"a"›: [string‹"b"›, number‹1›, keyword‹true›]}'],
  ["yaml", "a: 'b' # c\n- d: 1", "attr‹a›: string‹'b'› comment‹# c›\nattr‹- d›: number‹1›"],
  ["toml", "[a]\nb = 'c'", "title‹[a]›\nattr‹b› = string‹'c'›"],
  [
    "SQL",
    "SELECT a FROM b WHERE c = 'd' -- e",
    "keyword‹SELECT› a keyword‹FROM› b keyword‹WHERE› c = string‹'d'› comment‹-- e›",
  ],
  ["html", '<a href="b">c</a>', 'keyword‹<a› attr‹href›=string‹"b"›keyword‹>›ckeyword‹</a›keyword‹>›'],
  [
    "diff",
    "--- a\n+++ b\n@@ -1 @@\n-x\n+y\n z",
    "attr‹--- a›\nattr‹+++ b›\nattr‹@@ -1 @@›\nremoved‹-x›\nadded‹+y›\n z",
  ],
  ["css", "a { color: #fff; } /* b */", "a { attr‹color›: number‹#fff›; } comment‹/* b */›"],
  ["constructor", "let a", "let a"],
  ["", "let a", "let a"],
])("%s", (lang, code, expected) => expect(render(code, lang)).toBe(expected));

describe("hostile code is highlighted fast and unchanged", () => {
  const langs =
    "rust c cpp go java javascript typescript python ruby bash json yaml toml sql xml css diff markdown".split(
      " ",
    );
  const texts: [string, string][] = [
    ["a", "a".repeat(50_000)],
    ["blanks", " ".repeat(50_000)],
    ["quotes", '"'.repeat(49_999)],
    ["apostrophes", "'".repeat(49_999)],
    ["three quotes", "\"\"\"'''".repeat(8_000)],
    ["backticks", "`".repeat(49_999)],
    ["comments", "/*".repeat(25_000)],
    ["tags", "<!--".repeat(12_000)],
    ["hashes", "#[".repeat(25_000)],
    ["raw strings", 'r#"'.repeat(16_000)],
    ["brackets", "[".repeat(50_000)],
    ["dollars", "${".repeat(25_000)],
    ["backslashes", `"${"\\".repeat(49_000)}`],
    ["digits", "1_".repeat(25_000)],
    ["dashes", "- ".repeat(25_000)],
    ["fences", "```\n".repeat(12_000)],
    ["words", "a.b-c ".repeat(8_000)],
    ["pipes", "|   ".repeat(12_000)],
    ["semicolons", "; ".repeat(25_000)],
  ];
  test.each(texts)("%s", (_name, text) => {
    for (const lang of langs) {
      expect(
        highlight(text, lang)
          .map((part) => part.text)
          .join(""),
      ).toBe(text);
    }
  });
});
