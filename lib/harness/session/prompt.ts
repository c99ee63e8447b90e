// A prompt of a session: text, or parts of several kinds, and how they cross to the core.
import type { PromptPartSpec } from '../../../native/native'
import { check } from '../../option'

/** A part of a prompt. */
export type PromptPart =
  | {
      /** Kind of the part. */
      type: 'text'
      /** The text. */
      text: string
    }
  | {
      /** Kind of the part. */
      type: 'image'
      /** Media type of the image, for example `"image/png"`. */
      mimeType: string
      /** The image, as bytes or in base64. */
      data: Uint8Array | string
    }
  | {
      /** Kind of the part. */
      type: 'resource'
      /** Address of the resource, for example `"file:///work/src/main.rs"`. */
      uri: string
      /** Text of the resource. Without it, the agent reads the resource itself. */
      text?: string
      /** Media type of the resource. */
      mimeType?: string
    }

const data = check.expected(
  'a Uint8Array or base64',
  (value) => value instanceof Uint8Array || typeof value === 'string',
)
const type = check.string
const checks = {
  text: check.fields({ type, text: check.string }, 'text'),
  image: check.fields({ type, mimeType: check.name, data }, 'mimeType', 'data'),
  resource: check.fields({ type, uri: check.name, text: check.string, mimeType: check.name }, 'uri'),
}

const checkKind: (path: string, value: unknown) => asserts value is keyof typeof checks = check.oneOf(
  'text',
  'image',
  'resource',
)

export function checkPrompt(prompt: unknown): void {
  if (typeof prompt === 'string') return
  checkParts('prompt', prompt)
}

const checkParts = check.listOf((path, part) => {
  check.object(path, part)
  const { type } = part as { type?: unknown }
  checkKind(`${path}.type`, type)
  checks[type](path, part)
}, 'a string or an array of parts')

/** @internal The words of a prompt, and its parts where it has others than text. */
export function promptSpec(prompt: string | readonly PromptPart[]): {
  text: string
  parts?: PromptPartSpec[]
} {
  if (typeof prompt === 'string') return { text: prompt }
  const text = prompt.map((part) => (part.type === 'text' ? part.text : '')).join('')
  if (prompt.every(({ type }) => type === 'text')) return { text }
  return { text, parts: prompt.map(partSpec) }
}

function partSpec(part: PromptPart): PromptPartSpec {
  if (part.type !== 'image') return part
  const { type, mimeType, data } = part
  return { type, mimeType, data: typeof data === 'string' ? data : Buffer.from(data).toString('base64') }
}
