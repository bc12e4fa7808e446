import { afterEach, describe, expect, test, vi } from "vitest";
import { readEvents, EventStreamParser, type ServerEvent, SILENCE_MS } from "./stream";

const response = vi.hoisted(() => ({ body: null as ReadableStream<Uint8Array> | null }));
vi.mock("./client", () => ({ sendRequest: () => Promise.resolve({ body: response.body }) }));
afterEach(() => vi.useRealTimers());

function parseEvents(...pieces: string[]): ServerEvent[] {
  const events: ServerEvent[] = [];
  const parser = new EventStreamParser((event) => events.push(event));
  for (const piece of pieces) parser.push(piece);
  return events;
}

/** Returns a seeded generator of pseudo-random numbers below 1. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

describe("events", () => {
  test("have a name, an id and data, and end with an empty line", () => {
    expect(parseEvents('event: history\nid: 7\ndata: {"a":1}\n\n')).toEqual([
      { event: "history", id: "7", data: '{"a":1}' },
    ]);
    expect(parseEvents("data: a\n")).toEqual([]);
  });

  test("without a name are messages, and an id applies until the next one", () => {
    expect(parseEvents("id: 1\ndata: a\n\nevent: x\ndata: b\n\ndata: c\n\n")).toEqual([
      { event: "message", id: "1", data: "a" },
      { event: "x", id: "1", data: "b" },
      { event: "message", id: "1", data: "c" },
    ]);
  });

  test("can have several data lines, and only one space belongs to the field", () => {
    expect(parseEvents("data: a\ndata:\ndata:  b\ndata:c\n\n")[0]?.data).toBe("a\n\n b\nc");
  });

  test("without data, comments and unknown fields are ignored", () => {
    expect(parseEvents(": alive\n\nevent: x\n\nretry: 5\nwhat\ndata: a\n: within\n\n")).toEqual([
      { event: "message", id: null, data: "a" },
    ]);
  });
});

describe("lines", () => {
  test("end with LF, CRLF or CR", () => {
    for (const end of ["\n", "\r\n"])
      expect(parseEvents(["event: x", "data: a", "data: b", "", ""].join(end))).toEqual([
        { event: "x", id: null, data: "a\nb" },
      ]);
    // A CR at the end of a chunk may be the first half of a CRLF, so the parser waits for the next chunk.
    expect(parseEvents("event: x\rdata: a\r\r", "data: b\r\r\n")).toEqual([
      { event: "x", id: null, data: "a" },
      { event: "message", id: null, data: "b" },
    ]);
  });

  test("a CRLF in two chunks is one end", () => {
    expect(parseEvents("data: a\r", "\ndata: b\r", "\n\r", "\n")).toEqual([
      { event: "message", id: null, data: "a\nb" },
    ]);
  });

  test("other line separators are ordinary characters", () => {
    expect(parseEvents("data: a\u2028b\u0085c\u000bd\n\n")[0]?.data).toBe("a\u2028b\u0085c\u000bd");
  });
});

test("the events do not depend on chunk boundaries, even inside a character", () => {
  const events: ServerEvent[] = [
    { event: "history", id: "1", data: '{"text":"Grüße, 世界 🕰️"}' },
    { event: "message", id: "2", data: "one\ntwo\n\nthree" },
    { event: "x", id: "3", data: ": no comment" },
    { event: "message", id: "3", data: "" },
    { event: "last", id: "4", data: "\u202e" },
  ];
  for (let seed = 1; seed <= 300; seed++) {
    const random = randomNumbers(seed);
    let id: string | null = null;
    const lines = events.flatMap((event) => {
      const nameLines = event.event === "message" ? [] : [`event: ${event.event}`];
      const idLines = event.id === id ? [] : [`id: ${event.id}`];
      id = event.id;
      return [
        ...nameLines,
        ...idLines,
        ...event.data.split("\n").map((line) => `data: ${line}`),
        ": alive",
        "",
      ];
    });
    // A lone CR before an LF is not generated, because together they would be one line end.
    const ends = random() < 0.3 ? ["\r"] : ["\n", "\r\n"];
    const text = lines.map((line) => line + (ends[Math.floor(random() * ends.length)] ?? "\n")).join("");
    const bytes = new TextEncoder().encode(text);
    const decoder = new TextDecoder();
    const pieces: string[] = [];
    for (let at = 0; at < bytes.length;) {
      const size = 1 + Math.floor(random() * (random() < 0.5 ? 3 : 40));
      pieces.push(decoder.decode(bytes.subarray(at, at + size), { stream: true }));
      at += size;
    }
    // The extra chunk shows that the last CR was a complete line end.
    expect(parseEvents(...pieces, ":"), `seed ${seed}`).toEqual(events);
  }
});

describe("a connection", () => {
  const init = () => ({ signal: new AbortController().signal });

  test("passes on events, and returns when the server ends it", async () => {
    const bytes = new TextEncoder().encode("data: Grüße\n\ndata: cut o");
    response.body = new ReadableStream({
      start: (stream) => {
        for (const byte of bytes) stream.enqueue(Uint8Array.of(byte));
        stream.close();
      },
    });
    const received: string[] = [];
    await readEvents(
      "/x",
      init(),
      ({ data }) => received.push(data),
      () => received.push("opened"),
    );
    expect(received).toEqual(["opened", "Grüße"]);
  });

  test("without data times out and is cancelled", async () => {
    vi.useFakeTimers();
    let isCancelled = false;
    response.body = new ReadableStream({ cancel: () => void (isCancelled = true) });
    const failure = expect(readEvents("/x", init(), () => undefined)).rejects.toThrow("no data received");
    await vi.advanceTimersByTimeAsync(SILENCE_MS);
    await failure;
    expect(isCancelled).toBe(true);
  });
});
