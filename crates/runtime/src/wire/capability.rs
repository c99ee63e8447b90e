//! PURE: the features of an end beyond the protocol that every peer knows. Both ends announce theirs in hello. A message that
//! needs a feature is sent only to a peer that announced it.

use ground::named;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

named! {
    /// A feature of an end.
    pub enum Capability {
        /// Every message that concerns a request carries `request_id`.
        RequestId = "request_id",
        /// Messages are numbered and acknowledged.
        Seq = "seq",
        /// A session outlives its socket.
        Resume = "resume",
        /// A client with it accepts `artifact_upload_result_message`. A runtime with it sends that message.
        ArtifactUploadResult = "artifact_upload_result",
        /// A runtime with it understands `artifact_upload_decline_message`. A client with it sends that message.
        ArtifactUploadDecline = "artifact_upload_decline",
    }
}

/// A peer's capabilities. On the wire they are a list of names; unknown names are ignored.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(u8);

impl Capabilities {
    /// The capabilities of this implementation, at both ends.
    pub const OURS: Capabilities = Capabilities((1 << Capability::ALL.len()) - 1);

    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }

    fn add(&mut self, name: &str) {
        if let Some(known) = Capability::parse(name) {
            self.0 |= 1 << known as u8;
        }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        Capability::ALL.into_iter().filter(move |known| self.has(*known)).map(Capability::as_str)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Capabilities, D::Error> {
        let mut capabilities = Capabilities::default();
        Vec::<String>::deserialize(from)?.iter().for_each(|name| capabilities.add(name));
        Ok(capabilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_announces_is_what_it_has() {
        let peer: Capabilities = ground::json::read(r#"["resume","from_the_future","resume"]"#).unwrap();
        assert!(peer.has(Capability::Resume) && !peer.has(Capability::ArtifactUploadResult));
        let ours = serde_json::to_string(&Capabilities::OURS).unwrap();
        assert_eq!(ground::json::read::<Capabilities>(&ours).unwrap(), Capabilities::OURS);
        assert_eq!(Capability::ALL.len(), ground::json::read::<Vec<String>>(&ours).unwrap().len());
    }
}
