//! Read access over HTTP: history with compaction markers, feedback, traces, context, search, and memory.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::client::ApiClient;
use super::{create_thread, echo_server, import_session, owner_client, run_turn};
use crate::compact::{compacting_server, long_thread};
use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

fn event_seqs(page: &Value) -> Vec<u64> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
}

/// Compacts all but the newest messages of a thread and returns its marker.
fn compact_thread(api: &ApiClient, thread: &str) -> Value {
    let body = json!({"keep": {"messages": 2}, "focus": "the clock"});
    let done = api.post(&format!("/api/threads/{thread}/compact"), &body).json();
    assert_eq!(done["outcome"], "condensed", "{done}");
    done["marker"].clone()
}

#[test]
fn b5_pages_of_history_are_complete_in_both_directions() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let whole = api.get(&format!("/api/threads/{parent}/history?limit=1000")).json();
    assert_eq!((&whole["source"], &whole["has_more"]), (&json!("journal"), &json!(false)), "{whole}");
    let all = event_seqs(&whole);
    assert!(all.len() > 5 && all.is_sorted(), "{all:?}");
    for limit in 1..=all.len() {
        let (mut forward, mut after) = (Vec::new(), 0);
        loop {
            let page =
                api.get(&format!("/api/threads/{parent}/history?limit={limit}&after_seq={after}")).json();
            forward.extend(event_seqs(&page));
            if page["has_more"] == false {
                break;
            }
            after = page["last_seq"].as_u64().unwrap();
        }
        assert_eq!(forward, all, "{limit}");
    }
    let (mut back, mut before) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/api/threads/{parent}/history?limit=3{before}")).json();
        back.splice(0..0, event_seqs(&page));
        if page["has_more"] == false {
            break;
        }
        before = format!("&before_seq={}", page["first_seq"]);
    }
    assert_eq!(back, all);
    let printed = sandbox.json(&["history", &parent, "--limit", "500", "--json"]);
    assert_eq!(printed["entries"], whole["entries"], "both front ends show the same");
}

#[test]
fn m10_a_marker_opens_to_its_original_messages_and_can_be_undone() {
    let model = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&model), 12);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned();
    let before = api.get(&format!("/api/threads/{parent}/history?limit=1000")).json();
    let looked = api
        .post(&format!("/api/threads/{parent}/compact"), &json!({"preview": true, "keep": {"messages": 2}}));
    assert_eq!((&looked.json()["outcome"], &looked.json()["marker"]), (&json!("previewed"), &Value::Null));
    let marker = compact_thread(&api, &parent);
    let (seq, first, last) =
        (&marker["seq"], marker["first_seq"].as_u64().unwrap(), marker["last_seq"].as_u64().unwrap());
    assert_eq!(marker["id"], format!("summary-marker-{seq}"));
    let originals: Vec<&Value> = before["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| (first..=last).contains(&entry["seq"].as_u64().unwrap()))
        .collect();
    let path = format!("/api/threads/{parent}/history/markers/{seq}/messages");
    let (mut opened, mut after) = (Vec::new(), 0);
    loop {
        let page = api.get(&format!("{path}?limit=2&after_seq={after}")).json();
        opened.extend(page["entries"].as_array().unwrap().clone());
        if page["has_more"] == false {
            break;
        }
        after = page["last_seq"].as_u64().unwrap();
    }
    assert_eq!(
        opened.iter().map(|entry| &entry["id"]).collect::<Vec<_>>(),
        originals.iter().map(|entry| &entry["id"]).collect::<Vec<_>>()
    );
    let back = api.get(&format!("{path}?limit=2&before_seq={last}")).json();
    assert_eq!(back["entries"].as_array().unwrap().len(), 2, "{back}");
    assert_eq!(back["has_more"], true);
    let markers = api.get(&format!("/api/threads/{parent}/history?shown=markers")).json();
    assert_eq!(markers["entries"].as_array().unwrap().len(), 1);
    let context = api.get(&format!("/api/threads/{parent}/context")).json();
    assert_eq!(&context["condensed"]["marker_seq"], seq, "{context}");
    let conversation = &context["conversation"];
    assert_eq!(conversation["summary"], marker["summary"], "{context}");
    assert_eq!(conversation["transcript_messages"], 24);
    assert!(
        conversation["kept_seqs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|remembered| remembered.as_u64().unwrap() > last)
    );
    api.get(&format!("/api/threads/{parent}/history/markers/1/messages")).assert_refused(404, "no marker");
    let undone = api.post(&format!("/api/threads/{parent}/uncompact"), &json!({})).json();
    assert_eq!(&undone["marker_seq"], seq);
    api.post(&format!("/api/threads/{parent}/uncompact"), &json!({}))
        .assert_refused(409, "nothing is compacted");
    assert_eq!(api.get(&format!("/api/threads/{parent}/context")).json()["condensed"], Value::Null);
}

#[test]
fn e16_compacting_a_short_thread_does_nothing_and_reports_the_reason() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    run_turn(&api, &thread, "Short.");
    let done = api.post(&format!("/api/threads/{thread}/compact"), &json!({})).json();
    assert_eq!((&done["outcome"], &done["marker"]), (&json!("nothing"), &Value::Null), "{done}");
    assert!(done["reason"].is_string());
}

