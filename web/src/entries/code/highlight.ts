// Syntax highlighting for comments, strings, numbers, keywords and names. It is based on regular expressions,
// not on grammars, reads each character a bounded number of times, and leaves unknown text as it is.

export type TokenKind =
  "comment" | "string" | "number" | "keyword" | "title" | "attr" | "added" | "removed" | "";
export interface CodeSpan {
  kind: TokenKind;
  text: string;
}

/** The size limit in characters; longer code is not highlighted. */
const CHARS_MAX = 50_000;

const SLASHES = "\\/\\/.*|\\/\\*[^]*?(?:\\*\\/|(?![^]))";
const HASH = "(?<![^\\s;(&|])#.*";
const DOUBLE = '"(?:[^"\\\\\\n]|\\\\[^])*(?:"|(?![^\\n]))';
const SINGLE = "'(?:[^'\\\\\\n]|\\\\[^])*(?:'|(?![^\\n]))";
const TEMPLATE = "`(?:[^`\\\\]|\\\\[^])*(?:`|(?![^]))";
const NUMBER =
  "\\b(?:0[xX][\\da-fA-F_]+|0[bB][01_]+|0o[0-7_]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:[eE][+-]?\\d+)?)[a-zA-Z]{0,5}\\d{0,3}\\b";
const CALL =
  "(?<=\\b(?:fn|def|func|function|class|struct|enum|trait|interface|impl|mod|module) )[a-zA-Z_$][\\w$]*|\\b[a-zA-Z_$][\\w$]*(?=!?\\()";

type TokenRules = [Exclude<TokenKind, "">, string][];

const wordPattern = (list: string) => `\\b(?:${list.replaceAll(" ", "|")})\\b`;

/** Returns the rules for a language with the comments and strings of C. */
const cLikeRules = (
  keywords: string,
  extraRules: TokenRules = [],
  strings = `${DOUBLE}|${SINGLE}`,
): TokenRules => [
  ...extraRules,
  ["comment", SLASHES],
  ["string", strings],
  ["keyword", wordPattern(keywords)],
  ["number", NUMBER],
  ["title", CALL],
];

const C_WORDS =
  "auto bool break case char const continue default do double else enum extern false float for goto if inline int long register return short signed sizeof static struct switch true typedef union unsigned void volatile while NULL";
const JS_WORDS =
  "as async await break case catch class const continue debugger default delete do else export extends false finally for from function get if import in instanceof let new null of return set static super switch this throw true try typeof undefined var void while with yield";

