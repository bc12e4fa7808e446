// Markdown is parsed like in another implementation where it is well-formed. Hostile input is parsed fast, as
// harmless text.
import { readFileSync } from "node:fs";
import { lexer, type Token, type Tokens } from "marked";
import { describe, expect, test } from "vitest";
import { type Block, parseBlocks } from "./blocks";
import { StreamingParser } from "./streaming";
import { type Inline, parseInlines, textOf } from "./inlines";
import { isSelfDescribing, linkTargetOf } from "./links";

/** Renders inline nodes in a readable form. */
function renderInlines(found: Inline[]): string {
  const one = (inline: Inline): string => {
    switch (inline.type) {
      case "text":
        return inline.text;
      case "code":
        return `\`${inline.text}\``;
      case "break":
        return "<br>";
      case "link":
        return `${inline.image ? "!" : ""}<${renderInlines(inline.inlines)}|${inline.href}>`;
      default:
        return `<${inline.type}>${renderInlines(inline.inlines)}</>`;
    }
  };
  return found.map(one).join("");
}
const renderText = (text: string) => renderInlines(parseInlines(text));

/** Renders blocks in a readable form. */
function renderBlocks(found: Block[]): string {
  const one = (block: Block): string => {
    switch (block.type) {
      case "paragraph":
        return `p(${block.text})`;
      case "heading":
        return `h${block.depth}(${block.text})`;
      case "code":
        return `code${block.lang ? `:${block.lang}` : ""}${block.open ? "…" : ""}(${block.text})`;
      case "quote":
        return `quote(${renderBlocks(block.blocks)})`;
      case "list": {
        const items = block.items.map(
          ({ done, blocks }) => `${done === null ? "" : done ? "x " : "_ "}${renderBlocks(blocks)}`,
        );
        return `${block.first === null ? "ul" : `ol${block.first}`}${block.loose ? "~" : ""}(${items.join("; ")})`;
      }
      case "table":
        return `table(${[block.head, ...block.rows].map((row) => row.join("|")).join("; ")})`;
      case "rule":
        return "rule";
    }
  };
  return found.map(one).join(" ");
}
const renderBlocksOf = (text: string) => renderBlocks(parseBlocks(text));

describe("blocks", () => {
  test.each([
    ["", ""],
    ["a\nb\n\nc", "p(a\nb) p(c)"],
    ["# A #\n## B\ntext\n#hash", "h1(A) h2(B) p(text\n#hash)"],
    ["A\n===\nB\n---\n\n---", "h1(A) h2(B) rule"],
    ["```rust\nfn a() {}\n\n  b\n```\nc", "code:rust(fn a() {}\n\n  b) p(c)"],
    ["````\n```\n````", "code(```)"],
    ["~~~\na", "code…(a)"],
    ["```js", "code:js…()"],
    ["text\n```\na\n```", "p(text) code(a)"],
    ["``` a ` b", "p(``` a ` b)"],
    ["    a\n\n      b\nc", "code(a\n\n  b) p(c)"],
    ["> a\nb\n> c\n\nd", "quote(p(a\nb\nc)) p(d)"],
    ["> > a", "quote(quote(p(a)))"],
    ["> ```\n> a\n> ```\nb", "quote(code(a)) p(b)"],
    ["- a\n- b\n  - c\n- d", "ul(p(a); p(b) ul(p(c)); p(d))"],
    ["- a\n\n- b", "ul~(p(a); p(b))"],
    ["1. a\n\n   b\n2. c", "ol1~(p(a) p(b); p(c))"],
    ["3) a\n4) b\n- c", "ol3(p(a); p(b)) ul(p(c))"],
    ["- [ ] a\n- [x] b\n- [y] c", "ul(_ p(a); x p(b); p([y] c))"],
    ["- a\nlazy\n\nb", "ul(p(a\nlazy)) p(b)"],
    ["- a\n\n  ```\n  x\n\n  y\n  ```\n- b", "ul~(p(a) code(x\n\ny); p(b))"],
    ["1. a\n    - b\n    - c\n2. d", "ol1(p(a) ul(p(b); p(c)); p(d))"],
    ["- a\n\n\n\nb", "ul(p(a)) p(b)"],
    ["*\n- a", "ul() ul(p(a))"],
    ["* * *", "rule"],
    ["In\n1986. a", "p(In\n1986. a)"],
    ["In\n1. a", "p(In) ol1(p(a))"],
    ["| a | b |\n| --- | :-: |\n| 1 | `x\\|y` |\n| 2\n\nc", "table(a|b; 1|`x|y`; 2|) p(c)"],
    ["text\na | b\n--|--\n1 | 2", "p(text) table(a|b; 1|2)"],
    ["a | b\n--", "h2(a | b)"],
    ["<script>alert(1)</script>\n\n<div>\n# A", "p(<script>alert(1)</script>) p(<div>) h1(A)"],
    ["a\r\n\r\n- b\r\n- c", "p(a) ul(p(b); p(c))"],
  ])("%j", (text, expected) => expect(renderBlocksOf(text)).toBe(expected));
});