#[test]
fn d1_d2_d3_d4_feedback_is_one_thumb_a_run_however_often_it_is_sent() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let (thread, other_thread) = (create_thread(&api), create_thread(&api));
    let (first, second) = (run_turn(&api, &thread, "One."), run_turn(&api, &thread, "Two."));
    let path = format!("/api/threads/{thread}/runs/{first}/feedback");
    assert_eq!(api.get(&path).json()["feedback"], Value::Null);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let up = json!({"rating": 1, "comment": "good"});
        let sending: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn({
                    let (api, path, up) = (&api, &path, up.clone());
                    move || api.put(path, &up).status
                })
            })
            .collect();
        sending.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 4]);
    let given = api.get(&path).json()["feedback"].clone();
    assert_eq!((&given["rating"], &given["comment"]), (&json!(1), &json!("good")));
    let changed = api.put(&path, &json!({"rating": -1})).json()["feedback"].clone();
    assert_eq!((&changed["rating"], &changed["created_at"]), (&json!(-1), &given["created_at"]));
    let page = api.get(&format!("/api/threads/{thread}/history")).json();
    let thumbs: Vec<&Value> =
        page["entries"].as_array().unwrap().iter().filter_map(|entry| entry.get("feedback")).collect();
    assert_eq!((thumbs.len(), &thumbs[0]["rating"], thumbs[1]), (2, &json!(-1), &Value::Null), "{page}");
    assert_eq!(sandbox.json(&["history", &thread, "--json"])["entries"], page["entries"]);
    for rating in [json!(0), json!(2), json!("up"), Value::Null] {
        api.put(&path, &json!({"rating": rating})).assert_refused(422, "rating");
    }
    api.put(&path, &json!({"rating": 1, "comment": "x".repeat(3_000)})).assert_refused(422, "comment");
    api.put(&format!("/api/threads/{other_thread}/runs/{second}/feedback"), &json!({"rating": 1}))
        .assert_refused(404, "Run");
    for _ in 0..2 {
        assert_eq!(api.delete(&path).json()["feedback"], Value::Null);
    }
}

