//! Agent Skills: folders with instructions that the model loads when it needs them.
//!
//! The hook [`Skills`] lists the skills by name and description in the system prompt, and the tool `load_skill` reads
//! them. The text of a skill is reference data: it grants no permission.

mod catalog;
mod front_matter;
mod load_skill;
mod missing_folders;
mod prompt_listing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use model::ChatRequest;
use parking_lot::Mutex;
use runtime::{Channels, Frame, GraphUpdate, Hook, HookPoint, StepContext, StepFailure, Tool};

use catalog::{LinkPolicy, SkillFileVersions, SkillRoot};
pub use catalog::{Skill, SkillCatalog};
use missing_folders::MissingFolders;

/// Folders of skills, relative to the workspace, in ascending precedence.
const PROJECT_ROOTS: &[&str] = &[".segue/skills", ".agents/skills", ".claude/skills"];
/// Maximum number of notices about skills that are shown at once.
const NOTICES_MAX: usize = 5;

/// The skills of an agent, and the hook that lists them to the model.
///
/// The catalog is cached. It is loaded again when a skill file appears, disappears or changes.
pub struct Skills {
    /// Folders of skills, in ascending precedence: the home folder's first, then those of the workspace.
    roots: Vec<SkillRoot>,
    /// The roots that do not exist, as far as known.
    missing: Mutex<MissingFolders>,
    /// The catalog that was loaded last; `None` before the first use.
    cached: Mutex<Option<CachedSkills>>,
}

/// A loaded catalog with the versions of the files that it was loaded for.
struct CachedSkills {
    file_versions: SkillFileVersions,
    catalog: Arc<SkillCatalog>,
    /// True once the user was shown the notices of this catalog.
    is_notified: bool,
}

impl Skills {
    /// Returns the skills in `home_skills`, a folder of Segue's home folder, and in the skill folders of the workspace.
    /// The constructor reads no file; missing folders have no skills.
    pub fn new(home_skills: &Path, workspace: &Path) -> Self {
        let root =
            |folder: PathBuf, links: LinkPolicy| SkillRoot { folder, workspace: workspace.to_owned(), links };
        let home = root(home_skills.to_owned(), LinkPolicy::Anywhere);
        let project = PROJECT_ROOTS.iter().map(|folder| root(workspace.join(folder), LinkPolicy::Inside));
        Self {
            roots: [home].into_iter().chain(project).collect(),
            missing: Mutex::default(),
            cached: Mutex::new(None),
        }
    }

    /// Returns the usable skills, with notices about unusable ones.
    ///
    /// Each call does blocking I/O: it lists the skill folders and reads the metadata of the files. The skill files
    /// themselves are read only when one of these changed. For skill folders that do not exist, it reads the metadata of the
    /// folders in which they would appear.
    pub fn catalog(&self) -> Arc<SkillCatalog> {
        self.catalog_at(SystemTime::now())
    }

    /// Returns the catalog at the time `now`.
    fn catalog_at(&self, now: SystemTime) -> Arc<SkillCatalog> {
        let mut missing = self.missing.lock().clone();
        let file_versions = catalog::skill_file_versions(&self.roots, &mut missing, now);
        // Of concurrent calls, the last one decides. What each of them knows holds until a folder changes.
        *self.missing.lock() = missing;
        let mut cached = self.cached.lock();
        match &*cached {
            Some(cached) if cached.file_versions == file_versions => Arc::clone(&cached.catalog),
            Some(_) | None => {
                let catalog = Arc::new(catalog::load_catalog(&self.roots, &file_versions));
                // The same notices are not shown again after a change that does not affect them.
                let is_notified =
                    cached.as_ref().is_some_and(|cached| cached.catalog.notices == catalog.notices);
                *cached = Some(CachedSkills { file_versions, catalog: Arc::clone(&catalog), is_notified });
                catalog
            }
        }
    }

    /// Returns the tool `load_skill`. It shares the cached catalog with the hook.
    pub fn tool(self: &Arc<Self>) -> Arc<dyn Tool> {
        Arc::new(load_skill::LoadSkillTool { skills: Arc::clone(self) })
    }

    /// Marks the notices of the cached catalog as shown, and returns whether the caller has to show them. Concurrent
    /// runs therefore show them once.
    fn claim_notices(&self) -> bool {
        let mut cached = self.cached.lock();
        cached.as_mut().is_some_and(|cached| !std::mem::replace(&mut cached.is_notified, true))
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

    /// Adds the list of skills to the system prompt, and shows notices about unusable skills to the user.
    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let catalog = self.catalog();
        if !catalog.notices.is_empty() && self.claim_notices() {
            for text in catalog.notices.iter().take(NOTICES_MAX) {
                step.frames.send(Frame::Notice { text: text.clone() });
            }
        }
        request.system.extend(prompt_listing::skills_section(&catalog.skills));
        Ok(GraphUpdate::default())
    }
}

#[cfg(test)]
mod tests;
