import { toJson } from '../../json'
import { invalidOption } from '../../error'
import { show } from '../../option'

/** Input that the agent asks of the user: fields of a form, or a page to visit. */
export interface ElicitationRequest {
  /** Id of the request. */
  id: string
  /** The agent's message, for people. */
  message: string
  /** `"form"`: the fields of `schema` are to be filled in. `"url"`: the user is to visit `url`. */
  mode: 'form' | 'url'
  /** JSON Schema of the fields: an object with plain values. Only for a form. */
  schema?: object
  /** Page that the user is to visit. Check it before you open it: the agent chose it. */
  url?: string
  /** Id of the tool call that needs the input, as in the event `tool_start`. */
  toolCallId?: string
}

/** Answer to an elicitation. `content` has the fields of a form. */
export type ElicitationAnswer =
  | {
      /** The user has given the input, or has agreed to visit the page. */
      action: 'accept'
      /** Fields of the form, by their names. */
      content?: Record<string, string | number | boolean | string[]>
    }
  | {
      /** `"decline"`: the user refuses. `"cancel"`: the user leaves it open. */
      action: 'decline' | 'cancel'
    }

/** @internal The action, and the content as JSON. */
export function readElicitationAnswer(answer: ElicitationAnswer | undefined): [string, string | undefined] {
  const { action } = answer ?? {}
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
    throw invalidOption(
      'onElicitation',
      `expected { action: "accept" | "decline" | "cancel" } as its answer, got ${show(answer)}`,
    )
  const content = action === 'accept' ? (answer as { content?: object }).content : undefined
  if (content !== undefined && (content === null || typeof content !== 'object' || Array.isArray(content)))
    throw invalidOption(
      'onElicitation',
      `content: expected an object with the fields of the form, got ${show(content)}`,
    )
  return [action, content && toJson('content', content)]
}
