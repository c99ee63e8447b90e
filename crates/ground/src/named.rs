//! PURE. Enums whose variants have a name each, for JSON, options and messages.

#[doc(hidden)]
pub use serde;

/// Declares such an enum, which is its name in JSON: `named! { pub enum Level { Plan = "plan", Auto = "auto" } }`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$note:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The one with this name.
            pub fn parse(name: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.as_str() == name)
            }
        }

        impl $crate::named::serde::Serialize for $name {
            fn serialize<S: $crate::named::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }
    };
}
