//! The smallest agent: one thread, one turn, the answer streamed to the screen.
//!
//! `cargo run -p segue-agent --example minimal` uses a scripted model server. With an API key in the environment and
//! `SEGUE_MODEL` set, the same code uses a real model.

use agent::{Agent, AgentSettings, CancellationToken, Frame, FrameSender, HomeFolder, SubscriptionItem};
use protocol::{HumanMessage, Message};
use test_model::{Script, ScriptedReply, ScriptedServer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let home = HomeFolder::locate(Some(folder.path().join("home").as_os_str()))?;
    let script = Script::new([ScriptedReply::from_pieces(["Hello from ", "the other side."])]);
    let _server = scripted_model(&home, script)?;

    let agent = Agent::open(AgentSettings::new(home, folder.path())).await?;
    let thread = agent.threads().create(Some("A first thread".to_owned())).await?;

    let (frames, mut stream) = FrameSender::channel();
    let message = HumanMessage::text("Say hello.");
    let cancel = CancellationToken::new();
    let turn = async {
        let end = agent.runs().send_message(thread.thread_id, message, &frames, &cancel).await;
        drop(frames);
        end
    };
    let show = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            if let Frame::Text { text, .. } = &*frame {
                print!("{text}");
            }
        }
        println!();
    };
    let (end, ()) = tokio::join!(turn, show);
    println!("The run ended: {}.", end?.status.as_str());

    // The journal holds everything: after a restart, or in another process, the events are the same.
    for event in agent.threads().events(thread.thread_id).await? {
        let text = event.message().as_ref().map(Message::text).unwrap_or_default();
        println!("{:>3} {:<14} {text}", event.seq, event.event_type);
    }
    Ok(())
}

/// Starts the scripted model and configures it in the home folder. Returns `None` if `SEGUE_MODEL` names a real model.
fn scripted_model(
    home: &HomeFolder,
    script: Script,
) -> Result<Option<ScriptedServer>, Box<dyn std::error::Error>> {
    if std::env::var_os("SEGUE_MODEL").is_some() {
        return Ok(None);
    }
    home.create()?;
    let server = ScriptedServer::start(script)?;
    let url = server.url();
    let text = format!(
        "model = \"anthropic/scripted\"\n[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"none\"\n"
    );
    std::fs::write(home.config_path(), text)?;
    Ok(Some(server))
}