describe("inlines", () => {
  test.each([
    [
      "*a* **b** ***c*** _d_ __e__ ~~f~~ ~g~",
      "<em>a</> <strong>b</> <em><strong>c</></> <em>d</> <strong>e</> <del>f</> ~g~",
    ],
    ["snake_case_name 2 * 3 * 4 **a*b", "snake_case_name 2 * 3 * 4 **a*b"],
    ["**a *b* c** *a **b** c*", "<strong>a <em>b</> c</> <em>a <strong>b</> c</>"],
    ["`a` ``b`c`` `` ` `` `x", "`a` `b`c` ``` `x"],
    ["`*a*` \\*a\\* \\a", "`*a*` *a* \\a"],
    ['[a](https://b.c) [a](<b c> "t") [a]( b )', "<a|https://b.c> <a|b c> <a|b>"],
    ["[a](b(c)d) [a] [a](b c) [a](b", "<a|b(c)d> [a] [a](b c) [a](b"],
    ["[**a** `b`](c) ![d](e)", "<<strong>a</> `b`|c> !<d|e>"],
    ["[a [b](c) d](e)", "[a <b|c> d](e)"],
    ["[https://a.b](https://c.d)", "<https://a.b|https://c.d>"],
    [
      "see https://a.b/c_(d)_e, (https://a.b) or <https://x.y/*z*>.",
      "see <https://a.b/c_(d)_e|https://a.b/c_(d)_e>, (<https://a.b|https://a.b>) or <https://x.y/*z*|https://x.y/*z*>.",
    ],
    ["**https://a.b**", "<strong><https://a.b|https://a.b></>"],
    ["<me@a.b> xhttps://a.b <b>c</b>", "<me@a.b|mailto:me@a.b> xhttps://a.b <b>c</b>"],
    ["a  \nb\\\nc\nd", "a<br>b<br>c\nd"],
    ["&lt;b&gt; &#65;&#x42; &nope; &#0;", "<b> AB &nope; \ufffd"],
    ["**a", "**a"],
  ])("%j", (text, expected) => expect(renderText(text)).toBe(expected));

  test("emphasis within words works without spaces, also in Chinese", () => {
    expect(renderText("5*3*2")).toBe("5<em>3</>2");
    expect(renderText("**你好**世界")).toBe("<strong>你好</>世界");
  });
});

/** Reduces the tokens of `marked` to the block types that both parsers know. */
function markedKinds(tokens: Token[]): string {
  return tokens
    .flatMap((token) => {
      switch (token.type) {
        case "space":
        case "def":
          return [];
        case "list":
          return [`list(${(token as Tokens.List).items.map((item) => markedKinds(item.tokens)).join(";")})`];
        case "blockquote":
          return [`quote(${markedKinds(token.tokens ?? [])})`];
        case "text":
        case "html":
          return ["paragraph"];
        case "hr":
          return ["rule"];
        case "heading":
          return [`heading${(token as Tokens.Heading).depth}`];
        case "checkbox":
          return [];
        default:
          return [token.type];
      }
    })
    .join(" ");
}
function ownKinds(found: Block[]): string {
  return found
    .map((block) => {
      if (block.type === "list") return `list(${block.items.map((item) => ownKinds(item.blocks)).join(";")})`;
      if (block.type === "quote") return `quote(${ownKinds(block.blocks)})`;
      return block.type === "heading" ? `heading${block.depth}` : block.type;
    })
    .join(" ");
}

