//! A turn as it is asked for, and the checks that need no process.

use super::allowance::Allowance;
use super::budget::Budget;
use super::clock::Limits;
use super::level::Level;
use super::provider::Provider;
use super::restraint::check_switches;
use super::spending::{Caps, Prices};
use super::workspace::AgentSandbox;
use crate::error::Error;
use crate::model::Schema;
use crate::process::{Containment, Environment, EnvironmentBase, ProcessSpec};
use crate::retry::RetryPolicy;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is done about the work that an agent left running when it ended its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// The turn goes on until it is done, within the clocks.
    #[default]
    Wait,
    /// The turn is over; a warning names it.
    Leave,
}

/// A prompt for an agent, and how it is to be run.
#[derive(Clone)]
pub struct TurnRequest {
    pub provider: Provider,
    pub prompt: String,
    /// Program and leading arguments; the provider's own on PATH when `None`.
    pub binary: Option<Vec<String>>,
    pub cwd: Option<PathBuf>,
    pub environment: Environment,
    pub kill_grace: Duration,
    pub containment: Containment,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Vec<String>>,
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    pub permission: Level,
    /// Globs of commands that "edit" may run.
    pub allow: Vec<String>,
    /// What the kernel holds it in.
    pub sandbox: Option<AgentSandbox>,
    /// Of this turn alone, over all its attempts.
    pub caps: Caps,
    /// What the tokens of this turn cost, for `caps` and `budget`.
    pub prices: Option<Prices>,
    /// Shared with other turns.
    pub budget: Option<Budget>,
    pub background: Background,
    pub schema: Option<Arc<Schema>>,
    pub resume: Option<String>,
    pub limits: Limits,
    pub retry: RetryPolicy,
    /// Whether a turn is repeated though a tool ran in it.
    pub retry_after_tools: bool,
    /// The longest wait for the end of a usage limit; zero: none.
    pub wait_for_reset: Duration,
    pub extra_args: Vec<String>,
    pub redact: Vec<String>,
    /// Whether somebody may listen to the events.
    pub has_listener: bool,
    /// The folder in which a new one keeps the turn.
    pub record: Option<PathBuf>,
    pub max_record_bytes: Option<u64>,
    /// What people call it; the prompt's head when `None`.
    pub name: Option<String>,
}

