//! Agent Skills: folders with instructions that a model loads when it needs them. The hook lists them by name and
//! description, the tool `load_skill` reads them. What a skill says is reference data; it allows nothing.

mod catalog;
mod front_matter;
mod load_skill;
mod prompt_listing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::ChatRequest;
use parking_lot::Mutex;
use runtime::{Channels, Frame, GraphUpdate, Hook, HookPoint, StepContext, StepFailure, Tool};

use catalog::{LinkPolicy, SkillFileTimes, SkillRoot};
pub use catalog::{Skill, SkillCatalog};

/// Where skills lie within the workspace, each folder more specific than the one before.
const PROJECT_ROOTS: &[&str] = &[".segue/skills", ".agents/skills", ".claude/skills"];
/// The most notices about skills that are shown at once.
const NOTICES_MAX: usize = 5;

/// The skills of an agent, found again when a folder changes.
pub struct Skills {
    roots: Vec<SkillRoot>,
    cached: Mutex<Option<CachedSkills>>,
}

struct CachedSkills {
    file_times: SkillFileTimes,
    catalog: Arc<SkillCatalog>,
    is_notified: bool,
}

impl Skills {
    /// Returns the skills in `home_skills`, a folder of the home folder, and in those of the workspace. Nothing is
    /// read yet.
    pub fn new(home_skills: &Path, workspace: &Path) -> Self {
        let root =
            |folder: PathBuf, links: LinkPolicy| SkillRoot { folder, workspace: workspace.to_owned(), links };
        let home = root(home_skills.to_owned(), LinkPolicy::Anywhere);
        let project = PROJECT_ROOTS.iter().map(|folder| root(workspace.join(folder), LinkPolicy::Inside));
        Self { roots: [home].into_iter().chain(project).collect(), cached: Mutex::new(None) }
    }

    /// Returns the skills there are, and what is wrong with others. It reads files only when something changed.
    pub fn catalog(&self) -> Arc<SkillCatalog> {
        let stamp = catalog::skill_file_times(&self.roots);
        let mut seen = self.cached.lock();
        match &*seen {
            Some(seen) if seen.file_times == stamp => Arc::clone(&seen.catalog),
            Some(_) | None => {
                let found = Arc::new(catalog::load_catalog(&self.roots, &stamp));
                let is_told = seen.as_ref().is_some_and(|seen| seen.catalog.notices == found.notices);
                *seen = Some(CachedSkills {
                    file_times: stamp,
                    catalog: Arc::clone(&found),
                    is_notified: is_told,
                });
                found
            }
        }
    }

    /// Returns the tool that loads skills. It is of use only where there are any.
    pub fn tool(self: &Arc<Self>) -> Arc<dyn Tool> {
        Arc::new(load_skill::LoadSkillTool { skills: Arc::clone(self) })
    }

    /// Returns whether the newest notices still have to be shown, and counts them as shown.
    fn claim_notices(&self) -> bool {
        let mut seen = self.cached.lock();
        seen.as_mut().is_some_and(|seen| !std::mem::replace(&mut seen.is_notified, true))
    }
}

#[async_trait]
impl Hook for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let found = self.catalog();
        if !found.notices.is_empty() && self.claim_notices() {
            for text in found.notices.iter().take(NOTICES_MAX) {
                step.frames.send(Frame::Notice { text: text.clone() });
            }
        }
        request.system.extend(prompt_listing::skills_section(&found.skills));
        Ok(GraphUpdate::default())
    }
}

#[cfg(test)]
mod tests;
