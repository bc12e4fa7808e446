//! Agent Skills: folders with instructions that a model loads when it needs them. The hook lists them by name and
//! description, the tool `load_skill` reads them. What a skill says is reference data; it allows nothing.

mod catalog;
mod front_matter;
mod listing;
mod load_skill;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::ChatRequest;
use parking_lot::Mutex;
use runtime::{Channels, Failure, Frame, Hook, Point, StepContext, Tool, Update};

use catalog::{Links, Root, Stamp};
pub use catalog::{Skill, SkillsFound};

/// Where skills lie within the workspace, each folder more specific than the one before.
const PROJECT_ROOTS: &[&str] = &[".segue/skills", ".agents/skills", ".claude/skills"];
/// The most notices about skills that are shown at once.
const NOTICES_MAX: usize = 5;

/// The skills of an agent, found again when a folder changes.
pub struct Skills {
    roots: Vec<Root>,
    seen: Mutex<Option<Seen>>,
}

struct Seen {
    stamp: Stamp,
    found: Arc<SkillsFound>,
    is_told: bool,
}

impl Skills {
    /// Returns the skills in `home_skills`, a folder of the home folder, and in those of the workspace. Nothing is
    /// read yet.
    pub fn new(home_skills: &Path, workspace: &Path) -> Self {
        let root = |folder: PathBuf, links: Links| Root { folder, workspace: workspace.to_owned(), links };
        let home = root(home_skills.to_owned(), Links::Anywhere);
        let project = PROJECT_ROOTS.iter().map(|folder| root(workspace.join(folder), Links::Inside));
        Self { roots: [home].into_iter().chain(project).collect(), seen: Mutex::new(None) }
    }

    /// Returns the skills there are, and what is wrong with others. It reads files only when something changed.
    pub fn found(&self) -> Arc<SkillsFound> {
        let stamp = catalog::stamp(&self.roots);
        let mut seen = self.seen.lock();
        match &*seen {
            Some(seen) if seen.stamp == stamp => Arc::clone(&seen.found),
            Some(_) | None => {
                let found = Arc::new(catalog::find(&self.roots, &stamp));
                let is_told = seen.as_ref().is_some_and(|seen| seen.found.notices == found.notices);
                *seen = Some(Seen { stamp, found: Arc::clone(&found), is_told });
                found
            }
        }
    }

    /// Returns the tool that loads skills. It is of use only where there are any.
    pub fn tool(self: &Arc<Self>) -> Arc<dyn Tool> {
        Arc::new(load_skill::LoadSkill { skills: Arc::clone(self) })
    }

    /// Returns whether the newest notices still have to be shown, and counts them as shown.
    fn take_untold(&self) -> bool {
        let mut seen = self.seen.lock();
        seen.as_mut().is_some_and(|seen| !std::mem::replace(&mut seen.is_told, true))
    }
}

#[async_trait]
impl Hook for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn is_idle(&self, _point: Point, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        let found = self.found();
        if !found.notices.is_empty() && self.take_untold() {
            for text in found.notices.iter().take(NOTICES_MAX) {
                step.frames.send(Frame::Notice { text: text.clone() });
            }
        }
        request.system.extend(listing::section(&found.skills));
        Ok(Update::default())
    }
}

#[cfg(test)]
mod tests;
