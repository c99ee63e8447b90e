//! PURE: the bytes of an input, as choices and matter.

/// Small choices off the beginning of an input; what is left is the matter.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// A number below `bound`; 0 when nothing is left.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % bound
    }

    /// The rest in pieces of one chosen length.
    pub(crate) fn pieces(mut self) -> (&'a [u8], impl Iterator<Item = &'a [u8]>) {
        let step = 1 + self.below(16);
        (self.0, self.0.chunks(step))
    }
}
