//! Each format with a small session that contains every kind of record once, and the resulting entries.

use insta::assert_snapshot;

use crate::collect::read_bytes;

/// Reads `text` and returns the detected format and the rendered entries.
fn check(text: &str) -> String {
    let (format, read) = read_bytes(text.as_bytes());
    format!("{}\n{}", format.as_str(), read.render())
}

#[test]
fn claude_records_become_entries_in_file_order() {
    assert_snapshot!(check(concat!(
        r#"{"type":"summary","summary":"An older title","leafUuid":"l0"}"#,
        "\n",
        r#"{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{}}}"#,
        "\n",
        r#"{"type":"user","uuid":"u1","sessionId":"s-1","cwd":"/p","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"fix the test"}}"#,
        "\n",
        r#"{"type":"user","isMeta":true,"sessionId":"s-1","message":{"content":"meta"}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s-1","message":{"content":"<command-name>/clear</command-name>"}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s-1","message":{"content":[{"type":"text","text":"<system-reminder>be quiet</system-reminder>"},{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}"#,
        "\n",
        r#"{"type":"assistant","sessionId":"s-1","message":{"model":"m-1","content":[{"type":"thinking","thinking":"hm","signature":"x"}]}}"#,
        "\n",
        r#"{"type":"assistant","sessionId":"s-1","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}"#,
        "\n",
        r#"{"type":"progress","data":{"type":"bash_progress"}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s-1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"tool_reference","tool_name":"Grep"}],"is_error":true}]},"toolUseResult":{"stdout":"a"}}"#,
        "\n",
        r#"{"type":"attachment","sessionId":"s-1","attachment":{"type":"queued_command","prompt":"and hurry"}}"#,
        "\n",
        r#"{"type":"attachment","sessionId":"s-1","attachment":{"type":"task_reminder"}}"#,
        "\n",
        r#"{"type":"system","subtype":"compact_boundary","logicalParentUuid":"u1","compactMetadata":{"trigger":"auto","preTokens":9}}"#,
        "\n",
        r#"{"type":"user","isCompactSummary":true,"message":{"content":"This session is being continued"}}"#,
        "\n",
        r#"{"type":"system","subtype":"microcompact_boundary"}"#,
        "\n",
        r#"{"type":"system","subtype":"away_summary","content":"meanwhile"}"#,
        "\n",
        r#"{"type":"custom-title","customTitle":"The flaky test","sessionId":"s-1"}"#,
        "\n",
        r#"{"type":"assistant","isSidechain":true,"message":{"content":"done"}}"#,
        "\n",
    )));
}

#[test]
fn codex_reads_response_items_and_no_repeated_events() {
    assert_snapshot!(check(concat!(
        r#"{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"c-1","cwd":"/p","timestamp":"2026-01-02T03:00:00Z"}}"#,
        "\n",
        r#"{"type":"turn_context","payload":{"model":"g-1"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}"#,
        "\n",
        r##"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions"}]}}"##,
        "\n",
        r#"{"type":"event_msg","payload":{"type":"user_message","message":"do it"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"do it"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"plan"}],"encrypted_content":"x"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"cmd\":[\"ls\"]}","call_id":"k1"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"k1","output":"Process exited with code 2\nno"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"k2"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"k2","output":"Exit code: 0"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"web_search_call","id":"w1","action":{"query":"q"}}}"#,
        "\n",
        r#"{"type":"compacted","payload":{"message":"","replacement_history":[{},{}],"window_number":2}}"#,
        "\n",
        r#"{"type":"compacted","payload":{"message":"so far","replacement_history":[]}}"#,
        "\n",
        r#"{"type":"event_msg","payload":{"type":"thread_name_updated","thread_name":"Named"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}"#,
        "\n",
    )));
}

#[test]
fn opencode_splits_a_tool_part_into_call_and_result() {
    assert_snapshot!(check(
        r#"{"info":{"id":"ses_1","directory":"/p","parentID":"ses_0","title":"T","time":{"created":1767323045000}},
        "messages":[
        {"info":{"id":"m1","role":"user","summary":{"diffs":[]}},"parts":[{"type":"text","text":"go"},{"type":"text","text":"hint","synthetic":true},{"type":"subtask","prompt":"sub"}]},
        {"info":{"id":"m2","role":"assistant","modelID":"x"},"parts":[{"type":"step-start"},{"type":"reasoning","text":"r"},{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"a":1},"output":"out"}},{"type":"tool","tool":"bash","callID":"c2","state":{"status":"error","input":{},"error":"bad"}},{"type":"tool","tool":"bash","callID":"c3","state":{"status":"running","input":{}}},{"type":"text","text":"ok"}]},
        {"info":{"id":"m3","role":"assistant","summary":true},"parts":[{"type":"text","text":"the summary"}]},
        {"info":{"id":"m4","role":"user"},"parts":[{"type":"compaction"}]}
        ]}"#
    ));
}