const LANGUAGE_RULES: Record<string, TokenRules> = {
  rust: cLikeRules(
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while",
    [["attr", "#!?\\[[^\\]\\n]{0,300}\\]|'[a-z_]\\w*\\b(?!')"]],
    `b?r#+"[^]*?(?:"#+|(?![^]))|b?${DOUBLE}|b?'(?:[^'\\\\\\n]|\\\\[^']{1,10})'`,
  ),
  c: cLikeRules(C_WORDS, [["attr", "^[ \\t]*#\\s*\\w+"]]),
  cpp: cLikeRules(
    `${C_WORDS} catch class concept consteval constexpr constinit co_await co_return co_yield decltype delete explicit export final friend mutable namespace new noexcept nullptr operator override private protected public requires static_assert template this throw try typename using virtual`,
    [["attr", "^[ \\t]*#\\s*\\w+"]],
  ),
  go: cLikeRules(
    "break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var any bool byte error float32 float64 int int32 int64 rune string uint uint8 uint32 uint64",
    [],
    `${DOUBLE}|${SINGLE}|\`[^\`]*(?:\`|(?![^]))`,
  ),
  java: cLikeRules(
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends false final finally float for goto if implements import instanceof int interface long native new null package private protected public record return sealed short static strictfp super switch synchronized this throw throws transient true try var void volatile while yield fun val when object companion data override",
    [["attr", "@\\w+"]],
    `"""[^]*?(?:"""|(?![^]))|${DOUBLE}|${SINGLE}`,
  ),
  javascript: cLikeRules(JS_WORDS, [["attr", "@\\w+"]], `${DOUBLE}|${SINGLE}|${TEMPLATE}`),
  typescript: cLikeRules(
    `${JS_WORDS} abstract any asserts boolean declare enum implements infer interface is keyof namespace never number object override private protected public readonly satisfies string symbol type unknown`,
    [["attr", "@\\w+"]],
    `${DOUBLE}|${SINGLE}|${TEMPLATE}`,
  ),
  python: [
    ["comment", "#.*"],
    ["string", `[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|(?![^]))|'''[^]*?(?:'''|(?![^]))|${DOUBLE}|${SINGLE})`],
    ["attr", "^[ \\t]*@[\\w.]+"],
    [
      "keyword",
      wordPattern(
        "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield",
      ),
    ],
    ["number", NUMBER],
    ["title", CALL],
  ],
  ruby: [
    ["comment", "#.*"],
    ["string", `${DOUBLE}|${SINGLE}|(?<![\\w:]):[a-zA-Z_]\\w*[?!]?`],
    [
      "keyword",
      wordPattern(
        "alias and begin break case class def do else elsif end ensure false for if in module next nil not or private protected public raise redo require rescue retry return self super then true undef unless until when while yield attr_accessor attr_reader",
      ),
    ],
    ["attr", "@{1,2}\\w+|\\$\\w+"],
    ["number", NUMBER],
    ["title", CALL],
  ],
  bash: [
    ["comment", HASH],
    ["string", `"(?:[^"\\\\]|\\\\[^])*(?:"|(?![^]))|'[^']*(?:'|(?![^]))`],
    ["attr", "\\$(?:\\w+|\\{[^}\\n]{0,200}\\}|[@#?*!$-])"],
    [
      "keyword",
      wordPattern(
        "case do done elif else esac export fi for function if in local readonly return select set then unset until while",
      ),
    ],
    ["title", "(?<=^[ \\t]{0,40}|[|;&(][ \\t]{0,9})(?!\\w+=)[a-zA-Z_.][\\w./-]*"],
    ["number", "(?<![\\w.-])\\d+(?![\\w.-])"],
  ],
  json: [
    ["attr", `"(?:[^"\\\\\\n]|\\\\.)*"(?=\\s{0,99}:)`],
    ["string", DOUBLE],
    ["keyword", wordPattern("true false null")],
    ["number", "-?\\b\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b"],
    ["comment", SLASHES],
  ],
  yaml: [
    ["comment", "(?<![^\\s])#.*"],
    ["attr", `^[ \\t]*(?:- +)*[\\w."'/ -]{1,200}(?=:(?:\\s|$))`],
    ["string", `${DOUBLE}|'(?:[^'\\n]|'')*'`],
    ["keyword", wordPattern("true false null yes no on off")],
    ["number", "(?<![\\w.-])-?\\d+(?:\\.\\d+)?(?![\\w.-])"],
  ],
  toml: [
    ["comment", "[#;].*"],
    ["title", "^[ \\t]*\\[{1,2}[^\\]\\n]{1,200}\\]{1,2}"],
    ["attr", `^[ \\t]*[\\w."'-]{1,200}(?=[ \\t]{0,99}=)`],
    ["string", `"""[^]*?(?:"""|(?![^]))|'''[^]*?(?:'''|(?![^]))|${DOUBLE}|${SINGLE}`],
    ["keyword", wordPattern("true false")],
    ["number", "(?<![\\w.-])[+-]?\\d[\\d_:.TZ-]*"],
  ],
  sql: [
    ["comment", "--.*|\\/\\*[^]*?(?:\\*\\/|(?![^]))"],
    ["string", "'(?:[^']|'')*(?:'|(?![^]))"],
    [
      "keyword",
      `(?:${wordPattern("add all alter and any as asc begin between by cascade case check column commit conflict constraint count create cross current database default delete desc distinct do drop else end exists explain false foreign from full group having if in index inner insert into is join key left like limit not null nulls of offset on or order outer over partition primary references returning right rollback row select set table then to transaction true union unique update using values view when where with")})`,
    ],
    ["number", NUMBER],
    ["title", CALL],
  ],
  xml: [
    ["comment", "<!--[^]*?(?:-->|(?![^]))"],
    ["keyword", "<[!?\\/]?[\\w:.-]*|[\\/?]?>"],
    ["attr", "(?<=\\s)[\\w:@.-]{1,100}(?=\\s{0,9}=)"],
    ["string", "\"[^\"<]*\"|'[^'<]*'"],
    ["number", "&#?\\w{1,10};"],
  ],
  css: [
    ["comment", "\\/\\*[^]*?(?:\\*\\/|(?![^]))"],
    ["string", `${DOUBLE}|${SINGLE}`],
    ["keyword", "@[\\w-]+|!important"],
    ["attr", "(?<=[{;]\\s{0,9}|^[ \\t]{0,40})[a-zA-Z-]{1,50}(?=\\s{0,9}:(?!\\S*\\{))"],
    ["number", "#[\\da-fA-F]{3,8}\\b|(?<![\\w-])-?\\d*\\.?\\d+(?:%|[a-z]{1,4}\\b)?"],
    ["title", "[.#][a-zA-Z_][\\w-]*|(?<![\\w-])[a-zA-Z-]{1,60}(?=\\()"],
  ],
  diff: [
    ["attr", "^(?:@@.*|diff .*|index .*|(?:---|\\+\\+\\+)(?= ).*)"],
    ["added", "^\\+.*"],
    ["removed", "^-.*"],
  ],
  markdown: [
    ["string", "^ {0,3}(?:`{3,}|~{3,})[^]*?(?:^ {0,3}(?:`{3,}|~{3,})[ \\t]*$|$(?![^]))|`[^`\\n]+`"],
    ["title", "^#{1,6} .*"],
    ["keyword", "^[ \\t]*(?:[-*+]|\\d{1,9}[.)])(?= )|^>"],
    ["attr", "\\[[^\\]\\[\\n]{0,300}\\](?=\\()"],
  ],
};