test("documents have the same blocks as in another parser", () => {
  const files = ["http.md", "history-json.md", "decisions.md", "run-json.md"].map(
    (name) => `../docs/src/${name}`,
  );
  for (const file of [...files, "../README.md", "../ARCHITECTURE.md"]) {
    const text = readFileSync(file, "utf8");
    expect(ownKinds(parseBlocks(text)), file).toBe(markedKinds(lexer(text)));
  }
});

test("c5_streaming_gives_the_same_blocks_as_parsing_at_once", () => {
  const text = [
    "# A\n\n1. a\n\n2. b\n   - c\n\n\n3. d\n\ntext\n\n```js\nlet a;\n\n// b\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n",
    "> q\n> r\n\n- x\n\n- y\n\nlast **one**\n===\n",
  ].join("");
  const parser = new StreamingParser();
  for (let end = 0; end <= text.length; end += 1)
    expect(renderBlocks(parser.parse(text.slice(0, end)).flat())).toBe(renderBlocksOf(text.slice(0, end)));
  expect(renderBlocks(parser.parse("other").flat())).toBe("p(other)");
});

test("stable blocks are not parsed again", () => {
  const growing = new StreamingParser();
  const text = "para\n\n".repeat(1_000);
  const before = growing.parse(text);
  const after = growing.parse(`${text}more`);
  expect(after.flat().length).toBe(1_001);
  expect(after.flat().every((block, index) => index >= 998 || block === before.flat()[index])).toBe(true);
  // Unchanged groups are reused.
  expect(after.slice(0, -2).every((group, index) => group === before[index])).toBe(true);
});

describe("k7_only_web_and_mail_links_can_be_followed", () => {
  test.each([
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "\u0001javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:https://a/b",
    "//evil.example",
    "/relative",
    "#hash",
    "https:",
    "https://",
    "http:javascript:alert(1)\u0000",
    "javascript&colon;alert(1)",
    `https://a.b/${"a".repeat(5_000)}`,
  ])("%j", (address) => expect(linkTargetOf(address)).toBeNull());

  test("valid links keep their address", () => {
    expect(linkTargetOf("https://a.b/c?d=1&e=2")).toEqual({ href: "https://a.b/c?d=1&e=2", host: "a.b" });
    expect(linkTargetOf("mailto:me@a.b")).toEqual({ href: "mailto:me@a.b", host: "me@a.b" });
    // Homographs are recognizable by the host.
    expect(linkTargetOf("https://p\u0430ypal.com")?.host).toBe("xn--pypal-4ve.com");
    expect(linkTargetOf("https://good.example@evil.example/")?.host).toBe("evil.example");
  });

  test("entities cannot form a forbidden scheme", () => {
    for (const text of ["[a](java&#115;cript:alert(1))", "[a](&#106;avascript:x)", "[a](javascript&#58;x)"]) {
      const link = parseInlines(text).find((inline) => inline.type === "link");
      expect(link && linkTargetOf(link.href)).toBeFalsy();
    }
  });

  test("a link is self-describing if its text is its address", () => {
    const to = (address: string) => linkTargetOf(address) ?? { href: "", host: "" };
    expect(isSelfDescribing("https://a.b", to("https://a.b/"))).toBe(true);
    expect(isSelfDescribing("a.b", to("https://a.b/c"))).toBe(true);
    expect(isSelfDescribing("https://good.example", to("https://evil.example"))).toBe(false);
    expect(isSelfDescribing("the docs", to("https://a.b"))).toBe(false);
  });
});

