//! Prepares an attempt: finds its program, and makes its arguments and files. Also reads the answer file that an attempt leaves.

use super::request::TurnRequest;
use super::structured::{ANSWER_FILE, prompt_with_problems, prompt_with_schema};
use crate::harness::agent_request::AgentRequest;
use crate::harness::agent_request::room::blocking;
use crate::harness::folder::RunFolder;
use crate::harness::launch::package::Program;
use crate::harness::launch::{
    Image, ImageContent, Launch, MAX_IMAGE_BYTES, Wanted, checked_image, path_text,
};
use crate::harness::limit::usage_limit::prompt_to_go_on;
use crate::harness::program::install::{advice_of_packages, locate};
use crate::harness::provider::{Images, SessionPolicy};
use crate::model::Schema;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::error::{Error, ErrorCode};
use ground::os::{ContainedFolders, open_input, real_path};
use process::Protect;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest answer that is read from a file: as long as one that is put together of deltas.
const MAX_ANSWER_FILE_BYTES: u64 = 16 << 20;

/// The request of an attempt after the turn's first.
#[derive(Clone, Debug, Default)]
pub(crate) enum Again {
    /// The same prompt again.
    #[default]
    Prompt,
    /// A corrected answer, asked for in the same session.
    Answer { session: String, problems: Vec<String> },
    /// The same work after a usage limit, in its session if there is one. `has_begun`: the agent is asked to continue, not to
    /// begin.
    AfterLimit { session: Option<String>, has_begun: bool },
}

impl Again {
    /// The session to continue in.
    pub(super) fn session(&self) -> Option<&str> {
        match self {
            Again::Prompt => None,
            Again::Answer { session, .. } => Some(session),
            Again::AfterLimit { session, .. } => session.as_deref(),
        }
    }

    /// Whether it continues a session that met a limit before any work was done.
    pub(super) fn is_of_nothing(&self) -> bool {
        matches!(self, Again::AfterLimit { session: Some(_), has_begun: false })
    }

    /// The request to make after a usage limit that interrupted this one.
    pub(super) fn after_limit(self, session: Option<String>, has_begun: bool) -> Again {
        match self {
            Again::Answer { .. } => self,
            Again::Prompt | Again::AfterLimit { .. } => Again::AfterLimit { session, has_begun },
        }
    }
}

/// The program of a request, or `AGENT_NOT_FOUND`. `AGENT_DEPTH` when this host may start no agent.
pub(super) fn program_of(agent: &AgentRequest) -> Result<Program, Error> {
    agent.depth()?;
    let path = agent.search_path();
    locate(agent.provider, agent.binary.as_deref(), &path)
        .ok_or_else(|| not_found(agent, agent.provider.descriptor().program))
}

pub(super) fn not_found(agent: &AgentRequest, command: &str) -> Error {
    let install = agent.provider.descriptor().install;
    let provider = agent.provider.as_str();
    let message = match &agent.binary {
        Some(_) => format!("{provider} was not found: there is no program at `binary`, {command}"),
        None => {
            format!(
                "{provider} was not found: there is no program {command} on PATH. Install it with: {install}{}",
                advice_of_packages(command, agent.cwd.as_deref())
            )
        }
    };
    Error::new(ErrorCode::AgentNotFound, message).with("install", install).with("command", command)
}

/// Arguments, environment and files of the next attempt.
pub(super) async fn prepare(
    request: &TurnRequest,
    folder: &RunFolder,
    again: &Again,
) -> Result<Launch, Error> {
    let provider = request.agent.provider.descriptor();
    let mut wanted = wanted_of(request, folder);
    wanted.cwd = real_cwd(&request.agent).await?;
    // A correction goes to a session that has seen them.
    if !matches!(again, Again::Answer { .. } | Again::AfterLimit { session: Some(_), has_begun: true }) {
        wanted.images = real_images(&wanted.cwd, request).await?;
    }
    if matches!(provider.session, SessionPolicy::Chosen) && request.agent.resume.is_none() {
        wanted.session_id = Some(ground::random::uuid());
    }
    if let Again::AfterLimit { has_begun: true, .. } = again {
        wanted.prompt = prompt_to_go_on(&wanted.prompt);
    }
    let schema = request.schema.as_deref().map(Schema::source);
    let file = schema.and_then(|schema| ask_for(schema, request, folder, again, &mut wanted));
    if let Some(session) = again.session() {
        wanted.resume = Some(session.to_owned());
    }
    let mut launch = (provider.launch)(&wanted)?;
    launch.session = if wanted.resume.is_none() { wanted.session_id } else { None };
    launch.files.extend(file);
    request.agent.make_room(provider.accounting, folder, wanted.cwd, &mut launch).await?;
    if let Some(sandbox) = launch.sandbox.as_mut().filter(|sandbox| sandbox.protect.is_none())
        && !launch.restored.is_empty()
    {
        sandbox.protect = Some(Protect::restoring(launch.restored));
    }
    Ok(launch)
}

