//! The macro [`stored_enum!`] for enums that preserve unknown names, so that a value that a later version wrote can
//! be read and written back unchanged.

/// Defines an enum with a stored name for each variant, and the variant `Other` for every other name. Generates
/// `as_str`, the conversions from and to strings, `Display` and the serde form, which is the name as a JSON string.
macro_rules! stored_enum {
    (
        $(#[$doc:meta])*
        pub enum $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A name that this version does not know.
            Other(String),
        }

        impl $name {
            /// Returns the stored name.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(name) => name,
                }
            }
        }

        /// Parses a stored name. An unknown name becomes `Other`.
        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)*
                    name => Self::Other(name.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self::from(name.as_str())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use stored_enum;
