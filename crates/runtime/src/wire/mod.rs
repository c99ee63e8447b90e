//! PURE: the words of the wire, both directions, in their one home.
//!
//! [`client_message`] is what a client says, [`runtime_message`] what a runtime says. Each message is one type, which one end
//! writes and the other reads; a direction is an enum of them, tagged by `message_type`. [`frame`] is what stands around a
//! message, [`capability`] what an end may say only to a peer that announced it, [`json`] how another program's JSON is read.
//! [`reply`] makes a runtime's messages so that they fit a frame, by the arithmetic of [`fitting`].
//!
//! A message to be added: its type and its row in one of the two enums; a row in [`capability`] when older peers don't know it.

/// The messages of one direction: what is written and what is read comes from this one list.
///
/// Written as serde writes a tagged enum. Read by the tag first and then straight into the type: what serde does with a tag
/// would hold the whole frame, fields that nobody knows included, in memory at many times its size.
macro_rules! messages {
    ($(#[$doc:meta])* enum $name:ident { $($(#[$note:meta])* $tag:literal => $variant:ident $(($body:ty))?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "message_type")]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $tag)] $variant $(($body))?,)*
            /// A type that nobody here knows: newer peers may send them.
            #[serde(skip)]
            Unknown,
        }

        impl $name {
            /// The message of a frame with this `message_type`; why it is none, in words for the peer.
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