#[test]
fn pi_reads_compactions_with_their_summaries() {
    assert_snapshot!(check(concat!(
        r#"{"type":"session","id":"p-1","timestamp":"2026-01-02T03:04:05Z","cwd":"/p","parentSession":"p-0"}"#,
        "\n",
        r#"{"type":"model_change","provider":"a","modelId":"b"}"#,
        "\n",
        r#"{"type":"message","id":"e1","message":{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}}"#,
        "\n",
        r#"{"type":"message","id":"e2","parentId":"e1","message":{"role":"assistant","model":"b","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"x"}}]}}"#,
        "\n",
        r#"{"type":"message","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"body"}],"isError":false}}"#,
        "\n",
        r#"{"type":"message","message":{"role":"bashExecution","command":"ls","output":"x"}}"#,
        "\n",
        r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":3,"tokensBefore":10}"#,
        "\n",
        r#"{"type":"branch_summary","summary":"b"}"#,
        "\n",
        r#"{"type":"session_info","name":"Nice"}"#,
        "\n",
    )));
}

#[test]
fn gemini_reads_the_object_form() {
    assert_snapshot!(check(
        r#"{"sessionId":"g-1","projectHash":"h","startTime":"2026-01-02T03:04:05Z","messages":[
        {"id":"1","type":"user","content":[{"text":"hi"},{"text":"there"}]},
        {"id":"2","type":"gemini","content":"ok","model":"m","thoughts":[{"subject":"S","description":"D"}],"toolCalls":[
          {"id":"t","name":"ls","args":{"d":"."},"status":"error","result":[{"functionResponse":{"response":{"error":"denied"}}}]}]},
        {"id":"3","type":"info","content":"note"}],"summary":"Late title"}"#
    ));
}

#[test]
fn gemini_applies_updates_and_rewinds_of_the_log_form_in_order() {
    assert_snapshot!(check(concat!(
        r#"{"sessionId":"g-2","projectHash":"h","startTime":"2026-01-02T03:04:05Z","kind":"main"}"#,
        "\n",
        r#"{"id":"1","type":"user","content":"one"}"#,
        "\n",
        r#"{"id":"2","type":"gemini","content":""}"#,
        "\n",
        r#"{"id":"3","type":"user","content":"taken back"}"#,
        "\n",
        r#"{"id":"2","type":"gemini","content":"final answer"}"#,
        "\n",
        r#"{"$rewindTo":"3"}"#,
        "\n",
        r#"{"id":"4","type":"user","content":"two"#,
        "\n",
        r#"{"$set":{"summary":"Title"}}"#,
        "\n",
        r#"{"id":"5","type":"user","content":"three"}"#,
        "\n",
    )));
}

#[test]
fn copilot_skips_hooks_and_permissions() {
    assert_snapshot!(check(concat!(
        r#"{"type":"session.start","data":{"sessionId":"k-1","startTime":"2026-01-02T03:04:05Z","context":{"cwd":"/p"}},"id":"a"}"#,
        "\n",
        r#"{"type":"system.message","data":{"content":"sys"},"id":"b","parentId":"a"}"#,
        "\n",
        r#"{"type":"user.message","data":{"content":"hi"},"id":"c"}"#,
        "\n",
        r#"{"type":"hook.start","data":{"input":{"prompt":"hi"}}}"#,
        "\n",
        r#"{"type":"assistant.message","data":{"model":"m","content":"sure","reasoningText":"r","toolRequests":[{"toolCallId":"t","name":"bash","arguments":{"c":1}}]}}"#,
        "\n",
        r#"{"type":"permission.requested","data":{}}"#,
        "\n",
        r#"{"type":"tool.execution_complete","data":{"toolCallId":"t","success":false,"error":{"message":"no"}}}"#,
        "\n",
        r#"{"type":"session.compaction_start","data":{}}"#,
        "\n",
        r#"{"type":"session.compaction_complete","data":{"tokens":5}}"#,
        "\n",
        r#"{"type":"abort","data":{"reason":"user"}}"#,
        "\n",
    )));
}

