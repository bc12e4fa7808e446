//! Items: values that agents and clients store under a namespace and a key. Storage and search are the journal's
//! task; this module checks names, limits sizes and redacts secrets.
//!
//! The item store has the semantics of the store of the Agent Server API: a namespace is a path of labels, a value is
//! a JSON object, and a put replaces the previous value.

mod error;
mod filter;
mod redaction;
mod tool;

use futures::future::BoxFuture;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{ItemHit, ItemQuery, NamespaceQuery, PAGE_ROWS_MAX, Store, Transaction, Write};
use protocol::StoredItem;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::recall::query_words;

pub use error::{FilterError, ItemError};
pub use tool::{STORE, StoreTool};

/// Maximum size of a value in bytes, as JSON: 64 KiB.
pub const ITEM_BYTES_MAX: usize = 64 << 10;

/// Maximum number of labels of a namespace.
pub const NAMESPACE_LABELS_MAX: usize = 32;

/// Maximum size of a label or a key in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// First label of the namespaces reserved for LangGraph.
const RESERVED_LABEL: &str = "langgraph";

/// The store of named items.
#[derive(Clone)]
pub struct ItemStore {
    /// The journal's store.
    pub store: Arc<dyn Store>,
}

/// The receipt of a stored item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PutReceipt {
    /// Number of secrets redacted from the value.
    pub withheld: u64,
}

/// A search for items, with the fields of the Agent Server API.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ItemSearch {
    /// Restricts the search to namespaces that begin with these labels.
    pub namespace_prefix: Vec<String>,
    /// Conditions on fields of the value: a value to equal, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`
    /// and `$lte`.
    pub filter: Option<Map<String, Value>>,
    /// Words to rank the items by. Without words, the most recently stored items come first.
    pub query: Option<String>,
    /// Maximum number of items to return, 1 to [`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// Number of items to skip.
    pub offset: usize,
}

impl Default for ItemSearch {
    fn default() -> Self {
        Self { namespace_prefix: Vec::new(), filter: None, query: None, limit: 10, offset: 0 }
    }
}

/// A listing of namespaces, with the fields of the Agent Server API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamespaceSearch {
    /// Restricts the listing to namespaces that begin with these labels; `*` matches any one label.
    pub prefix: Option<Vec<String>>,
    /// Restricts the listing to namespaces that end with these labels; `*` matches any one label.
    pub suffix: Option<Vec<String>>,
    /// Cuts longer namespaces to this number of labels. Namespaces that are equal then appear once.
    pub max_depth: Option<usize>,
    /// Maximum number of namespaces to return, 1 to [`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// Number of namespaces to skip.
    pub offset: usize,
}

impl Default for NamespaceSearch {
    fn default() -> Self {
        Self { prefix: None, suffix: None, max_depth: None, limit: 100, offset: 0 }
    }
}

impl ItemStore {
    /// Stores `value`, which must be an object, and replaces the previous value. Redacts secrets in its texts.
    ///
    /// # Errors
    /// When the name or the value is invalid, and when the journal fails.
    pub async fn put(
        &self,
        namespace: &[String],
        key: &str,
        value: Value,
        now: Timestamp,
    ) -> Result<PutReceipt, ItemError> {
        let (item, receipt) = prepare_item(namespace, key, value, now)?;
        self.commit(Write::PutItem(item)).await?;
        Ok(receipt)
    }

    /// Returns the item with this name, or `None`.
    ///
    /// # Errors
    /// When the name is invalid, and when the journal fails.
    pub async fn get(&self, namespace: &[String], key: &str) -> Result<Option<StoredItem>, ItemError> {
        check_name(namespace, key)?;
        Ok(self.store.item(namespace, key).await?)
    }

    /// Deletes the item with this name. Does nothing when there is none.
    ///
    /// # Errors
    /// When the name is invalid, and when the journal fails.
    pub async fn delete(&self, namespace: &[String], key: &str) -> Result<(), ItemError> {
        check_name(namespace, key)?;
        self.commit(Write::DeleteItem { namespace: namespace.to_owned(), key: key.to_owned() }).await
    }