#[test]
fn a_run_is_traced_in_pages_and_a_thread_is_rewound_and_exported() {
    let model = ScriptedServer::start(Script::new([
        ScriptedReply::text("I will look.").with_call("c1", "ls", json!({"path": "."})),
        ScriptedReply { always: true, ..ScriptedReply::text("Nothing there.") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    let run = run_turn(&api, &thread, "What is here?");
    let path = format!("/api/threads/{thread}/runs/{run}/events");
    let all = api.get(&path).json();
    let whole = all["events"].as_array().unwrap();
    assert!(whole.len() > 4 && all["next_after"] == Value::Null, "{all}");
    let (mut paged, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = api.get(&format!("{path}?limit=2&after={after}")).json();
        paged.extend(page["events"].as_array().unwrap().clone());
        after = page["next_after"].clone();
    }
    assert_eq!(&paged, whole);
    run_turn(&api, &thread, "And now?");
    let page = api.get(&format!("/api/threads/{thread}/history")).json();
    let keep = event_seqs(&page)[3];
    let back = api.post(&format!("/api/threads/{thread}/rewind"), &json!({"keep_seq": keep})).json();
    assert_eq!((&back["keep_seq"], &back["superseded"]), (&json!(keep), &json!(2)), "{page} {back}");
    let hidden = api.get(&format!("/api/threads/{thread}/history")).json();
    assert_eq!(event_seqs(&hidden)[..4], event_seqs(&page)[..4]);
    assert_eq!(hidden["entries"][4]["type"], "thread_rewound");
    let shown = api.get(&format!("/api/threads/{thread}/history?superseded=1")).json();
    let count = event_seqs(&page).len();
    assert_eq!(event_seqs(&shown)[..count], event_seqs(&page));
    assert_eq!(shown["entries"][4]["superseded"], true);
    let file = api.get(&format!("/api/threads/{thread}/export"));
    assert!(file.text().contains("What is here?") && !file.text().contains("And now?"));
    assert!(file.header("content-disposition").unwrap().starts_with("attachment"), "{file:?}");
    let file = api.get(&format!("/api/threads/{thread}/export?format=json")).json();
    assert_eq!(file["thread"]["thread_id"], thread.as_str());
}

#[test]
fn k7_content_that_a_browser_could_execute_is_served_as_a_download() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    let part = |kind: &str, data: &str| json!({"type": "file", "source_type": "base64", "mime_type": kind, "data": data});
    let content = json!([{"type": "text", "text": "Look."}, part("image/png", "iVBORw0KGgo="), part("application/pdf", "JVBERi0xLjQK")]);
    let body =
        json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": content}]}});
    api.post(&format!("/threads/{thread}/runs/wait"), &body);
    let page = api.get(&format!("/api/threads/{thread}/history")).json();
    let media: Vec<&Value> = page["entries"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "media")
        .collect();
    assert_eq!(media.len(), 2, "{page}");
    for (block, is_download) in media.iter().zip([false, true]) {
        let sha256 = block["sha256"].as_str().unwrap();
        let file = api.get(&format!("/api/threads/{thread}/artifacts/{sha256}"));
        assert_eq!(file.status, 200, "{file:?}");
        assert_eq!(file.header("content-type"), block["media_type"].as_str());
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            file.header("content-disposition").is_some_and(|value| value.starts_with("attachment")),
            is_download
        );
        assert!(file.header("content-security-policy").unwrap().contains("sandbox"));
    }
    api.get(&format!("/api/threads/{thread}/artifacts/{}", "ab".repeat(32))).assert_refused(404, "artifact");
    api.get(&format!("/api/threads/{thread}/artifacts/..%2F..%2Fsegue.db")).assert_refused(422, "hex digits");
}

#[test]
fn messages_are_searched_and_memory_is_read_and_changed() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let search =
        api.get("/api/search?q=why%20does%20retries_after_timeout%20fail&limit=3&scope=everything").json();
    assert_eq!(search["hits"][0]["thread_id"], parent.as_str(), "{search}");
    assert_eq!(search["not_indexed"], json!({"messages": 0, "threads": 0}));
    let question = "why does retries_after_timeout fail";
    let printed = sandbox.json(&["search", question, "--limit", "3", "--everywhere", "--json"]);
    assert_eq!(printed["hits"], search["hits"], "both front ends show the same");
    let of_project = api.get("/api/search?q=why%20does%20retries_after_timeout%20fail").json();
    assert_eq!(of_project["hits"], json!([]), "the imported session is of another project");
    assert_eq!(api.get("/api/search?q=timeout&scope=all").status, 422);
    assert_eq!(api.get("/api/search?q=timeout&since=2031-01-01").json()["hits"], json!([]));
    assert_eq!(api.get("/api/search?q=timeout&kinds=summary,handoff").json()["hits"], json!([]));
    let remembered = api.post("/api/memory/remember", &json!({"text": "Prefer tabs."})).json();
    assert_eq!((&remembered["was_known"], &remembered["withheld"]), (&json!(false), &json!(0)));
    let file = api.get("/api/memory/agent_md").json();
    let text = file["text"].as_str().unwrap();
    assert!(text.contains("Prefer tabs.") && sandbox.read_agent_md().unwrap() == text);
    let blanks = text.replace("tabs", "blanks");
    let put = |text: &str, sha256: &Value| {
        api.put("/api/memory/agent_md", &json!({"text": text, "sha256": sha256}))
    };
    put(&blanks, &json!("00")).assert_refused(409, "agent.md has changed since it was read");
    put(&blanks, &Value::Null).assert_refused(422, "sha256");
    put(&format!("{text}password: hunter2-and-more\n"), &file["sha256"]).assert_refused(422, "secret");
    let changed = put(&blanks, &file["sha256"]).json();
    assert_eq!(changed["text"], blanks.as_str());
    put(text, &file["sha256"]).assert_refused(409, "agent.md has changed since it was read");
    let block = format!("{blanks}\n<current_thread_summary>\nmine\n</current_thread_summary>\n");
    put(&block, &changed["sha256"]).assert_refused(422, "current_thread_summary");
    let stats = api.get("/api/memory").json();
    assert!(
        stats["turns"]["active"].as_u64().unwrap() > 0 && stats["agent_md"].get("path").is_none(),
        "{stats}"
    );
    assert_eq!(api.get("/api/memory/summaries").json()["summaries"], json!([]));
    let agent = api.get("/api/agent").json();
    assert_eq!((&agent["assistant_id"], &agent["user_id"]), (&json!("agent"), &Value::Null));
    assert!(agent["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "read_file"));
    assert_eq!(api.get("/api/models").json()["default"], Value::Null);
}