/// Asks for an answer by this schema. Returns the file that the CLI's own flag names, with its text.
fn ask_for(
    schema: &Value,
    request: &TurnRequest,
    folder: &RunFolder,
    again: &Again,
    wanted: &mut Wanted,
) -> Option<(PathBuf, String)> {
    let by_flag = (request.agent.provider.descriptor().takes_schema)(schema);
    let file = by_flag.then(|| folder.path().join("schema.json"));
    if let Some(file) = &file {
        wanted.schema_file = Some(path_text(file));
        wanted.schema = Some(schema.clone());
    }
    if let Again::Answer { problems, .. } = again {
        wanted.prompt = prompt_with_problems(problems, schema, by_flag);
    } else if !by_flag {
        let answer = path_text(&folder.scratch().join(ANSWER_FILE));
        wanted.prompt = prompt_with_schema(&wanted.prompt, schema, &answer, request.agent.level);
    }
    file.map(|file| (file, schema.to_string()))
}

/// The working directory with links resolved. A missing folder is not an error here: the start reports it.
async fn real_cwd(agent: &AgentRequest) -> Result<PathBuf, Error> {
    let cwd = agent.cwd.clone().unwrap_or_else(|| ".".into());
    let held = agent.holds_cwd.then(|| agent.folder.clone());
    blocking(move || {
        let real = held.map_or_else(|| real_path(&cwd), |held| held.name());
        Ok(real.unwrap_or(cwd))
    })
    .await
}

/// The images as their CLI takes them. `INVALID_OPTION` for a path without a file, and for content that is not an image.
async fn real_images(cwd: &Path, request: &TurnRequest) -> Result<Vec<Image>, Error> {
    let images: Vec<PathBuf> = request.images.iter().map(|image| cwd.join(image)).collect();
    let is_read = request.agent.provider.descriptor().images == Some(Images::ByMessage);
    let contained = request.agent.sandboxed_folders();
    blocking(move || {
        let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
        let real = |(index, image): (usize, &PathBuf)| {
            let is_file = image.metadata().is_ok_and(|facts| facts.is_file());
            let content = match is_read {
                _ if !is_file => Err("is no file".to_owned()),
                true => image_content(image, &contained).map(Some),
                false => Ok(None),
            };
            let refuse = |problem| {
                let problem = format!("{} {problem}", image.display());
                Error::invalid_option(&format!("images[{index}]"), problem)
            };
            Ok(Image { path: path_text(image), content: content.map_err(refuse)? })
        };
        images.iter().enumerate().map(real).collect()
    })
    .await
}

fn image_content(image: &Path, contained: &ContainedFolders) -> Result<ImageContent, String> {
    let mut bytes = Vec::new();
    open_input(image, contained)
        .and_then(|file| file.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("could not be read: {error}"))?;
    let media_type = checked_image(&bytes)?;
    Ok(ImageContent { media_type, base64: STANDARD.encode(bytes) })
}

/// The prompt and the options as the provider is asked for them.
fn wanted_of(request: &TurnRequest, folder: &RunFolder) -> Wanted {
    let (agent, reads) = (&request.agent, request.agent.provider.descriptor().reads);
    let variable = |name: &&'static str| Some((*name, agent.shown(agent.variable(name)?)));
    Wanted {
        prompt: request.prompt.clone(),
        model: request.agent.model.clone(),
        system_prompt: request.agent.system_prompt.clone(),
        cli_tools: request.cli_tools.clone(),
        max_turns: request.max_turns,
        permission: request.agent.level,
        allow: request.allow.clone(),
        is_sandboxed: request.agent.sandbox.is_some(),
        variables: reads.iter().filter_map(variable).collect(),
        resume: request.agent.resume.clone(),
        mcp_servers: request.mcp_servers.iter().map(|server| agent.shown_server(server)).collect(),
        extra_args: request.extra_args.clone(),
        folder: folder.path().to_owned(),
        ..Wanted::default()
    }
}

/// Takes the answer that the agent wrote to its file, if that is a regular file within the size limit of an answer.
pub(super) async fn take_answer_file(folder: &RunFolder) -> Option<String> {
    let held = folder.again().ok()?;
    let taken = ground::os::blocking(move || {
        let answer = held.read(ANSWER_FILE, MAX_ANSWER_FILE_BYTES);
        held.clear(ANSWER_FILE);
        answer
    });
    taken.await.ok().flatten()
}
