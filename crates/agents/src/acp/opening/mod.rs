//! Makes a session that can be prompted from a request: starts the program, makes the handshake, creates or resumes the
//! session, and sets its mode and model. Every request has a time limit. After a failure the process is ended before the error
//! is returned.

pub(crate) mod examination;
pub(crate) mod fault;
pub(crate) mod handshake;
pub(crate) mod program;
pub(crate) mod ready;
pub(crate) mod request;
pub(crate) mod resume_delay;
pub(crate) mod settings;

use crate::acp::opening::fault::{Fault, with_reset};
use crate::acp::opening::handshake::{Handshake, Shaken};
use crate::acp::opening::program::not_started;
use crate::acp::opening::ready::{Ready, ready};
use crate::acp::opening::request::OpenRequest;
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::connection::{Connection, Inbox};
use crate::harness::folder::RunFolder;
use crate::harness::program::node::old_node;
use crate::harness::session_in_use;
use crate::harness::turn::record::TurnRecord;
use ground::error::{Error, ErrorCode};
use ground::os::Claim;
use process::Traffic;
use serde_json::Value;
use std::path::PathBuf;

/// A session that can be prompted.
pub(crate) struct Opened {
    pub connection: Connection,
    pub inbox: Inbox,
    pub traffic: Traffic,
    pub folder: RunFolder,
    pub cwd: PathBuf,
    pub record: Option<TurnRecord>,
    pub shaken: Shaken,
    /// The session's id, for as long as it is open here.
    pub claim: Option<Claim>,
}

/// The program runs, and no request was sent yet.
pub(super) struct Entered<'a> {
    handshake: Handshake<'a>,
    folder: RunFolder,
    cwd: PathBuf,
    record: Option<TurnRecord>,
    traffic: Traffic,
    /// Path of the program.
    pub(super) path: String,
}

/// Starts the program. Call it within tokio.
pub(super) async fn enter(request: &OpenRequest) -> Result<Entered<'_>, Error> {
    let Ready { agent, spec, modes, meta, folder, cwd, record, path, .. } = ready(request).await?;
    let traffic = spec.traffic.clone();
    let (connection, inbox) = match Connection::start(spec).await {
        Ok(started) => started,
        Err(error) => {
            folder.remove().await;
            let error = not_started(agent, error);
            if let Some(record) = record {
                record.close(None, Some(&error), false).await;
            }
            return Err(error);
        }
    };
    let handshake = Handshake {
        agent,
        modes,
        meta,
        request,
        connection,
        inbox,
        heard: Vec::new(),
        heard_bytes: 0,
        ways_in: Vec::new(),
        has_ended: false,
        cause: None,
    };
    Ok(Entered { handshake, folder, cwd, record, traffic, path })
}

/// Opens a session, until `given_up` resolves. Call it within tokio.
pub(crate) async fn open(request: &OpenRequest, given_up: impl Future<Output = ()>) -> Result<Opened, Error> {
    let mut entered = enter(request).await?;
    let shaken = tokio::select! {
        shaken = entered.handshake.shake_hands(&entered.cwd) => shaken,
        () = given_up => Err(Fault::Other(aborted())),
    };
    let mut shaken = match shaken {
        Ok(shaken) => shaken,
        Err(fault) => return Err(entered.fail(fault).await),
    };
    let claim = session_in_use::claim(request.agent.provider, &shaken.session);
    if claim.is_none() && request.agent.resume.is_some() {
        shaken.warnings.push(session_in_use::warning(&shaken.session));
    }
    let Entered { handshake: Handshake { connection, inbox, .. }, folder, cwd, record, traffic, .. } =
        entered;
    Ok(Opened { connection, inbox, traffic, folder, cwd, record, shaken, claim })
}

impl Entered<'_> {
    /// Asks the program alone for its sessions, until `given_up` resolves; nothing of it is left then.
    pub(super) async fn list(mut self, given_up: impl Future<Output = ()>) -> Result<Vec<Value>, Error> {
        let listed = tokio::select! {
            listed = self.handshake.list(&self.cwd) => listed,
            () = given_up => Err(Fault::Other(aborted())),
        };
        self.leave(listed).await
    }

    /// Asks the program alone what it speaks, until `given_up` resolves; nothing of it is left then.
    pub(super) async fn greet(mut self, given_up: impl Future<Output = ()>) -> Result<Version, Error> {
        let greeted = tokio::select! {
            greeted = self.handshake.greet() => greeted,
            () = given_up => Err(Fault::Other(aborted())),
        };
        self.leave(greeted.map(|(version, _)| version)).await
    }

    /// Ends the program, which was asked all that was to be known.
    async fn leave<T>(self, asked: Result<T, Fault>) -> Result<T, Error> {
        let told = match asked {
            Ok(told) => told,
            Err(fault) => return Err(self.fail(fault).await),
        };
        self.handshake.connection.close().await;
        self.folder.remove().await;
        Ok(told)
    }

    /// Ends the program, and makes the error of its user.
    async fn fail(self, fault: Fault) -> Error {
        let Entered { handshake: Handshake { request, connection, ways_in, has_ended, .. }, .. } = self;
        if !has_ended {
            connection.kill();
        }
        let exit = connection.ended().await;
        self.folder.remove().await;
        let mut error = fault.into_error(request.agent.provider, &exit, &ways_in);
        error = with_reset(error, &request.agent);
        let may_be_old = [ErrorCode::AgentCrashed, ErrorCode::AgentFailed, ErrorCode::AgentIdle];
        if may_be_old.contains(&error.code())
            && let Some(why) = old_node(&request.agent, Some(&self.path)).await
        {
            error = error.adding(&why);
        }
        if let Some(record) = self.record {
            record.close(None, Some(&error), false).await;
        }
        error
    }
}

/// It was aborted before it was open.
pub(crate) fn aborted() -> Error {
    Error::new(ErrorCode::AgentAborted, "the session was aborted before it was open")
}
