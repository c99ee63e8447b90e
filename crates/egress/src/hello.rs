//! The server's name in the first message of TLS. PURE.

/// The most bytes of a first message that are kept.
pub(crate) const MAX_BYTES: usize = 64 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

/// The first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// More bytes are needed.
    Unfinished,
    /// Not TLS, or broken.
    Foreign,
    /// A first message of TLS, and the name of the server that it wants.
    Tls(Option<String>),
}

pub(crate) fn read(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        match rest {
            [] => return Hello::Unfinished,
            [HANDSHAKE] | [HANDSHAKE, 3, ..] => {}
            _ => return Hello::Foreign,
        }
        let Some((header, after)) = rest.split_first_chunk::<RECORD_HEADER>() else {
            return Hello::Unfinished;
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let part = after.get(..length).unwrap_or(after);
        message.extend_from_slice(part);
        match message.split_first_chunk::<MESSAGE_HEADER>() {
            Some(([CLIENT_HELLO, high, middle, low], body)) => {
                let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
                if length > MAX_BYTES {
                    return Hello::Foreign;
                }
                if let Some(body) = body.get(..length) {
                    return name_in(body).map_or(Hello::Foreign, Hello::Tls);
                }
            }
            Some(_) => return Hello::Foreign,
            None => {}
        }
        if part.len() < length {
            return Hello::Unfinished;
        }
        // An empty record would never come to an end.
        if length == 0 {
            return Hello::Foreign;
        }
        rest = after.get(length..).unwrap_or_default();
    }
}

/// Outer `None`: broken.
fn name_in(body: &[u8]) -> Option<Option<String>> {
    // Version, random.
    let mut body = Reader(body.get(34..)?);
    body.bytes_u8()?;
    body.bytes_u16()?;
    body.bytes_u8()?;
    if body.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(body.bytes_u16()?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let data = extensions.bytes_u16()?;
        if kind != SERVER_NAME {
            continue;
        }
        let mut names = Reader(Reader(data).bytes_u16()?);
        while !names.0.is_empty() {
            let kind = names.u8()?;
            let name = names.bytes_u16()?;
            // Two names, of which a server might take another one than this reader.
            if kind != HOST_NAME || found.is_some() {
                return None;
            }
            found = Some(String::from_utf8(name.to_vec()).ok()?);
        }
    }
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
    }

    fn bytes_u8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    fn bytes_u16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_length(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &with_length(data)].concat()
    }

    fn named(name: &str) -> Vec<u8> {
        extension(0, &with_length(&[&[0][..], &with_length(name.as_bytes())].concat()))
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0], &with_length(&[0x13, 1]), &[1, 0], &with_length(extensions)]
            .concat();
        [&[1, 0][..], &with_length(&body)].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &with_length(part)].concat()).collect()
    }

    pub(crate) fn hello_for(name: &str) -> Vec<u8> {
        records(&message(&[extension(43, &[2, 3, 4]), named(name)].concat()), 4096)
    }

    #[test]
    fn the_name_is_read_whatever_the_records() {
        let message = message(&[extension(10, &[1]), named("a.example"), extension(16, &[])].concat());
        for size in [1, 3, 50, 4096] {
            let bytes = records(&message, size);
            assert_eq!(read(&bytes), Hello::Tls(Some("a.example".into())), "{size}");
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Hello::Unfinished, "{size} {end}");
            }
        }
    }

    #[test]
    fn what_is_no_single_name_is_none() {
        assert_eq!(read(&records(&message(&[]), 4096)), Hello::Tls(None));
        let two = [named("a.example"), named("b.example")].concat();
        assert_eq!(read(&records(&message(&two), 4096)), Hello::Foreign);
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"SSH-2.0-x",
            &[22, 2, 0, 0, 0],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 4, 2, 0, 0, 0],
        ] {
            assert_eq!(read(bytes), Hello::Foreign, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..200, byte: u8) {
            let _ = read(&bytes);
            let mut torn = hello_for("a.example");
            if let Some(place) = torn.get_mut(at) {
                *place = byte;
            }
            let _ = read(&torn);
            // More bytes do not change the name.
            let longer = [&torn[..], &bytes].concat();
            if let Hello::Tls(name) = read(&torn) {
                prop_assert_eq!(read(&longer), Hello::Tls(name));
            }
        }
    }
}
