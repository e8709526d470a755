//! Types that accumulates compute with.

use bytemuck::Pod;

use crate::win::Datatype;

mod sealed {
    pub trait Sealed {}
}

/// An integer or floating-point type that accumulates, fetching operations and compare-and-swap work on.
pub trait Element: Pod + sealed::Sealed {
    /// The element type in layouts.
    const DATATYPE: Datatype;
}

macro_rules! elements {
    ($($type:ty: $datatype:ident,)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DATATYPE: Datatype = Datatype::$datatype;
            }
        )*
    };
}

elements! {
    i8: Int8,
    i16: Int16,
    i32: Int32,
    i64: Int64,
    u8: Uint8,
    u16: Uint16,
    u32: Uint32,
    u64: Uint64,
    f32: Float,
    f64: Double,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<T: Element>() {
        assert_eq!(T::DATATYPE.size(), size_of::<T>());
        assert_eq!(
            T::DATATYPE.is_float(),
            T::DATATYPE as u32 >= Datatype::Float as u32
        );
    }

    #[test]
    fn sizes_agree() {
        agree::<i8>();
        agree::<i16>();
        agree::<i32>();
        agree::<i64>();
        agree::<u8>();
        agree::<u16>();
        agree::<u32>();
        agree::<u64>();
        agree::<f32>();
        agree::<f64>();
    }
}
