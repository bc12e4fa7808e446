// HTTP client: sends a request and returns the response, or throws an `ApiError`. The endpoints are in
// `endpoints.ts`, event streams in `stream.ts`.
import { storeText, loadText } from "../app/storage";
import type { Json } from "./types";

const TOKEN_KEY = "segue.token";

/** An error response of the server; the message is the server's `detail`. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status, or 0 if the server could not be reached. */
    readonly status: number,
    /** The machine-readable error code, such as `conflict`. */
    readonly code: string,
    detail: string,
    /** A suggestion how to fix the problem. */
    readonly hint: string | null = null,
  ) {
    super(detail);
  }
}

/** Returns whether an error says that something does not exist, for example a thread that was deleted. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

let token = loadText("browser", TOKEN_KEY);
let unauthorizedHandler: (hasToken: boolean) => void = () => undefined;

/** Sets the token that all later requests are sent with. */
export function setToken(secret: string): void {
  token = secret;
}

/** Stores the current token in this browser. Call it after the server has accepted the token. */
export function storeToken(): void {
  if (token) storeText("browser", TOKEN_KEY, token);
}

/** Sets the handler for 401 responses. Its argument tells whether the request carried a token. */
export function onUnauthorized(handler: (hasToken: boolean) => void): void {
  unauthorizedHandler = handler;
}

/** Sends a request and returns the response. Throws an `ApiError` unless the status is 2xx. */
export async function sendRequest(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const sentToken = token;
  if (sentToken) headers.set("x-api-key", sentToken);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "Server unreachable.", "Is segue serve still running?");
  }
  if (response.ok) return response;
  // A late 401 for a previous token must not sign out the current one.
  if (response.status === 401 && sentToken === token) unauthorizedHandler(sentToken !== null);
  throw toApiError(response.status, await response.json().catch(() => null));
}

/** Sends a request and returns the parsed JSON of the response. */
export async function requestJson<T>(
  method: string,
  path: string,
  body?: unknown,
  init: RequestInit = {},
): Promise<T> {
  const headers = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...init.headers };
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const response = await sendRequest(path, { ...init, method, headers, body: payload });
  const text = await response.text();
  // Some endpoints return an empty body, whatever the status.
  if (text === "") return undefined as T;
  const answer = JSON.parse(text) as T;
  // Long-running requests are answered with 200 before their outcome is known, so an error is in the body.
  const lateError = (answer as { __error__?: ErrorBody } | null)?.__error__;
  if (lateError) throw toApiError(lateError.status ?? 500, lateError);
  return answer;
}

interface ErrorBody {
  detail?: Json;
  code?: string;
  hint?: string;
  status?: number;
}

function toApiError(status: number, body: ErrorBody | null): ApiError {
  const detail = typeof body?.detail === "string" ? body.detail : `The server answered ${status}.`;
  return new ApiError(status, body?.code ?? "unknown", detail, body?.hint ?? null);
}

/** Builds a query string; undefined values are left out. */
export function queryString(values: Record<string, string | number | boolean | undefined>): string {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(entries.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}