const LANGUAGE_ALIASES: Record<string, string> = {
  rs: "rust",
  h: "c",
  "c++": "cpp",
  cc: "cpp",
  hpp: "cpp",
  cxx: "cpp",
  cs: "java",
  csharp: "java",
  kt: "java",
  kotlin: "java",
  scala: "java",
  swift: "rust",
  golang: "go",
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  cjs: "javascript",
  ts: "typescript",
  tsx: "typescript",
  mts: "typescript",
  py: "python",
  rb: "ruby",
  sh: "bash",
  shell: "bash",
  zsh: "bash",
  console: "bash",
  dockerfile: "bash",
  makefile: "bash",
  jsonc: "json",
  json5: "json",
  jsonl: "json",
  yml: "yaml",
  ini: "toml",
  cfg: "toml",
  conf: "toml",
  env: "toml",
  html: "xml",
  svg: "xml",
  svelte: "xml",
  vue: "xml",
  scss: "css",
  less: "css",
  patch: "diff",
  md: "markdown",
  postgresql: "sql",
  sqlite: "sql",
};

const patternCache = new Map<string, RegExp>();

/** Returns the rules of a language as one pattern. The pattern is compiled on first use and cached. */
function languagePattern(name: string): RegExp | null {
  const cached = patternCache.get(name);
  if (cached) return cached;
  const rules = Object.hasOwn(LANGUAGE_RULES, name) ? LANGUAGE_RULES[name] : undefined;
  if (!rules) return null;
  // A kind may occur twice, so the index makes the group names unique.
  const source = rules.map(([kind, rule], at) => `(?<${kind}_${at}>${rule})`).join("|");
  const compiled = new RegExp(source, name === "sql" ? "gmi" : "gm");
  patternCache.set(name, compiled);
  return compiled;
}

/** Splits the code into highlighted spans. */
export function highlight(code: string, lang: string): CodeSpan[] {
  const alias = lang.toLowerCase().replace(/^\{?\.?|\}?$/g, "");
  const rules =
    code.length <= CHARS_MAX
      ? languagePattern(Object.hasOwn(LANGUAGE_ALIASES, alias) ? (LANGUAGE_ALIASES[alias] ?? "") : alias)
      : null;
  if (!rules) return [{ kind: "", text: code }];
  const spans: CodeSpan[] = [];
  let position = 0;
  for (const match of code.matchAll(rules)) {
    if (!match[0]) continue;
    if (match.index > position) spans.push({ kind: "", text: code.slice(position, match.index) });
    const group = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] ?? "";
    spans.push({ kind: group.slice(0, group.indexOf("_")) as TokenKind, text: match[0] });
    position = match.index + match[0].length;
  }
  if (position < code.length) spans.push({ kind: "", text: code.slice(position) });
  return spans;
}