describe("k7_hostile_text_is_parsed_fast_and_flat", () => {
  const many = 10_000;
  const depthOf = (found: Block[]): number =>
    Math.max(
      0,
      ...found.map((block) =>
        block.type === "quote"
          ? 1 + depthOf(block.blocks)
          : block.type === "list"
            ? 1 + Math.max(0, ...block.items.map((item) => depthOf(item.blocks)))
            : 0,
      ),
    );
  const inlineDepth = (found: Inline[]): number =>
    Math.max(0, ...found.map((inline) => ("inlines" in inline ? 1 + inlineDepth(inline.inlines) : 0)));
  const texts: [string, string][] = [
    ["a line of a megabyte", "a".repeat(1_000_000)],
    ["quotes in quotes", `${"> ".repeat(many)}a`],
    ["quotes without blanks", `${">".repeat(many)}a\n`.repeat(5)],
    ["lists in lists", `${"- ".repeat(many)}a`],
    ["numbered lists in lists", `${"1. ".repeat(many)}a`],
    [
      "deeper and deeper lists",
      Array.from({ length: 600 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n"),
    ],
    ["items", "- a\n".repeat(50_000)],
    ["empty items", "-\n".repeat(50_000)],
    ["lazy lines", `- a\n${"b\n".repeat(50_000)}`],
    ["brackets", "[".repeat(50_000)],
    ["brackets closed", "[".repeat(20_000) + "]".repeat(20_000)],
    ["links in links", `${"[a](b".repeat(8_000)}`],
    ["links in brackets", `${"[".repeat(20_000)}${"[a](b) ".repeat(4_000)}`],
    ["images in images", `${"![".repeat(10_000)}${"](a)".repeat(7_000)}`],
    ["stars", "*a ".repeat(16_000)],
    ["stars closed", "a* ".repeat(16_000)],
    ["marks in marks", "*a _a ".repeat(4_000) + "a_ a* ".repeat(4_000)],
    ["a row of stars", "*".repeat(50_000)],
    ["stars that almost match", "a**b".repeat(12_000)],
    ["backticks", Array.from({ length: 300 }, (_, count) => "`".repeat(count)).join(" ")],
    ["backticks of one length", "` `` ".repeat(10_000)],
    ["angle brackets", "<a:".repeat(16_000)],
    ["addresses", "https://a.b/".repeat(4_000)],
    ["full stops behind an address", `https://a.b/${".)".repeat(20_000)}`],
    ["entities", "&#x202e;&".repeat(5_000)],
    ["lines of blanks", `${" ".repeat(50_000)}\n`.repeat(10)],
    ["a heading of hashes", `# ${"#".repeat(500_000)} a`],
    ["a heading of blanks", `# ${" #".repeat(400_000)}a`],
    ["rules that are none", `${"- ".repeat(300_000)}a`],
    ["table rows", `a|b\n-|-\n${"|\n".repeat(50_000)}`],
    ["a table that is none", `${"a|".repeat(100_000)}\n${"-|".repeat(100_000)}\n`.repeat(3)],
    ["underlines", "a\n=\n".repeat(30_000)],
    ["fences", "```\n".repeat(50_001)],
    ["new lines", "\n".repeat(1_000_000)],
    ["hard breaks", "a  \n".repeat(12_000)],
    ["blanks before a line", `a\n${" ".repeat(3)}b\n`.repeat(30_000)],
  ];
  test.each(texts)(
    "%s",
    (_, text) => {
      const found = parseBlocks(text);
      expect(depthOf(found)).toBeLessThanOrEqual(12);
      const visit = (inner: Block[]): void => {
        for (const block of inner) {
          if (block.type === "paragraph" || block.type === "heading") {
            expect(inlineDepth(parseInlines(block.text))).toBeLessThanOrEqual(13);
          } else if (block.type === "quote") visit(block.blocks);
          else if (block.type === "list") for (const item of block.items) visit(item.blocks);
        }
      };
      visit(found);
    },
    5_000,
  );

  test("text without marks is unchanged", () => {
    const text = `<img src=x onerror="alert(1)"> ${"<b>".repeat(50)} [x](javascript:y) \u202e`;
    expect(textOf(parseInlines(text))).toContain('<img src=x onerror="alert(1)">');
  });
});
