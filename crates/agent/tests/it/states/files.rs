//! Tests of files in the messages of a state: their bytes are included up to the size limit.

use agent::StateMessage;
use jiff::Timestamp;
use journal::{Artifact, Transaction, Write};
use protocol::{ContentBlock, HumanMessage, Message, NewEvent};

use crate::requests::{RequestFixture, done_reply};

#[tokio::test]
async fn files_include_their_bytes_up_to_the_size_limit() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let now = Timestamp::now();
    let artifact = Artifact::new(fixture.thread, "image/png", b"png".to_vec(), now);
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
    let writes = vec![Write::PutArtifact(artifact), Write::Append { thread_id: fixture.thread, events }];
    fixture.agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
    let messages = fixture.agent.threads().messages_after(fixture.thread, 0).await.unwrap();
    let encoded_bytes = |message: &StateMessage| message.base64_of(&sha256);
    let encoded: Vec<_> = messages.iter().map(|message| encoded_bytes(message)).collect();
    assert_eq!(encoded, [Some("cG5n".to_owned()), None, Some("cG5n".to_owned())]);
    messages[0].encoded_with(|_| serde_json::value::to_raw_value("x").unwrap().into());
    assert_eq!(
        encoded_bytes(&messages[0]),
        None,
        "after the message is encoded, its bytes are stored only in the encoded form"
    );
}
