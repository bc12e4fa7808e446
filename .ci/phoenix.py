"""Hands a session off with two refinements, traced to Phoenix, and checks what Phoenix has of it (contract, section 10)."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

PHOENIX, ROOT = sys.argv[1:]
WAIT_MAX = 120
PROJECT = "segue-check"


def until(what, look):
    """Returns what `look` finds, once it finds something."""
    begun = time.monotonic()
    while time.monotonic() - begun < WAIT_MAX:
        try:
            if found := look():
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.3)
    sys.exit(f"it did not come true: {what}")


def get(path):
    with urllib.request.urlopen(f"{PHOENIX}{path}") as answer:
        return json.load(answer)


def draft(title):
    texts = {
        "objective": "Find out why lease_renewal.rs fails about once in thirty runs.",
        "decision": "The public API of wharf-queue stays as it is.",
        "next_step": "Reproduce it with the fake clock.",
    }
    body = [{"kind": kind, "text": text, "refs": [1]} for kind, text in texts.items()]
    return {"text": [json.dumps({"title": title, "tldr": "The clock is passed in.", "body": body})]}


def main():
    script = os.path.join(ROOT, "script.json")
    with open(script, "w", encoding="utf-8") as file:
        json.dump({"replies": [draft(title) for title in ("One", "Two", "Three")]}, file)
    model = subprocess.Popen(["target/debug/segue-test-model", script], stdout=subprocess.PIPE, text=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": ROOT,
        "SEGUE_HOME": os.path.join(ROOT, "home"),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model.stdout.readline().strip(),
        "PHOENIX_COLLECTOR_ENDPOINT": PHOENIX,
        "PHOENIX_PROJECT_NAME": PROJECT,
        "SEGUE_LOG": "warn",
    }
    os.makedirs(environment["SEGUE_HOME"])
    with open(os.path.join(environment["SEGUE_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('[tracing]\npreset = "phoenix"\n')

    def segue(*args, given=None):
        command = ["target/debug/segue", *args, "--json"]
        ended = subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 3), ended
        assert not ended.stderr, ended.stderr
        return json.loads(ended.stdout)

    until("Phoenix answers", lambda: get("/v1/projects"))
    report = segue("handoff", "examples/flaky-test.jsonl")
    handoff = report["handoff"]["handoff_id"]

    def decide(decision):
        segue("handoff", "--decide", handoff, "--decision-file", "-", given=json.dumps({"decisions": [decision]}))

    for feedback in ("name the file", "shorter"):
        action = {"name": "handoff_summary", "args": {"feedback": feedback}}
        decide({"type": "edit", "edited_action": action})
    decide({"type": "approve"})
    model.kill()

    def read():
        spans = get(f"/v1/projects/{PROJECT}/spans?limit=200")["data"]
        return spans if any(span["name"] == "accept_handoff" for span in spans) else None

    spans = until("the acceptance has arrived", read)
    by_id = {span["context"]["span_id"]: span for span in spans}
    for iteration in range(3):
        [found] = [span for span in spans if span["name"] == f"generate_handoff_summary_iter_{iteration}"]
        kind = "refinement" if iteration else "initial"
        about = found["attributes"]
        assert about["langsmith.span.tags"] == f"handoff-summary,iteration-{iteration},{kind}", about
        assert about["langsmith.metadata.handoff_iteration"] == iteration, about
        assert about["langsmith.metadata.has_feedback"] == (iteration > 0), about
        assert about["langsmith.metadata.summary_type"] == kind, about
        assert about["langsmith.metadata.parent_thread_id"] == report["thread_id"], about
        assert about["langsmith.metadata.handoff_id"] == handoff, about
        run = by_id[found["parent_id"]]
        assert (run["name"], run["span_kind"]) == ("run", "AGENT"), run
        assert run["context"]["trace_id"] == found["context"]["trace_id"]
        [call] = [span for span in spans if span["parent_id"] == found["context"]["span_id"]]
        assert call["span_kind"] == "LLM", call
        assert call["attributes"]["llm.token_count.prompt"] == 10, call
    print(f"Phoenix has {len(spans)} spans, the three drafts among them, as contract 10 says")


main()