    /// Returns a page of items: the best matches first when the search has words, otherwise the most recently
    /// stored first.
    ///
    /// # Errors
    /// When the filter or the limit is invalid, and when the journal fails.
    pub fn search<'a>(&'a self, search: &'a ItemSearch) -> BoxFuture<'a, Result<Vec<ItemHit>, ItemError>> {
        journal::box_future(async move {
            check_limit(search.limit)?;
            let text = search.query.as_deref().map(str::trim).filter(|query| !query.is_empty());
            let words = text.map(query_words::parse_query_words).unwrap_or_default();
            // A query of only punctuation matches nothing. It must not become a listing of all items.
            if text.is_some() && words.is_empty() {
                return Ok(Vec::new());
            }
            let filter = match &search.filter {
                Some(filter) => filter::parse_conditions(filter)?,
                None => Vec::new(),
            };
            let prefix = search.namespace_prefix.clone();
            let query =
                ItemQuery { scope: None, prefix, words, filter, offset: search.offset, limit: search.limit };
            Ok(self.store.items(query).await?)
        })
    }

    /// Returns a page of the namespaces in use, each once, in order.
    ///
    /// # Errors
    /// When the limit is invalid, and when the journal fails.
    pub async fn list_namespaces(&self, search: &NamespaceSearch) -> Result<Vec<Vec<String>>, ItemError> {
        check_limit(search.limit)?;
        let query = NamespaceQuery {
            scope: None,
            prefix: search.prefix.clone().unwrap_or_default(),
            suffix: search.suffix.clone().unwrap_or_default(),
            // A depth of 0 means no limit, because every namespace has a label.
            depth_max: search.max_depth.filter(|depth| *depth > 0),
            offset: search.offset,
            limit: search.limit,
        };
        Ok(self.store.namespaces(query).await?)
    }

    async fn commit(&self, write: Write) -> Result<(), ItemError> {
        self.store.commit(Transaction { fence: None, writes: vec![write] }).await?;
        Ok(())
    }
}

/// Checks and redacts an item, and returns it ready to be stored.
///
/// # Errors
/// When the name is invalid or contains a secret, and when the value is not an object or too large.
fn prepare_item(
    namespace: &[String],
    key: &str,
    value: Value,
    now: Timestamp,
) -> Result<(StoredItem, PutReceipt), ItemError> {
    check_name(namespace, key)?;
    let Value::Object(mut value) = value else { return Err(ItemError::NotAnObject) };
    let bytes = serde_json::to_string(&value).map_err(journal::Error::from)?.len();
    if bytes > ITEM_BYTES_MAX {
        return Err(ItemError::TooLarge { bytes });
    }
    let withheld = redaction::redact_fields(&mut value)?;
    let (namespace, key) = (namespace.to_owned(), key.to_owned());
    Ok((StoredItem { namespace, key, value, created_at: now, updated_at: now }, PutReceipt { withheld }))
}

/// Checks that the namespace and the key are valid and contain no secret.
fn check_name(namespace: &[String], key: &str) -> Result<(), ItemError> {
    match namespace.first() {
        None => return Err(ItemError::EmptyNamespace),
        Some(first) if first == RESERVED_LABEL => return Err(ItemError::ReservedNamespace),
        Some(_) => {}
    }
    if namespace.len() > NAMESPACE_LABELS_MAX {
        return Err(ItemError::TooDeep { labels: namespace.len() });
    }
    for label in namespace {
        let is_bad = |char: char| char == '.' || char.is_control();
        if label.is_empty() || label.contains(is_bad) || label.len() > NAME_BYTES_MAX {
            return Err(ItemError::BadLabel { label: error::truncate_name(label) });
        }
    }
    if key.is_empty() || key.len() > NAME_BYTES_MAX {
        return Err(ItemError::BadKey { key: error::truncate_name(key) });
    }
    namespace.iter().map(String::as_str).chain([key]).try_for_each(redaction::check_no_secret)
}

/// Checks that the limit of a page is within the journal's bounds. A wrong limit is an error and is never changed
/// silently.
fn check_limit(limit: usize) -> Result<(), ItemError> {
    if (1..=PAGE_ROWS_MAX).contains(&limit) { Ok(()) } else { Err(ItemError::BadLimit { limit }) }
}
