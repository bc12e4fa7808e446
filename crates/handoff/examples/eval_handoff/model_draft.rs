//! Drafts of a configured model for the evaluation: a conversation in a journal in memory, and the nodes that draft in a
//! run.

use std::sync::Arc;

use handoff::{
    DraftSettings, HandoffApproval, HandoffOptions, PreparedHandoffRequest, ThreadScanCache, render,
};
use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use model::{ChatModel, ModelName, ProviderSettings};
use protocol::{AssistantId, CarriedFacts, HandoffId, NewEvent, Thread, ThreadId};
use runtime::{FrameSender, RunScope};
use tokio_util::sync::CancellationToken;

/// The limit of the calls that summarize parts of a conversation, as in the program's default settings.
const PART_CALLS_MAX: u32 = 16;

/// Opens the model `PROVIDER/NAME` with the key and the base URL of the environment.
///
/// # Errors
/// When the name, the key or the URL is invalid.
pub fn open_model(name: &str) -> Result<Arc<dyn ChatModel>, String> {
    let name: ModelName = name.parse().map_err(|error| format!("parse the model `{name}`: {error}"))?;
    let read = |variables: &[&str]| variables.iter().find_map(|variable| std::env::var(variable).ok());
    let settings = ProviderSettings {
        api_key: read(name.provider.key_variables()).map(Into::into),
        base_url: read(name.provider.base_url_variables()),
        ..ProviderSettings::default()
    };
    model::connect(name, settings).map_err(|error| error.to_string())
}

/// Returns the text that the model drafts for the conversation within `tokens_max` tokens, without the facts that every
/// package carries.
///
/// # Errors
/// When the journal cannot be used, or the model wrote no usable draft.
pub async fn draft_with_model(
    model: &Arc<dyn ChatModel>,
    events: Vec<NewEvent>,
    tokens_max: u64,
) -> Result<String, String> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().map_err(|error| error.to_string())?);
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await.map_err(|error| error.to_string())?;
    let drafting = DraftSettings {
        model: Some(Arc::clone(model)),
        open_model: Arc::new(|name| {
            Err(format!("the evaluation opens no other model than its own, not `{name}`"))
        }),
        max_summary_tokens: tokens_max,
        max_input_tokens: None,
        max_part_calls: PART_CALLS_MAX,
        price: Arc::new(|_, _| None),
        scan_cache: Arc::new(ThreadScanCache::default()),
    };
    let node = HandoffApproval { drafting, max_refinements: 0 };
    let request = PreparedHandoffRequest {
        handoff_id: HandoffId::generate(),
        child_thread_id: ThreadId::generate(),
        parent_thread_id: thread_id,
        assistant_id: AssistantId::default(),
        now: Timestamp::UNIX_EPOCH,
        options: HandoffOptions { preview_only: true, ..HandoffOptions::default() },
    };
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let scope = RunScope { frames: &frames, cancel: &cancel };
    let preview = node.preview(&store, &request, scope).await.map_err(|failure| failure.to_string())?;
    let preview = preview.ok_or_else(|| "the draft was stopped".to_owned())?;
    let summary = preview.proposal.summary_json;
    if summary.model != model.name().to_string() {
        let args = preview.payload.action_requests.first().map(|request| request.args["problem"].clone());
        return Err(args.and_then(|problem| Some(problem.as_str()?.to_owned())).unwrap_or_default());
    }
    let names = CarriedFacts { in_use: summary.carried.in_use, ..CarriedFacts::default() };
    let text = render::render_markdown(&summary.title, &summary.tldr, &summary.body);
    Ok(text + &render::facts_markdown(&names))
}
