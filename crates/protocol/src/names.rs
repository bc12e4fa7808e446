//! The macro [`named_enum!`](crate::named_enum) for enums whose variants have one stable name in columns, in JSON and
//! on screen.

/// Defines an enum whose variants are stored and shown under stable names.
///
/// Each variant is declared with its name (`Pending = "pending"`). The macro generates `ALL`, `as_str`, `from_name`
/// and the serde form, which is the name as a JSON string. An unknown name is a deserialization error; `event::names`
/// has a macro for enums that preserve unknown names.
///
/// A crate that uses the macro needs `serde` as a dependency.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        $visibility enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Returns the stable name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the variant with this name; `None` for an unknown name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
