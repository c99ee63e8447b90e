// Text of others that is written where a terminal may read it. PURE.
import { stripVTControlCharacters } from 'node:util'

/** C0 but tab and line feed, DEL, C1, and the characters that reorder the text around them. */
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Text that a terminal only prints: a lone carriage return becomes a line feed, other control characters are removed. */
export function harmless(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\r+\n?/g, '\n')
    .replace(controls, '')
}
