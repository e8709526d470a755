//! Enumerations whose values have names.

/// Defines an enumeration: its values, all of them in their order as `ALL`, and their names as text.
#[macro_export]
macro_rules! named_enum {
    ($(#[$doc:meta])* $visible:vis enum $type:ident { $($(#[$about:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visible enum $type { $($(#[$about])* $value,)* }

        impl $type {
            /// Every value.
            $visible const ALL: [$type; [$($name),*].len()] = [$($type::$value),*];

            /// The name.
            $visible const fn name(self) -> &'static str {
                match self { $($type::$value => $name,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