impl TurnRequest {
    pub const RETRY: RetryPolicy =
        RetryPolicy { attempts: 3, base_delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) };

    pub fn new(provider: Provider, prompt: impl Into<String>) -> Self {
        TurnRequest {
            provider,
            prompt: prompt.into(),
            binary: None,
            cwd: None,
            environment: Environment::default(),
            kill_grace: ProcessSpec::KILL_GRACE,
            containment: Containment::Auto,
            model: None,
            system_prompt: None,
            tools: None,
            max_turns: None,
            max_budget_usd: None,
            permission: Level::Edit,
            allow: Vec::new(),
            sandbox: None,
            caps: Caps::default(),
            prices: None,
            budget: None,
            background: Background::Wait,
            schema: None,
            resume: None,
            limits: Limits::default(),
            retry: Self::RETRY,
            retry_after_tools: false,
            wait_for_reset: Duration::ZERO,
            extra_args: Vec::new(),
            redact: Vec::new(),
            has_listener: false,
            record: None,
            max_record_bytes: None,
            name: None,
        }
    }

    /// What the turn may use; `INVALID_OPTION` when its CLI can't be held to that.
    pub(crate) fn allowance(&self) -> Result<Allowance, Error> {
        Allowance::new(self.provider, self.caps, self.prices, self.budget.as_ref())
    }

    /// `INVALID_OPTION` for what no agent can be asked.
    pub fn check(&self) -> Result<(), Error> {
        if self.prompt.trim().is_empty() {
            return Err(Error::invalid_option("prompt", "expected a prompt that is not empty"));
        }
        let texts = [
            ("prompt", Some(&self.prompt)),
            ("model", self.model.as_ref()),
            ("systemPrompt", self.system_prompt.as_ref()),
        ];
        for (path, text) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(Error::invalid_option(
                    path,
                    "contains a NUL character, which no program can be given",
                ));
            }
        }
        for (path, text) in [("resume", &self.resume), ("model", &self.model)] {
            if text.as_ref().is_some_and(|text| text.trim().is_empty() || text.starts_with('-')) {
                return Err(Error::invalid_option(
                    path,
                    "expected a name that is not empty and does not begin with \"-\"",
                ));
            }
        }
        if self
            .system_prompt
            .as_ref()
            .is_some_and(|text| text.len() > super::launch::Wanted::MAX_ARGUMENT_BYTES)
        {
            return Err(Error::invalid_option(
                "systemPrompt",
                "is longer than 100000 bytes, which no program can be given",
            ));
        }
        self.check_level()?;
        self.check_cwd()
    }

    /// Nothing raises the level behind its user's back.
    fn check_level(&self) -> Result<(), Error> {
        if self.permission == Level::Ask {
            let problem = "\"ask\" is for sessions, where somebody can be asked: expected \"plan\", \"edit\" or \"auto\"";
            return Err(Error::invalid_option("permission", problem));
        }
        super::allow::check(&self.allow, self.permission)?;
        check_switches(self.provider, self.permission, &self.environment.changes)
    }

    /// An agent that may write is no use where it can't. What is not there at all is told by the start itself.
    fn check_cwd(&self) -> Result<(), Error> {
        let Some(cwd) = self.cwd.as_ref().filter(|cwd| self.permission != Level::Plan && cwd.is_dir()) else {
            return Ok(());
        };
        if can_write(cwd) {
            return Ok(());
        }
        let problem = format!(
            "the agent can't write to {}: give it another folder, or permission: \"plan\" if it is only to read",
            cwd.display()
        );
        Err(Error::invalid_option("cwd", problem))
    }

    /// What the turn is called: its name, else the head of its prompt.
    pub fn label(&self) -> String {
        const MAX_CHARACTERS: usize = 80;
        let words: String = self.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let head = || match words.char_indices().nth(MAX_CHARACTERS) {
            Some((end, _)) => format!("{}…", &words[..end]),
            None => words.clone(),
        };
        self.name.clone().unwrap_or_else(head)
    }

    /// A variable of the run's environment, before the provider's own additions.
    pub fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.environment.changes.iter().rev().find(|(changed, _)| changed == name) {
            return value.clone();
        }
        match &self.environment.base {
            EnvironmentBase::Inherit => std::env::var(name).ok(),
            EnvironmentBase::Empty => None,
            EnvironmentBase::Variables(variables) => {
                let found = variables.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.to_string_lossy().into_owned())
            }
        }
    }
}

/// Asked of the system by making a file that has no name, so that nobody sees it.
#[cfg(target_os = "linux")]
fn can_write(folder: &std::path::Path) -> bool {
    use std::io::ErrorKind;
    use std::os::unix::fs::OpenOptionsExt;
    const DIRECTORY: i32 = if cfg!(target_arch = "aarch64") { 0o40_000 } else { 0o200_000 };
    const UNNAMED: i32 = 0o20_000_000 | DIRECTORY;
    match std::fs::OpenOptions::new().write(true).custom_flags(UNNAMED).open(folder) {
        Ok(_) => true,
        // A file system that can't do this tells nothing.
        Err(error) => !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem),
    }
}

#[cfg(not(target_os = "linux"))]
fn can_write(folder: &std::path::Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| !facts.permissions().readonly())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut TurnRequest)) -> String {
        let mut request = TurnRequest::new(Provider::Codex, "hi");
        change(&mut request);
        request.check().map_or_else(|error| error.message().to_owned(), |()| String::new())
    }

    #[test]
    fn what_no_agent_can_be_asked_is_refused_by_its_path() {
        assert_eq!(problem(|_| {}), "");
        assert!(problem(|request| request.prompt = " \n".into()).starts_with("prompt: "));
        assert!(problem(|request| request.prompt = "a\0b".into()).starts_with("prompt: contains a NUL"));
        assert!(problem(|request| request.resume = Some("--last".into())).starts_with("resume: "));
        assert!(problem(|request| request.model = Some(String::new())).starts_with("model: "));
        assert_eq!(problem(|request| request.prompt = "-rf is a flag".into()), "");
    }

    #[test]
    fn a_folder_that_can_be_written_to_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(problem(|request| request.cwd = Some(folder.path().into())), "");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the check leaves nothing behind");
    }
}
