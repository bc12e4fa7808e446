//! Tests of answers that break off in the middle: the request is sent again, and the new answer stands on its own.

use futures::StreamExt;
use futures::future::join_all;
use model::{AnswerPart, Error, Provider, ProviderSettings};
use protocol::{ContentBlock, Message};
use serde_json::json;
use test_model::{ScriptedFault, ScriptedReply};

use super::{model, question, settings, start_server};

/// Returns the parts of an answer with the announced retries, and the error if it failed.
async fn collect_parts(provider: Provider, settings: ProviderSettings) -> (Vec<AnswerPart>, Option<Error>) {
    let (mut parts, mut error) = (Vec::new(), None);
    let mut stream =
        model(provider, settings).stream(&question()).await.expect("the first attempt is answered");
    while let Some(part) = stream.next().await {
        match part {
            Ok(part) => parts.push(part),
            Err(failure) => error = Some(failure),
        }
    }
    (parts, error)
}

/// Returns the parts without those before the last retry.
fn last_attempt(parts: &[AnswerPart]) -> &[AnswerPart] {
    let retry = parts.iter().rposition(|part| matches!(part, AnswerPart::Retry(_)));
    &parts[retry.map_or(0, |retry| retry + 1)..]
}

#[tokio::test]
async fn a17_an_answer_that_breaks_off_is_announced_and_requested_again_in_every_format() {
    let faults = [ScriptedFault::Half, ScriptedFault::Cut, ScriptedFault::Overloaded];
    let cases = Provider::ALL.into_iter().flat_map(|provider| faults.clone().map(|fault| (provider, fault)));
    join_all(cases.map(|(provider, fault)| async move {
        let broken = ScriptedReply::from_pieces(["Let ", "me"]).with_call("c1", "write", json!({"n": 1}));
        let whole = ScriptedReply::text("Hi.").with_call("c1", "write", json!({"n": 2}));
        let server = start_server([broken.with_fault(fault.clone()), whole]);
        let (parts, error) = collect_parts(provider, settings(&server)).await;
        assert!(error.is_none(), "{provider:?} {fault:?}: {error:?}");
        assert_eq!(
            parts[..2],
            ["Let ", "me"].map(|text| AnswerPart::Text(text.into())),
            "{provider:?} {fault:?}"
        );
        let retries = parts.iter().filter(|part| matches!(part, AnswerPart::Retry(_))).count();
        assert_eq!((retries, server.call_count()), (1, 2), "{provider:?} {fault:?}");
        let Some(AnswerPart::Done(answer)) = last_attempt(&parts).last() else { panic!("{parts:?}") };
        assert_eq!(answer.content[0], ContentBlock::text("Hi."), "{provider:?} {fault:?}");
        let message = Message::Ai(answer.clone());
        let calls: Vec<_> = message.tool_calls().map(|(_, name, args)| (name, args.to_string())).collect();
        assert_eq!(
            calls,
            [("write", r#"{"n":2}"#.to_owned())],
            "only the calls of the complete answer count"
        );
        assert_eq!(server.requests()[0].body, server.requests()[1].body, "{provider:?} {fault:?}");
    }))
    .await;
}

#[tokio::test]
async fn l11_an_answer_that_always_breaks_off_fails_after_some_attempts() {
    let broken = ScriptedReply::text("Let me").with_fault(ScriptedFault::Half).with_repeat();
    let server = start_server([broken]);
    let settings = ProviderSettings { retries_max: 1, ..settings(&server) };
    let (parts, error) = collect_parts(Provider::Anthropic, settings).await;
    assert!(matches!(error, Some(Error::MalformedAnswer { .. })), "{error:?}");
    assert_eq!(last_attempt(&parts), [AnswerPart::Text("Let me".into())]);
    assert_eq!(server.call_count(), 2);
}
