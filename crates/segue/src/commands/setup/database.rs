//! `segue db`: the database as a whole, brought up to date, copied, backed up. No agent is opened for it.

use std::path::PathBuf;
use std::str::FromStr;

use agent::{BackedUp, CancellationToken, Copied, CopyOutcome, Database, Frames};
use jiff::Timestamp;
use serde_json::json;
use terminal::{Screen, Seen, Then, Unit, one_line, shown_path, watch};

use crate::cli::database::{Copy, Db};
use crate::cli::{Format, Global};
use crate::commands::import::count;
use crate::commands::work::progress;
use crate::commands::{Asked, settings};
use crate::exit::{Code, Failure, Outcome};

/// Performs the command.
pub(crate) async fn run(global: &Global, args: Db) -> Outcome {
    let settings = settings(global, Asked::default())?;
    let place = Shown { screen: global.screen(), format: global.format() };
    let used = || settings.chosen_database();
    match args {
        Db::Migrate => {
            settings.home.create()?;
            place.migrate(&used()?).await
        }
        Db::Copy(Copy { from, to }) => {
            let named = |url: Option<String>| url.map_or_else(used, |url| Database::from_str(&url));
            place.copy(&named(from)?, &named(to)?).await
        }
        Db::Backup { to } => {
            let path = match to {
                Some(path) => path,
                None => agent::backup_path(&settings.home, Timestamp::now())?,
            };
            place.back_up(&used()?, path).await
        }
    }
}

/// Where answers are shown, and in which form.
struct Shown {
    screen: Screen,
    format: Format,
}

impl Shown {
    async fn migrate(&self, database: &Database) -> Outcome {
        let (location, versions) = database.migrate().await?;
        let text = match (versions.from, versions.to) {
            (from, to) if from == to => format!("{location} is up to date: schema {to}."),
            (0, to) => format!("{location}: schema {to} was made."),
            (from, to) => format!("{location}: schema {from} became {to}."),
        };
        self.tell(&json!({"location": location, "from": versions.from, "to": versions.to}), &text)
    }

    async fn copy(&self, from: &Database, to: &Database) -> Outcome {
        let copied = self
            .watched(Unit::Steps, async |frames, cancel| from.copy_to(to, &frames, &cancel).await)
            .await??;
        match copied.outcome {
            CopyOutcome::Whole => self.tell(&serde_json::to_value(&copied)?, &told(&copied)),
            CopyOutcome::Stopped => Err(Failure::cancelled("copy everything")
                .with_hint("the same command goes on where this one stopped")),
            CopyOutcome::SourceChanged => {
                let what = format!("finish the copy of {}: it was written to meanwhile", copied.from);
                Err(Failure::new(Code::Conflict, what).with_hint(
                    "stop what writes to it, and run the same command again: it brings over what changed",
                ))
            }
        }
    }

    async fn back_up(&self, from: &Database, path: PathBuf) -> Outcome {
        let made = self
            .watched(Unit::Bytes, async |frames, cancel| from.back_up(path, &frames, &cancel).await)
            .await??;
        match made {
            Some(BackedUp { from, path, bytes }) => {
                let size = indicatif::HumanBytes(bytes);
                let text = format!("{from} is backed up in {} ({size}).", shown_path(&path));
                self.tell(&json!({"from": from, "path": path, "bytes": bytes}), &text)
            }
            None => Err(Failure::cancelled("back everything up").with_hint("no file was left behind")),
        }
    }

    /// Does long work with a progress bar, until it ends or somebody stops it.
    async fn watched<T, W: Future<Output = T>>(
        &self,
        unit: Unit,
        work: impl FnOnce(Frames, CancellationToken) -> W,
    ) -> Result<T, Failure> {
        let bar = progress(&self.screen, self.format, unit);
        let show = |seen: Seen<'_>| {
            if let Seen::Frame(_, frame) = seen {
                bar.show(frame);
            }
            Ok(Then::GoOn)
        };
        Ok(watch(work, show).await?)
    }

    fn tell(&self, json: &serde_json::Value, text: &str) -> Outcome {
        match self.format {
            Format::Json => self.screen.line(json)?,
            // Not wrapped: where something is, is copied from here.
            Format::Text => self.screen.line(one_line(text))?,
        }
        Ok(Code::Done)
    }
}

/// Says what a whole copy is.
fn told(copied: &Copied) -> String {
    let rows: u64 = copied.tables.iter().map(|table| table.rows).sum();
    let again = match copied.changed_rows {
        0 => String::new(),
        changed => {
            format!("; {} had changed since an earlier call and came over again", count(changed, "row"))
        }
    };
    format!(
        "{} is copied into {}: {} in {}, each compared{again}.",
        copied.from,
        copied.to,
        count(rows, "row"),
        count(copied.tables.len() as u64, "table")
    )
}
