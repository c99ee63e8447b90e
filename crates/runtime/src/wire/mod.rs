//! PURE: the messages of the protocol, in both directions.
//!
//! [`client_message`] has the messages of a client, [`runtime_message`] those of a runtime. Each message is one type, which one
//! end writes and the other reads. A direction is an enum of these types, tagged by `message_type`. [`frame`] is the envelope of
//! a message. [`capability`] lists the features that are used only with a peer that announced them. [`json`] reads the JSON of
//! other programs. [`reply`] builds a runtime's messages so that they fit a frame, with the arithmetic of [`fitting`].
//!
//! To add a message: add its type and its row in one of the two enums. Add a row in [`capability`] when older peers don't know
//! it.

/// The messages of one direction. The code that writes them and the code that reads them are generated from this list.
///
/// They are written as serde writes a tagged enum. Reading decodes the tag first and then the message's type. serde's own way of
/// reading a tagged enum would hold the whole frame in memory at many times its size, unknown fields included.
macro_rules! messages {
    ($(#[$doc:meta])* enum $name:ident { $($(#[$note:meta])* $tag:literal => $variant:ident $(($body:ty))?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "message_type")]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $tag)] $variant $(($body))?,)*
            /// A message of an unknown type. Newer peers may send such messages.
            #[serde(skip)]
            Unknown,
        }

        impl $name {
            /// Reads the message of a frame with this `message_type`. The error says why it is invalid, worded for the peer.
            pub(crate) fn read(tag: &str, frame: &str) -> Result<$name, String> {
                Ok(match tag {
                    $($tag => messages!(@read $name $variant frame $($body)?),)*
                    _ => $name::Unknown,
                })
            }
        }
    };
    (@read $name:ident $variant:ident $frame:ident $body:ty) => {
        $name::$variant(crate::wire::json::read::<$body>($frame)?)
    };
    (@read $name:ident $variant:ident $frame:ident) => { $name::$variant };
}

pub mod capability;
pub mod client_message;
pub mod fitting;
pub mod frame;
pub mod json;
pub mod reply;
pub mod runtime_message;
