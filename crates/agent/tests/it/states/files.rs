//! Files in the messages of a state: there with their bytes, as far as these are few enough to be kept.

use agent::StateMessage;
use jiff::Timestamp;
use journal::{Artifact, Transaction, Write};
use protocol::{ContentBlock, HumanMessage, Message, NewEvent};

use crate::requests::{RequestFixture, done_reply};

#[tokio::test]
async fn files_are_told_with_their_bytes_as_far_as_these_can_be_kept() {
    let desk = RequestFixture::new([done_reply()]).await;
    let now = Timestamp::now();
    let artifact = Artifact::new(desk.thread, "image/png", b"png".to_vec(), now);
    let sha256 = artifact.sha256.clone();
    let media_message = |bytes: u64| {
        let media = ContentBlock::Media {
            media_type: "image/png".to_owned(),
            sha256: Some(sha256.clone()),
            bytes: Some(bytes),
        };
        let message = Message::Human(HumanMessage { id: None, content: vec![media.clone(), media] });
        NewEvent::from_message(&message, now).unwrap()
    };
    let events = vec![media_message(3), media_message(17 << 20), media_message(3)];
    let writes = vec![Write::PutArtifact(artifact), Write::Append { thread_id: desk.thread, events }];
    desk.agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
    let messages = desk.agent.threads().messages_after(desk.thread, 0).await.unwrap();
    let told = |message: &StateMessage| message.base64_of(&sha256);
    let kept: Vec<_> = messages.iter().map(|message| told(message)).collect();
    assert_eq!(kept, [Some("cG5n".to_owned()), None, Some("cG5n".to_owned())]);
    messages[0].encoded_with(|_| serde_json::value::to_raw_value("x").unwrap().into());
    assert_eq!(told(&messages[0]), None, "once it is written, its bytes are kept in one form");
}
