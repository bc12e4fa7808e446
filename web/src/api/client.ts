// One request to the server and what it answers or refuses. What endpoints there are is in `endpoints.ts`; streams are in
// `stream.ts`.
import { keepText, keptText } from "../app/kept";
import type { Json } from "./types";

const TOKEN_KEY = "segue.token";

/** What the server refused, in its own words. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0 when the server could not be reached. */
    readonly status: number,
    /** One word for programs, such as `conflict`. */
    readonly code: string,
    detail: string,
    /** What can be done about it. */
    readonly hint: string | null = null,
  ) {
    super(detail);
  }
}

let token = keptText("browser", TOKEN_KEY);
let whenRefused: (isShown: boolean) => void = () => undefined;

/** Shows a secret with every request from now on. */
export function showToken(secret: string): void {
  token = secret;
}

/** Keeps the secret that requests show in this browser, once the server has taken it. */
export function keepToken(): void {
  if (token) keepText("browser", TOKEN_KEY, token);
}

/** Says what happens when the server does not let us in, with a secret or for want of one. */
export function onRefused(then: (isShown: boolean) => void): void {
  whenRefused = then;
}

/** Sends a request as it is and returns an answer that is no failure. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const shown = token;
  if (shown) headers.set("x-api-key", shown);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server cannot be reached.", "Is segue serve still running?");
  }
  if (response.ok) return response;
  // A late answer to the secret before this one says nothing about this one.
  if (response.status === 401 && shown === token) whenRefused(shown !== null);
  throw refusal(response.status, await response.json().catch(() => null));
}

/** Sends a request and reads the JSON it is answered with. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  init: RequestInit = {},
): Promise<T> {
  const headers = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...init.headers };
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const response = await send(path, { ...init, method, headers, body: payload });
  const text = await response.text();
  // What is only taken notice of is answered with nothing, whatever the status.
  if (text === "") return undefined as T;
  const answer = JSON.parse(text) as T;
  // What takes long is answered with 200 before its outcome is known.
  const late = (answer as { __error__?: Refusal } | null)?.__error__;
  if (late) throw refusal(late.status ?? 500, late);
  return answer;
}

interface Refusal {
  detail?: Json;
  code?: string;
  hint?: string;
  status?: number;
}

function refusal(status: number, told: Refusal | null): ApiError {
  const detail = typeof told?.detail === "string" ? told.detail : `The server answered ${status}.`;
  return new ApiError(status, told?.code ?? "unknown", detail, told?.hint ?? null);
}

/** Puts values into a query; those that are undefined are left out. */
export function query(values: Record<string, string | number | boolean | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}
