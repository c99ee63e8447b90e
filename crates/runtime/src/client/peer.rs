//! PURE: what the client knows about the runtime at the other end.
//!
//! | state | evidence | next state |
//! |---|---|---|
//! | `Undecided` | a hello, at any time | `Resumes` with its capabilities |
//! | `Undecided` | a frame with `seq`, or an acknowledgement | `Resumes` without further capabilities |
//! | `Undecided` | any other frame | `Plain` |
//! | `Resumes` | a hello | `Resumes` with its capabilities |
//! | `Resumes`, `Plain` | anything else | unchanged |
//!
//! No clock decides this: a runtime on a busy machine answers hello late, and is still resumed.

use crate::wire::capability::{Capabilities, Capability};
use crate::wire::frame::RuntimeFrame;
use crate::wire::runtime_message::RuntimeMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The runtime has sent nothing yet. The client numbers and keeps its frames, and tries to resume.
    Undecided,
    /// The runtime numbers its frames and continues the session over another socket.
    Resumes(Capabilities),
    /// The runtime knows the protocol without hello.
    Plain,
}

impl Peer {
    pub(super) fn on_frame(self, frame: &RuntimeFrame) -> Peer {
        match (self, &frame.message) {
            (Peer::Undecided | Peer::Resumes(_), RuntimeMessage::Hello(hello)) => {
                Peer::Resumes(hello.capabilities)
            }
            (Peer::Undecided, RuntimeMessage::Acknowledge(_)) => Peer::Resumes(Capabilities::default()),
            (Peer::Undecided, _) if frame.seq.is_some() => Peer::Resumes(Capabilities::default()),
            (Peer::Undecided, _) => Peer::Plain,
            (decided, _) => decided,
        }
    }

    pub(super) fn has(self, capability: Capability) -> bool {
        matches!(self, Peer::Resumes(capabilities) if capabilities.has(capability))
    }

    /// `None` while it is not known.
    pub(super) fn resumes(self) -> Option<bool> {
        match self {
            Peer::Undecided => None,
            Peer::Resumes(_) => Some(true),
            Peer::Plain => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::parse_runtime_frame;

    #[test]
    fn what_arrives_decides_once() {
        let hello = r#"{"message_type":"hello_message","capabilities":["artifact_upload_decline"]}"#;
        let numbered = r#"{"message_type":"assistant_message","text_blocks":[],"seq":1}"#;
        let plain = r#"{"message_type":"assistant_message","text_blocks":[]}"#;
        let acknowledged = r#"{"message_type":"ack_message","ack":1}"#;
        let unknown = r#"{"message_type":"new_message"}"#;
        let after = |frames: &[&str]| {
            frames
                .iter()
                .fold(Peer::Undecided, |peer, text| peer.on_frame(&parse_runtime_frame(text).unwrap()))
        };
        for (frames, resumes, declines) in [
            (&[][..], None, false),
            (&[hello], Some(true), true),
            (&[numbered], Some(true), false),
            (&[numbered, hello], Some(true), true),
            (&[acknowledged, plain], Some(true), false),
            (&[plain], Some(false), false),
            (&[unknown], Some(false), false),
            (&[plain, hello, numbered], Some(false), false),
            (&[hello, plain], Some(true), true),
        ] {
            let peer = after(frames);
            assert_eq!(peer.resumes(), resumes, "{frames:?}");
            assert_eq!(peer.has(Capability::ArtifactUploadDecline), declines, "{frames:?}");
        }
    }
}