#[test]
fn aider_splits_sessions_inputs_and_console_output() {
    assert_snapshot!(check(concat!(
        "\n# aider chat started at 2026-01-02 03:04:05\n\n> Aider v1\r\n> Models: x  \n\n",
        "#### first line  \n#### second line\n\nAn answer.\n\n    code\n\n> Applied edit to a.py  \n> error: boom\rdone\n",
        "\n#### /add b.py\n\n#### /ask why\n",
        "\n# aider chat started at 2026-01-02 04:00:00\n\n# aider chat started at 2026-01-02 05:00:00\n\n#### again\n",
    )));
}

#[test]
fn openhands_reads_trajectories_and_pairs() {
    assert_snapshot!(check(concat!(
        r#"{"instance_id":"i-1","instruction":"x","history":[
        {"id":0,"timestamp":"2026-01-02T03:04:05.5","source":"agent","action":"system","args":{"content":"sys"}},
        {"id":1,"source":"user","action":"message","args":{"content":"do"}},
        {"id":2,"source":"user","action":"recall","args":{}},
        {"id":3,"source":"agent","action":"run","args":{"command":"ls","thought":"look"},"tool_call_metadata":{"tool_call_id":"tc"}},
        {"id":4,"source":"agent","cause":3,"observation":"run","content":"x","extras":{"metadata":{"exit_code":1}},"tool_call_metadata":{"tool_call_id":"tc"}},
        {"id":5,"action":"condensation","args":{"forgotten_event_ids":[1],"summary":"sum"}},
        {"id":6,"action":"think","args":{"thought":"deep"}},{"id":7,"observation":"think","content":"ok"},
        {"id":8,"source":"agent","action":"finish","args":{"final_thought":"bye"}}]}"#, "\n",
    ).replace("\n        ", " ").as_str()));
    assert_snapshot!(check(concat!(
        r#"{"issue":{"n":1},"instruction":"x","history":[[{"action":"message","content":"task"},{"observation":"null"}],[{"action":"run","command":"ls","thought":"t"},{"observation":"run","content":"ok","exit_code":0}],[{"action":"finish","outputs":{},"thought":"bye"},{"observation":"null"}]]}"#,
        "\n",
    )));
}

#[test]
fn openhands_reads_single_events_and_lists_of_them() {
    assert_snapshot!(check(
        r#"{"id":1,"source":"user","action":"message","args":{"content":"do"},"message":"do"}"#
    ));
    assert_snapshot!(check(
        r#"[{"id":1,"source":"user","action":"message","args":{"content":"do"}},{"id":2,"source":"agent","action":"message","args":{"content":"ok"}}]"#
    ));
}

#[test]
fn chat_messages_read_as_one_list_or_as_many_conversations() {
    assert_snapshot!(check(
        r#"[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"2","function":{"name":"g","arguments":"not json"}}]},
        {"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"end"}]"#
    ));
    assert_snapshot!(check(
        r#"[{"task_id":0,"reward":NaN,"traj":[{"role":"user","content":"a"}],"trial":1},{"task_id":1,"reward":0,"traj":[{"role":"user","content":"b"}],"trial":1}]"#
    ));
    assert_snapshot!(check(
        r#"{"timestamp":"t","info":{"environment_info":{}},"tasks":[],"simulations":[{"id":"sim","task_id":"7","trial":0,"messages":[{"role":"assistant","content":"hello"},{"role":"assistant","tool_calls":[{"id":"x","name":"f","arguments":{"a":1}}]},{"id":"x","role":"tool","content":"1"},{"role":"user","content":"hi"}]}]}"#
    ));
}

#[test]
fn sweagent_observations_are_not_user_text() {
    assert_snapshot!(check(
        r#"{"environment":"e","trajectory":[{"action":"x"}],"history":[{"role":"system","content":"s"},{"role":"user","content":"task"},
        {"role":"assistant","content":"","thought":"think","tool_calls":[{"id":"c","function":{"name":"bash","arguments":"{}"}}]},
        {"role":"tool","content":"out","tool_call_ids":["c"]},{"role":"assistant","content":"ls"},{"role":"user","content":"observation"}],"info":{}}"#
    ));
}
